from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from feduplink import (
    GraphPolicy,
    InputError,
    PerceptronPolicy,
    Scenario,
    TrainingSettings,
    draw_csi,
    save_policy,
)
from feduplink.channels import Channels, make_channels
from feduplink.policies import FullPower, LearnedSchedule, UnrolledPolicy
from feduplink.progress import Callback, report_to
from feduplink.registry import POLICIES, TRAINABLE
from feduplink.scheduling import PhaseNetwork
from feduplink.storage.tensorfile import TensorFile, read_tensors, write_tensors
from feduplink.tracking import CsvLog
from feduplink.training import (
    Checkpoint,
    Epoch,
    LearningAlgorithm,
    NetworkEpoch,
    PrimalDualLearning,
    Trainer,
    TrainingCallback,
    make_trainer,
)
from recorder import Recorder, Stop, StopAt
from splits import split_channels

SCENARIO = Scenario(workers=3)
SETTINGS = TrainingSettings(epochs=6, batch_size=16, learning_rate=0.01)


@pytest.fixture(scope="module")
def data() -> Channels:
    csi = draw_csi(SCENARIO, 80, torch.Generator().manual_seed(0))
    return split_channels(csi[:40], csi[40:], SCENARIO)


def pdg_trainer(
    data: Channels,
    settings: TrainingSettings = SETTINGS,
    *,
    scenario: Scenario = SCENARIO,
    weights_seed: int = 0,
    seed: int = 0,
) -> Trainer[Epoch]:
    policy = GraphPolicy.initialised(scenario, weights_seed)
    return Trainer(PrimalDualLearning(policy, data, settings, seed=seed))


def same_weights(one: Trainer, other: Trainer) -> bool:
    weights, others = (trainer.algorithm.network.state_dict() for trainer in (one, other))
    return all(torch.equal(weights[name], others[name]) for name in weights)


# Resume


@pytest.mark.parametrize("fresh_channels", [False, True])
@pytest.mark.parametrize("stop", [1, 4])
def test_resumed_run_equals_an_uninterrupted_one(data, tmp_path, fresh_channels, stop):
    settings = SETTINGS.replace(fresh_channels=fresh_channels)
    whole, stopped = pdg_trainer(data, settings), pdg_trainer(data, settings)
    whole.run()
    with pytest.raises(Stop):
        stopped.run([StopAt(stop, "epochs")])
    stopped.save(tmp_path / "checkpoint.safetensors")
    # Everything that the next epoch depends on is in the checkpoint, the weights included.
    resumed = pdg_trainer(data, settings, weights_seed=9)
    resumed.resume(tmp_path / "checkpoint.safetensors")
    assert len(resumed.history) == stop
    resumed.run()
    assert resumed.history == whole.history
    assert same_weights(resumed, whole)


def test_a_checkpoint_from_before_the_first_epoch_resumes(data, tmp_path):
    whole, fresh, resumed = (pdg_trainer(data) for _ in range(3))
    fresh.save(tmp_path / "checkpoint.safetensors")
    resumed.resume(tmp_path / "checkpoint.safetensors")
    assert resumed.run() == whole.run()
    assert same_weights(resumed, whole)


