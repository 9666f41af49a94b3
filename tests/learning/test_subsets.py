from __future__ import annotations

import pytest
import torch
from torch import Tensor

from feduplink import (
    GraphPolicy,
    InputError,
    PerceptronPolicy,
    Problem,
    Scenario,
    Training,
    TrainingData,
    TrainingSettings,
    draw_csi,
    link,
)
from feduplink.training import (
    Expectations,
    PrimalDualState,
    draw_subset,
    primal_dual_step,
    subset_powers,
)
from recorder import Stop, StopAt

SCENARIO = Scenario(workers=5, weights=(1.0, 2.0, 3.0, 4.0, 5.0))
SETTINGS = TrainingSettings(epochs=3, batch_size=16, learning_rate=0.01)


@pytest.fixture(scope="module")
def data() -> TrainingData:
    csi = draw_csi(SCENARIO, 80, torch.Generator().manual_seed(0))
    return TrainingData(csi[:40], csi[40:])


def trained(data: TrainingData, subset_workers: int | None) -> Training:
    settings = SETTINGS.model_copy(update={"subset_workers": subset_workers})
    training = Training(GraphPolicy.initialised(SCENARIO), data, settings)
    training.run()
    return training


def step(csi: Tensor, subset: Tensor, state: PrimalDualState | None) -> PrimalDualState:
    policy = GraphPolicy.initialised(SCENARIO)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.0)
    problem = Problem.from_scenario(SCENARIO)
    return primal_dual_step(policy, optimizer, problem, csi, state, SETTINGS, subset=subset)


def test_a_subset_of_all_workers_is_training_on_the_whole_cell(data):
    whole, subset, smaller = (trained(data, size) for size in (None, 5, 3))
    assert subset.history == whole.history
    assert smaller.history != whole.history
    for name, weights in whole.policy.state_dict().items():
        assert torch.equal(subset.policy.state_dict()[name], weights)


def test_the_subset_hears_only_itself(data):
    """SINRs are those of the principal submatrix of H."""
    policy = GraphPolicy.initialised(SCENARIO)
    subset = torch.tensor([0, 2, 3])
    power = subset_powers(policy, data.training, subset)
    assert (power[:, [1, 4]] == 0).all()
    part = data.training[:, subset][:, :, subset]
    torch.testing.assert_close(
        link.sinr(data.training, power)[:, subset], link.sinr(part, policy(part))
    )


def test_only_the_subsets_variables_move(data):
    """Multipliers above 0 and no expectation at its target: every variable of a worker moves."""
    before = PrimalDualState(
        achieved=torch.full((5,), 2.0),
        required=torch.full((2, 5), 200.0),
        objective_multiplier=torch.ones(5),
        constraint_multiplier=torch.ones(2, 5),
    )
    after = step(data.training, torch.tensor([1, 4]), before).tensors()
    for name, old in before.tensors().items():
        moved = (after[name] != old).reshape(-1, 5)
        assert moved[:, [1, 4]].all(), name
        assert not moved[:, [0, 2, 3]].any(), name


def test_steps_are_longer_the_fewer_are_drawn(data):
    """y moves by γ (L/K) (∇g(y) − λ_y); here ∇g = ω and λ_y = 0."""
    zero, zeros = torch.zeros(5), torch.zeros(2, 5)
    for subset in ([0, 1], [0, 1, 2], [0, 1, 2, 3, 4]):
        state = PrimalDualState(zero, zeros, zero, zeros)
        moved = step(data.training, torch.tensor(subset), state).achieved[0]
        assert moved == pytest.approx(SETTINGS.primal_dual_step * 5 / len(subset) * 1.0)


def test_workers_outside_the_first_subset_start_at_the_mean_of_those_in_it():
    expected = Expectations(
        torch.tensor([0.6, 0.0, 0.8]), torch.tensor([[1.0, torch.nan, 3.0], [60.0, torch.nan, 50]])
    )
    problem = Problem.from_scenario(Scenario(workers=3))
    subset = torch.tensor([0, 2])
    state = PrimalDualState.start(problem, expected, "first-batch", subset)
    assert state.achieved.tolist() == pytest.approx([0.6, 0.7, 0.8])
    assert state.required.flatten().tolist() == pytest.approx([1, 2, 3, 60, 55, 50])


def test_the_order_of_the_subset_does_not_matter(data):
    csi, order = data.training, torch.tensor([2, 0, 1])
    subset = torch.tensor([0, 2, 3])
    start = step(csi, subset, None)
    one, other = step(csi, subset, start), step(csi, subset[order], start)
    for name, tensor in one.tensors().items():
        torch.testing.assert_close(other.tensors()[name], tensor, msg=name)


def test_every_worker_is_drawn_equally_often():
    generator = torch.Generator().manual_seed(0)
    subsets = torch.stack([draw_subset(2, 5, generator) for _ in range(2000)])
    assert (subsets[:, 0] < subsets[:, 1]).all()
    # 800 expected, standard deviation 22.
    assert ((subsets.flatten().bincount(minlength=5) - 800).abs() < 100).all()


def test_resumed_run_draws_the_subsets_it_would_have_drawn(data, tmp_path):
    settings = SETTINGS.model_copy(update={"subset_workers": 2})
    stopped = Training(GraphPolicy.initialised(SCENARIO), data, settings)
    with pytest.raises(Stop):
        stopped.run([StopAt(2, "epochs")])
    stopped.save(tmp_path / "checkpoint.safetensors")
    resumed = Training(GraphPolicy.initialised(SCENARIO, 9), data, settings)
    resumed.resume(tmp_path / "checkpoint.safetensors")
    resumed.run()
    assert resumed.history == trained(data, 2).history


@pytest.mark.parametrize(
    ("policy", "size", "sentence"),
    [
        (PerceptronPolicy(SCENARIO), 3, r"^subset_workers: pdm takes exactly 5 workers; accepted"),
        (GraphPolicy(SCENARIO), 6, r"^subset_workers: 6 of 5 workers; accepted: none, or 1 to 5"),
    ],
)
def test_subsets_that_make_no_sense_are_refused(data, policy, size, sentence):
    with pytest.raises(InputError, match=sentence):
        Training(policy, data, SETTINGS.model_copy(update={"subset_workers": size}))
