from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from feduplink.cli.command_line import main


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


Run = Callable[..., Ended]

#: Seconds become milliseconds; everything else is as in a real run.
TINY = ("--workers", 3, "--channels-per-split", 40)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Ended:
        status = main([str(word) for word in words])
        streams = capsys.readouterr()
        return Ended(status, streams.out, streams.err)

    return run


def refused(ended: Ended) -> str:
    """The one sentence of a refusal."""
    assert ended.status == 2
    assert ended.out == ""
    assert ended.err.startswith("feduplink: ")
    assert ended.err.count("\n") == 1
    return ended.err.strip()


def results_of(directory: Path) -> dict[str, Any]:
    """What two runs with the same seed agree in."""
    metrics = metrics_of(directory)
    del metrics["provenance"]
    return metrics


def metrics_of(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "metrics.json").read_text())
