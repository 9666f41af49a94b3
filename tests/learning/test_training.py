from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor

from feduplink import (
    GraphPolicy,
    InputError,
    PerceptronPolicy,
    Scenario,
    Training,
    TrainingData,
    TrainingSettings,
    draw_csi,
    judge,
    save_policy,
)
from feduplink.evaluation import judge_policy
from feduplink.training import Expectations, primal_dual_step
from recorder import Stop, StopAt

SCENARIO = Scenario(workers=3)
SETTINGS = TrainingSettings(epochs=6, batch_size=16, learning_rate=0.01)


@pytest.fixture(scope="module")
def data() -> TrainingData:
    csi = draw_csi(SCENARIO, 80, torch.Generator().manual_seed(0))
    return TrainingData(csi[:40], csi[40:], functools.partial(draw_csi, SCENARIO))


def make_training(data: TrainingData, settings: TrainingSettings = SETTINGS, **kwargs) -> Training:
    return Training(GraphPolicy.initialised(SCENARIO), data, settings, **kwargs)


def same_weights(one: Training, other: Training) -> bool:
    weights, others = one.policy.state_dict(), other.policy.state_dict()
    return all(torch.equal(weights[name], others[name]) for name in weights)


def test_fresh_channels_are_refused_where_none_can_be_drawn(data):
    recorded = TrainingData(data.training, data.validation)
    settings = SETTINGS.model_copy(update={"fresh_channels": True})
    with pytest.raises(InputError, match=r"^fresh_channels: the channels are recorded"):
        Training(GraphPolicy.initialised(SCENARIO), recorded, settings)


@pytest.mark.parametrize("fresh_channels", [False, True])
@pytest.mark.parametrize("stop", [1, 4])
def test_resumed_run_equals_one_left_alone(data, tmp_path, fresh_channels, stop):
    settings = SETTINGS.model_copy(update={"fresh_channels": fresh_channels})
    whole = make_training(data, settings)
    whole.run()

    stopped = make_training(data, settings)
    with pytest.raises(Stop):
        stopped.run([StopAt(stop, "epochs")])
    stopped.save(tmp_path / "checkpoint.safetensors")
    # All that the next epoch depends on is in the checkpoint, the weights included.
    resumed = Training(GraphPolicy.initialised(SCENARIO, seed=9), data, settings)
    resumed.resume(tmp_path / "checkpoint.safetensors")
    assert len(resumed.history) == stop
    resumed.run()

    assert resumed.history == whole.history
    assert same_weights(resumed, whole)


def test_checkpoint_from_before_the_first_epoch_resumes_too(data, tmp_path):
    whole, fresh, resumed = (make_training(data) for _ in range(3))
    fresh.save(tmp_path / "checkpoint.safetensors")
    resumed.resume(tmp_path / "checkpoint.safetensors")
    assert resumed.run() == whole.run()
    assert same_weights(resumed, whole)


