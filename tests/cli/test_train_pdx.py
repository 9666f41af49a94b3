from __future__ import annotations

from pathlib import Path

import pytest

from feduplink.progress import Callback, Step, Work, report_to
from feduplink.training import Trainer

from .conftest import Run, metrics_of, refused, results_of

QUICK = ("--policy", "pdx", "--workers", 2, "--steps", 200, "--batch-size", 4)


class Interrupt(Callback):
    """Ctrl-C after the first of two parts of the training."""

    def on_step(self, work: Work, step: Step) -> None:
        if isinstance(work.source, Trainer) and step.done == 100:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_interrupted_and_resumed_is_the_same_as_undisturbed(run: Run, tmp_path: Path):
    assert run("train", *QUICK, "--out", "whole").status == 0
    assert metrics_of(tmp_path / "whole")["settings"]["steps"] == 200
    with report_to(Interrupt()):
        ended = run("train", *QUICK, "--out", "parts")
    assert ended.status == 130
    assert "--resume" in ended.err
    assert not (tmp_path / "parts/metrics.json").exists()

    assert "--resume" in refused(run("train", *QUICK, "--out", "parts"))
    assert run("train", *QUICK, "--out", "parts", "--resume").status == 0
    assert results_of(tmp_path / "parts") == results_of(tmp_path / "whole")
    parts, whole = (tmp_path / name / "policy.safetensors" for name in ("parts", "whole"))
    assert parts.read_bytes() == whole.read_bytes()


def test_options_of_the_others_are_refused(run: Run, tmp_path: Path):
    assert "epochs: pdx has no such" in refused(run("train", *QUICK, "--epochs", 3))
    assert list(tmp_path.iterdir()) == []