def test_a_finished_run_resumes_to_its_best_weights(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    finished, resumed = pdg_trainer(data), pdg_trainer(data)
    best = finished.run(checkpoint=checkpoint)
    resumed.resume(checkpoint)
    assert resumed.is_finished
    assert resumed.run() == best
    assert same_weights(resumed, finished)


def test_a_finished_run_resumes_with_more_epochs(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    pdg_trainer(data, SETTINGS.replace(epochs=2)).run(checkpoint=checkpoint)
    whole, resumed = pdg_trainer(data), pdg_trainer(data)
    resumed.resume(checkpoint)
    assert resumed.run() == whole.run()
    assert same_weights(resumed, whole)


def test_a_checkpoint_saved_after_a_run_continues_from_the_last_epoch(data, tmp_path):
    """Not from the best one, whose weights the network has."""
    short, whole, resumed = (
        pdg_trainer(data, SETTINGS.replace(epochs=epochs)) for epochs in (4, 6, 6)
    )
    short.run()
    short.save(tmp_path / "checkpoint.safetensors")
    resumed.resume(tmp_path / "checkpoint.safetensors")
    assert resumed.run() == whole.run()
    assert resumed.history == whole.history


def test_seed_determines_the_batches(data):
    first, again, other = (pdg_trainer(data, seed=seed) for seed in (1, 1, 2))
    for trainer in (first, again, other):
        trainer.run()
    assert first.history == again.history != other.history


@pytest.mark.parametrize(
    ("another", "name"),
    [
        ({"policy": GraphPolicy(SCENARIO.replace(bandwidth_hz=2e5))}, r"scenario \(bandwidth_hz\)"),
        ({"policy": PerceptronPolicy(SCENARIO)}, "policy"),
        ({"settings": SETTINGS.replace(batch_size=7)}, r"settings \(batch_size\)"),
        ({"seed": 1}, "seed"),
        ({"channels": split_channels(torch.ones(40, 3, 3), torch.ones(40, 3, 3))}, "channel set"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(data, tmp_path, another, name):
    checkpoint = tmp_path / "checkpoint.safetensors"
    pdg_trainer(data).save(checkpoint)
    own = {"policy": GraphPolicy(SCENARIO), "channels": data, "settings": SETTINGS}
    with pytest.raises(InputError, match=f"made with another {name}"):
        Trainer(PrimalDualLearning(**{**own, **another})).resume(checkpoint)


def test_a_checkpoint_of_another_algorithm_is_refused(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    pdg_trainer(data).save(checkpoint)
    channels = make_channels(SCENARIO, 10)
    with pytest.raises(InputError, match="made with another algorithm"):
        make_trainer("pdx", SCENARIO, channels).resume(checkpoint)


def test_a_damaged_or_foreign_checkpoint_is_refused(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    trainer = pdg_trainer(data)
    trainer.save(checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"^training checkpoint: .* damaged"):
        trainer.resume(checkpoint)
    with pytest.raises(InputError, match="contains a policy; accepted: a training checkpoint"):
        trainer.resume(save_policy(GraphPolicy(SCENARIO), tmp_path))


def test_a_checkpoint_of_another_format_is_refused(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    trainer = pdg_trainer(data)
    trainer.save(checkpoint)
    file = read_tensors(checkpoint, "training checkpoint")
    older = TensorFile(file.tensors, {**file.header, "format": 0})
    write_tensors(checkpoint, "training checkpoint", older)
    with pytest.raises(InputError, match="made with another format"):
        trainer.resume(checkpoint)


def test_best_is_refused_before_the_first_epoch(data):
    with pytest.raises(InputError, match=r"^best: no epoch has been run; run the trainer first"):
        _ = pdg_trainer(data).best


class Descent(LearningAlgorithm[NetworkEpoch]):
    """Descends a square; the length of a step falls with the number of steps."""

    title = "descent"
    record_type = NetworkEpoch
    settings = TrainingSettings()
    epochs = 4

    def __init__(self, start: float) -> None:
        self.network = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(self.network.weight, start)
        torch.nn.init.zeros_(self.network.bias)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.5)
        self.generator = torch.Generator().manual_seed(0)
        self.steps, self.last = 0, 0.0

    def batches(self, epoch):
        for _ in range(2):
            yield torch.rand(3, 1, generator=self.generator)

    def step(self, batch):
        self.steps += 1
        loss = self.network(batch).square().mean() / self.steps
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.last = loss.item()

    def end_epoch(self, epoch):
        return NetworkEpoch(epoch, self.steps, {"loss": self.last})

    def identity(self):
        return {"momentum": 0.5}

    def trained(self):
        return self.network

    def state(self):
        return {"steps": self.steps}

    def restore(self, state):
        self.steps = state["steps"]


def test_user_defined_algorithm_is_resumed_with_its_state(tmp_path):
    whole, stopped, resumed = (Trainer(Descent(start)) for start in (1.0, 1.0, 7.0))
    whole.run()
    stopped.run([Log(stop_after=2)], tmp_path / "checkpoint.safetensors")
    resumed.resume(tmp_path / "checkpoint.safetensors")
    resumed.run()
    assert [epoch.steps for epoch in resumed.history] == [2, 4, 6, 8]
    assert resumed.history == whole.history
    assert same_weights(resumed, whole)


# Callbacks


def test_training_stops_after_patience_without_improvement_since_a_feasible_epoch(data, tmp_path):
    # No constraint to violate, and steps too small to show: the first epoch stays the best.
    scenario = SCENARIO.replace(rate_min=0, ee_min=0)
    settings = TrainingSettings(epochs=50, patience=3, learning_rate=1e-30, weight_decay=0)
    trainer, resumed = (pdg_trainer(data, settings, scenario=scenario) for _ in range(2))
    assert trainer.run(checkpoint=tmp_path / "checkpoint.safetensors").number == 0
    assert len(trainer.history) == 4
    resumed.resume(tmp_path / "checkpoint.safetensors")
    resumed.run()
    assert len(resumed.history) == 4


def test_patience_is_not_lost_before_a_feasible_epoch(data):
    settings = TrainingSettings(epochs=8, patience=1, learning_rate=1e-30)
    trainer = pdg_trainer(data, settings, scenario=SCENARIO.replace(rate_min=40))
    trainer.run()
    assert len(trainer.history) == 8


class Log(TrainingCallback):
    """Records its calls and stops after some epochs."""

    def __init__(self, stop_after: int) -> None:
        self.stop_after = stop_after
        self.calls: list[str | int] = []

    def on_train_begin(self, trainer):
        self.calls.append("begin")

    def on_epoch_end(self, trainer, epoch):
        assert trainer.history[-1] is epoch
        self.calls.append(epoch.number)
        if epoch.number + 1 == self.stop_after:
            trainer.stop()

    def on_train_end(self, trainer):
        self.calls.append("end")


def test_a_callback_is_called_after_every_epoch_and_can_stop_the_run(data):
    log = Log(stop_after=2)
    trainer = pdg_trainer(data)
    trainer.run([log])
    assert log.calls == ["begin", 0, 1, "end"]
    assert len(trainer.history) == 2


def test_a_stopped_run_continues_where_it_stopped(data):
    whole, stopped = pdg_trainer(data), pdg_trainer(data)
    whole.run()
    stopped.run([Log(stop_after=2)])
    stopped.run()
    assert stopped.history == whole.history
    assert same_weights(stopped, whole)


def test_a_callback_of_an_enclosing_block_is_called(data):
    log = Log(stop_after=3)
    with report_to(log):
        pdg_trainer(data).run()
    assert log.calls == ["begin", 0, 1, 2, "end"]


def test_an_interrupted_run_does_not_end(data):
    log = Log(stop_after=9)
    with pytest.raises(Stop):
        pdg_trainer(data).run([log, StopAt(2, "epochs")])
    assert log.calls == ["begin", 0, 1]


def test_a_checkpoint_is_saved_every_few_epochs_and_at_the_end(data, tmp_path):
    checkpoint, resumed = tmp_path / "checkpoint.safetensors", []

    class Reader(TrainingCallback):
        def on_epoch_end(self, trainer, epoch):
            if checkpoint.exists():
                reader = pdg_trainer(data)
                reader.resume(checkpoint)
                resumed.append(len(reader.history))

    pdg_trainer(data, SETTINGS.replace(epochs=5)).run([Checkpoint(checkpoint, every=2), Reader()])
    assert resumed == [2, 2, 4, 4]
    reader = pdg_trainer(data)
    reader.resume(checkpoint)
    assert len(reader.history) == 5


class DiskFull(Callback):
    """Fails at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_step(self, work, step):
        if step.done == self.at:
            raise OSError("no space left on device")


@pytest.mark.parametrize(("at", "saved"), [(2, 2), (3, 2)])
def test_failing_callback_does_not_lose_checkpoint_or_log(data, tmp_path, at, saved):
    settings = SETTINGS.replace(checkpoint_every=2)
    whole, failing, resumed = (pdg_trainer(data, settings) for _ in range(3))
    whole.run()
    with pytest.raises(OSError, match="no space left"):
        failing.run([DiskFull(at), CsvLog(tmp_path / "log.csv")], tmp_path / "state")
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 1 + at
    resumed.resume(tmp_path / "state")
    assert len(resumed.history) == saved
    resumed.run()
    assert resumed.history == whole.history
    assert same_weights(resumed, whole)


def test_every_epoch_is_reported_with_the_best_one_so_far(data):
    recorder = Recorder()
    trainer = pdg_trainer(data)
    best = trainer.run([recorder])
    assert recorder.of("training of pdg") == ["begin", *range(1, 7), "end"]
    assert recorder.works[0].total == 6
    assert [step.detail for step in recorder.steps] == trainer.history
    assert recorder.steps[-1].figures["best"] == best.objective
    assert recorder.steps[-1].figures["objective"] == trainer.history[-1].objective
    bests = [step.figures["best violation"] for step in recorder.steps]
    assert all(later <= earlier for earlier, later in pairwise(bests))


def test_a_resumed_run_reports_its_earlier_epochs(data, tmp_path):
    first, second = Recorder(), Recorder()
    checkpoint = tmp_path / "checkpoint.safetensors"
    pdg_trainer(data, SETTINGS.replace(epochs=2)).run([first], checkpoint)
    resumed = pdg_trainer(data)
    resumed.resume(checkpoint)
    resumed.run([second])
    assert list(second.works[0].earlier) == first.steps
    assert second.of("training of pdg") == ["begin", 3, 4, 5, 6, "end"]


# Trainers of policy classes


def test_every_trainable_policy_names_its_algorithm():
    kinds = [POLICIES.find(name) for name in POLICIES.names()]
    assert tuple(kind.name for kind in kinds if kind.algorithm) == TRAINABLE


def test_a_trainer_is_made_from_a_name_and_options():
    channels = make_channels(SCENARIO, 20)
    trainer = make_trainer(
        "pdg", SCENARIO, channels, seed=4, epochs=2, bias=False, preset="paper", patience=None
    )
    trainer.run()
    policy = trainer.trained()
    assert isinstance(policy, GraphPolicy)
    assert not policy.architecture.bias
    assert trainer.algorithm.settings.margin == 0  # the paper's
    same = GraphPolicy.initialised(SCENARIO, 4, policy.architecture)
    settings = trainer.algorithm.settings
    by_hand = Trainer(PrimalDualLearning(same, channels, settings, seed=4))
    by_hand.run()
    assert by_hand.history == trainer.history
    assert same_weights(by_hand, trainer)


def test_user_defined_policy_is_trained_by_primal_dual_learning():
    class Own(GraphPolicy):
        name = "own"

    trainer = make_trainer(Own, SCENARIO, make_channels(SCENARIO, 20), epochs=1)
    trainer.run()
    assert isinstance(trainer.trained(), Own)


def test_pdx_is_trained_to_a_policy_with_multipliers_for_the_scenario():
    channels = make_channels(SCENARIO, draw_csi(SCENARIO, 30, torch.Generator().manual_seed(0)))
    trainer = make_trainer("pdx", SCENARIO, channels, steps=100, batch_size=4)
    trainer.run()
    policy = trainer.trained()
    assert isinstance(policy, UnrolledPolicy)
    assert policy.allocate(channels.test).shape == (10, 3)


def test_learned_schedules_are_trained_to_a_policy():
    channels = make_channels(SCENARIO, 10)
    trainer = make_trainer(LearnedSchedule, SCENARIO, channels, steps=100, batch_size=2)
    trainer.run()
    policy = trainer.trained()
    assert isinstance(policy, LearnedSchedule)
    assert isinstance(policy.network, PhaseNetwork)


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        (
            FullPower,
            {},
            "^policy: max cannot be trained; accepted: pdm, pdg, pdx, learned-schedule, or a",
        ),
        ("mox", {}, "^policy: 'mox' is unknown, did you mean max"),
        (
            "pdg",
            {"steps": 200},
            "^steps: pdg has no such training option; accepted: preset, epo",
        ),
        ("pdm", {"bias": False}, "^bias: pdm has no such training option"),
        ("pdx", {"epochs": 3}, "^epochs: pdx has no such .*; accepted: steps, batch_size,"),
        ("pdg", {"epoch": 3}, "^epoch: pdg has no such training option, did you mean epochs"),
        ("pdg", {"learning_rate": -1}, "^learning_rate: "),
        ("pdx", {"learning_rate": -1}, "^learning_rate: "),
        (LearnedSchedule, {"everything": True}, "^everything: learned-schedule has no such"),
    ],
)
def test_untrainable_policies_and_unknown_options_are_refused(kind, options, sentence):
    with pytest.raises(InputError, match=sentence):
        make_trainer(kind, SCENARIO, make_channels(SCENARIO, 5), **options)
