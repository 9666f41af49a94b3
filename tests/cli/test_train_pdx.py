from __future__ import annotations

from pathlib import Path

import pytest

from feduplink.policies import pdx
from feduplink.training import Checkpoint

from .conftest import Run, metrics_of, refused, results_of

QUICK = ("--policy", "pdx", "--workers", 2, "--steps", 200, "--batch-size", 4)


@pytest.fixture(autouse=True)
def _few_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdx, "CHANNELS", 100)


@pytest.mark.slow
def test_interrupted_and_resumed_is_the_same_as_undisturbed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert run("train", *QUICK, "--out", "whole").status == 0
    assert metrics_of(tmp_path / "whole")["settings"]["steps"] == 200

    def save_and_interrupt(self: Checkpoint, trainer, epoch) -> None:
        trainer.save(self.path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "on_epoch_end", save_and_interrupt)
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
