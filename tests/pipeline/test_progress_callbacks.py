"""Long-running work reports to callbacks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from federated.conftest import blob_task
from feduplink import (
    FullPower,
    OpenLoop,
    Scenario,
    draw_csi,
    evaluate,
)
from feduplink.federated import Federation, FederationSettings, LocalWork
from feduplink.optimum import Certificate, DualStep, find_optimum
from feduplink.policies import DualPolicy, Ideal, UnrolledNetwork, UnrolledPolicy, judge_policy
from feduplink.progress import Callback, Step, Work, report_to
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


def test_the_optimum_reports_dual_steps_then_certificates(csi: Tensor):
    recorder = Recorder()
    optimum = find_optimum(SCENARIO, csi, max_boxes=0, callbacks=[recorder])
    assert [work.title for work in recorder.works] == ["dual problem", "certificate"]
    steps = [step.detail for step in recorder.steps if isinstance(step.detail, DualStep)]
    assert steps == optimum.solution.steps
    assert recorder.of("dual problem") == ["begin", *range(1, len(steps) + 1), "end"]
    *_, last = recorder.steps
    assert isinstance(last.detail, Certificate)
    assert last.figures == {"gap": last.detail.gap, "boxes": last.detail.boxes}


def test_tuning_reports_its_stages(csi: Tensor):
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


def test_comparing_and_judging_are_reported(csi: Tensor):
    recorder = Recorder()
    policy = FullPower(SCENARIO)
    with report_to(recorder):
        evaluate(SCENARIO, {"a": policy, "b": policy}, channels=csi)
        judge_policy(policy, csi, SCENARIO)
    assert recorder.of("comparison") == ["begin", 1, 2, "end"]
    assert recorder.of("evaluation") == ["begin", "end"]


def _federation(**settings: int) -> Federation:
    task = blob_task(LocalWork(batch_size=5, batches=2, learning_rate=0.02))
    return Federation(task, {"ideal": Ideal(SCENARIO)}, SCENARIO, FederationSettings(**settings))


def test_a_federation_reports_every_round_and_the_earlier_ones(tmp_path: Path):
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