def test_finished_run_resumes_to_its_best_weights(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    finished, resumed = make_training(data), make_training(data)
    best = finished.run(checkpoint=checkpoint)
    resumed.resume(checkpoint)
    assert resumed.finished
    assert resumed.run() == best
    assert same_weights(resumed, finished)


def test_seed_decides_the_batches(data):
    first, again, other = (make_training(data, seed=seed) for seed in (1, 1, 2))
    for training in (first, again, other):
        training.run()
    assert first.history == again.history != other.history


def test_policy_ends_with_the_weights_of_the_best_epoch(data):
    training = make_training(data)
    best = training.run()
    powers = training.policy.allocate(data.validation)
    verdict = judge(SCENARIO, data.validation, powers)
    assert verdict.objective == best.objective
    assert verdict.violation == best.violation


def test_stops_after_patience_without_improvement_since_a_feasible_epoch(data):
    # No constraint to miss, and steps too small to show: the first epoch stays the best.
    scenario = SCENARIO.replace(rate_min=0, ee_min=0)
    settings = TrainingSettings(epochs=50, patience=3, learning_rate=1e-30, weight_decay=0)
    training = Training(GraphPolicy.initialised(scenario), data, settings)
    assert training.run().number == 0
    assert len(training.history) == 4


def test_does_not_lose_patience_before_a_feasible_epoch(data):
    scenario = SCENARIO.replace(rate_min=40)
    settings = TrainingSettings(epochs=8, patience=1, learning_rate=1e-30)
    training = Training(GraphPolicy.initialised(scenario), data, settings)
    training.run()
    assert len(training.history) == 8


def test_step_moves_the_weights_up_the_lagrangian(data):
    """The first step has no multipliers to climb by, the second has."""
    training = make_training(data)
    policy, problem = training.policy, training.problem
    optimizer = torch.optim.SGD(policy.parameters(), lr=100.0)  # multipliers begin tiny

    def weights() -> Tensor:
        return torch.cat([w.detach().flatten() for w in policy.parameters()])

    start = weights()
    state = primal_dual_step(policy, optimizer, problem, data.training, None, SETTINGS)
    assert torch.equal(weights(), start)

    def lagrangian() -> float:
        expected = Expectations.estimate(problem, data.training, policy(data.training))
        return state.lagrangian(expected).item()

    before = lagrangian()
    primal_dual_step(policy, optimizer, problem, data.training, state, SETTINGS)
    assert lagrangian() > before


@pytest.mark.parametrize(
    ("another", "name"),
    [
        ({"policy": GraphPolicy(SCENARIO.replace(pmax_dbw=-30))}, "scenario"),
        ({"policy": PerceptronPolicy(SCENARIO)}, "policy"),
        ({"settings": TrainingSettings(batch_size=7)}, "settings"),
        ({"seed": 1}, "seed"),
        ({"data": TrainingData(torch.ones(40, 3, 3), torch.ones(40, 3, 3))}, "channel set"),
    ],
)
def test_resuming_another_run_is_refused(data, tmp_path, another, name):
    checkpoint = tmp_path / "checkpoint.safetensors"
    make_training(data).save(checkpoint)
    own = {"policy": GraphPolicy(SCENARIO), "data": data, "settings": SETTINGS}
    with pytest.raises(InputError, match=f"made with another {name}"):
        Training(**{**own, **another}).resume(checkpoint)


def test_damaged_or_foreign_checkpoint_is_refused(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    training = make_training(data)
    training.save(checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"^training checkpoint: .* damaged"):
        training.resume(checkpoint)
    with pytest.raises(InputError, match="holds a policy; accepted: a training checkpoint"):
        training.resume(save_policy(training.policy, tmp_path))


@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        (torch.full((20, 3, 3), torch.nan), "csi: holds NaN"),
        (torch.zeros(20, 3, 3), "csi: holds a negative or zero gain"),
        (torch.ones(20, 4, 4), "csi: 4 workers; accepted here: exactly 3"),
    ],
)
def test_bad_channels_are_refused_before_training(data, csi, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        make_training(TrainingData(csi, data.validation))
    with pytest.raises(InputError, match=f"^{sentence}"):
        make_training(TrainingData(data.training, csi))


def test_a_policy_for_noisy_channels_learns_from_what_it_will_see(data):
    """What it is judged by while training is what an evaluation with the same noise says."""
    noisy = SCENARIO.replace(csi_noise=1e5)
    training = Training(GraphPolicy.initialised(noisy), data, SETTINGS)
    clean = make_training(data)
    best = training.run()
    clean.run()
    assert not same_weights(training, clean)
    verdict = judge_policy(training.policy, data.validation, noisy)
    assert best.objective == pytest.approx(verdict.objective)
    assert best.objective != judge_policy(training.policy, data.validation, SCENARIO).objective


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("kind", [GraphPolicy, PerceptronPolicy])
@pytest.mark.parametrize("fresh_channels", [False, True])
def test_a_policy_trains_on_the_device_it_is_on(data, tmp_path, kind, fresh_channels):
    settings = SETTINGS.model_copy(update={"fresh_channels": fresh_channels})
    here = Training(kind.initialised(SCENARIO), data, settings)
    there = Training(kind.initialised(SCENARIO).to("cuda"), data, settings)
    here.run()
    with pytest.raises(Stop):
        there.run([StopAt(3, "epochs")])
    there.save(tmp_path / "checkpoint.safetensors")
    there = Training(kind.initialised(SCENARIO).to("cuda"), data, settings)
    there.resume(tmp_path / "checkpoint.safetensors")
    there.run()
    assert all(weights.is_cuda for weights in there.policy.parameters())
    for one, other in zip(here.history, there.history, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-3)


def test_a_checkpoint_of_another_format_is_refused(data, tmp_path, monkeypatch):
    make_training(data).save(tmp_path / "checkpoint.safetensors")
    monkeypatch.setattr("feduplink.training.trainer._FORMAT", 0)
    with pytest.raises(InputError, match="made with another format"):
        make_training(data).resume(tmp_path / "checkpoint.safetensors")


def test_a_run_knows_a_policy_by_its_class_and_not_by_its_code(data, tmp_path, monkeypatch):
    class Mine(GraphPolicy):
        """Named as the one it derives from."""

    def training() -> Training:
        return Training(Mine.initialised(SCENARIO), data, SETTINGS)

    checkpoint = tmp_path / "checkpoint.safetensors"
    training().save(checkpoint)
    with pytest.raises(InputError, match="made with another policy"):
        make_training(data).resume(checkpoint)
    monkeypatch.setattr(Mine, "powers", lambda self, csi: csi.diagonal(dim1=-2, dim2=-1) * 0)
    training().resume(checkpoint)


def test_another_scenario_is_refused_with_the_setting_that_differs(data, tmp_path):
    make_training(data).save(tmp_path / "checkpoint.safetensors")
    other = GraphPolicy.initialised(SCENARIO.replace(bandwidth_hz=2e5))
    with pytest.raises(InputError, match=r"made with another scenario \(bandwidth_hz\)"):
        Training(other, data, SETTINGS).resume(tmp_path / "checkpoint.safetensors")
