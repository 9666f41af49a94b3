"""Long-running work reports to callbacks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from federated.conftest import blob_task
from feduplink import (
    FullPower,
    GraphPolicy,
    OpenLoop,
    Scenario,
    Training,
    TrainingData,
    TrainingSettings,
    draw_csi,
    evaluate,
)
from feduplink.evaluation import judge_policy
from feduplink.federated import Federation, FederationSettings, Ideal, LocalWork
from feduplink.optimum import Certificate, DualStep, find_optimum
from feduplink.policies import DualPolicy, UnrolledNetwork, UnrolledPolicy
from feduplink.progress import Callback, Step, Work, report_to
from feduplink.settings import NetworkSettings
from feduplink.tracking import CsvLog
from feduplink.training import NetworkTraining, OneScenario
from recorder import Recorder

SCENARIO = Scenario(workers=3)


class DiskFull(Callback):
    """Fails at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_step(self, work: Work, step: Step) -> None:
        if step.done == self.at:
            raise OSError("no space left on device")


@pytest.fixture(scope="module")
def csi() -> Tensor:
    return draw_csi(SCENARIO, 30, torch.Generator().manual_seed(0))


def _training(csi: Tensor, epochs: int = 3) -> Training:
    settings = TrainingSettings(epochs=epochs, checkpoint_every=2)
    policy = GraphPolicy.initialised(SCENARIO)
    return Training(policy, TrainingData(csi, csi), settings)


def test_training_tells_of_every_epoch(csi: Tensor):
    recorder = Recorder()
    training = _training(csi)
    best = training.run([recorder])
    assert recorder.calls == [("training of pdg", what) for what in ("begin", 1, 2, 3, "end")]
    assert recorder.works[0].total == 3
    assert [step.detail for step in recorder.steps] == training.history
    assert recorder.steps[-1].figures["best"] == best.objective
    assert recorder.steps[-1].figures["objective"] == training.history[-1].objective


def test_a_resumed_training_says_what_it_had(csi: Tensor, tmp_path: Path):
    first, resumed = Recorder(), Recorder()
    _training(csi, epochs=2).run([first], tmp_path / "state")
    training = _training(csi)
    training.resume(tmp_path / "state")
    training.run([resumed])
    assert list(resumed.works[0].earlier) == first.steps
    assert resumed.of("training of pdg") == ["begin", 3, "end"]


@pytest.mark.parametrize(("at", "left"), [(2, 2), (3, 2)])
def test_a_failing_callback_costs_no_checkpoint_and_no_row(
    csi: Tensor, tmp_path: Path, at: int, left: int
):
    undisturbed = _training(csi, 4)
    undisturbed.run()
    with pytest.raises(OSError, match="no space left"):
        _training(csi, 4).run([DiskFull(at), CsvLog(tmp_path / "log.csv")], tmp_path / "state")
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 1 + at
    resumed = _training(csi, 4)
    resumed.resume(tmp_path / "state")
    assert len(resumed.history) == left
    resumed.run()
    assert resumed.history == undisturbed.history
    for name, weights in undisturbed.policy.state_dict().items():
        assert torch.equal(weights, resumed.policy.state_dict()[name])


def test_the_network_of_pdx_tells_of_every_hundredth_step(tmp_path: Path):
    recorder = Recorder()
    settings = NetworkSettings(steps=100, batch_size=2)
    network = UnrolledNetwork.initialised(0)
    NetworkTraining(network, OneScenario(SCENARIO), settings).run([recorder])
    assert recorder.of("training of pdx") == ["begin", 100, "end"]
    assert set(recorder.steps[0].figures) == {"Lagrangian"}


def test_the_optimum_tells_of_dual_steps_then_of_certificates(csi: Tensor):
    recorder = Recorder()
    optimum = find_optimum(SCENARIO, csi, max_boxes=0, callbacks=[recorder])
    assert [work.title for work in recorder.works] == ["dual problem", "certificate"]
    steps = [step.detail for step in recorder.steps if isinstance(step.detail, DualStep)]
    assert steps == optimum.solution.steps
    assert recorder.of("dual problem") == ["begin", *range(1, len(steps) + 1), "end"]
    *_, last = recorder.steps
    assert isinstance(last.detail, Certificate)
    assert last.figures == {"gap": last.detail.gap, "boxes": last.detail.boxes}


def test_tuning_tells_what_it_does(csi: Tensor):
    recorder = Recorder()
    with report_to(recorder):
        OpenLoop.tuned(SCENARIO, csi)
        DualPolicy.learned(SCENARIO, csi)
        UnrolledPolicy.calibrated(UnrolledNetwork.initialised(0), SCENARIO, csi)
    titles = [work.title for work in recorder.works]
    assert titles[:3] == ["tuning of openloop", "fine tuning of openloop", "tuning of dual"]
    assert "tuning of pdx" in titles
    assert titles.count("multipliers") == 3
    assert recorder.of("tuning of openloop") == ["begin", *range(1, 26), "end"]


def test_comparing_and_judging_are_told(csi: Tensor):
    recorder = Recorder()
    policy = FullPower(SCENARIO)
    with report_to(recorder):
        evaluate(SCENARIO, {"a": policy, "b": policy}, channels=csi)
        judge_policy(policy, csi, SCENARIO)
    assert recorder.of("comparison") == ["begin", 1, 2, "end"]
    assert recorder.of("evaluation") == ["begin", "end"]


def _federation(**settings: int) -> Federation:
    task = blob_task(LocalWork(batch_size=5, batches=2, learning_rate=0.02))
    return Federation(task, {"ideal": Ideal()}, SCENARIO, FederationSettings(**settings))


def test_a_federation_tells_of_every_round_and_of_those_before(tmp_path: Path):
    first, resumed = Recorder(), Recorder()
    settings = {"runs": 2, "rounds": 4, "checkpoint_every": 2}
    with pytest.raises(OSError, match="no space left"):
        _federation(**settings).run([DiskFull(2), first], tmp_path / "state")
    again = _federation(**settings)
    again.resume(tmp_path / "state")
    history = again.run([resumed])
    assert resumed.of("federated learning of blobs") == ["begin", 3, 4, "end"]
    assert list(resumed.works[0].earlier) == first.steps
    rounds = [step.detail for step in (*first.steps, *resumed.steps)]
    assert [found.number for found in rounds] == [1, 2, 3, 4]
    errors = [found.errors["ideal"] for found in rounds]
    assert list(zip(*errors, strict=True)) == [run.error for run in history.policies["ideal"]]
    assert resumed.steps[-1].figures == {"ideal": pytest.approx(sum(errors[-1]) / 2)}
