"""``feduplink federate --engine flower``: refusals at once, and the same results as locally."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feduplink.cli import main

FLOWER = ["federate", "--engine", "flower", "--workers", "2", "--policies", "max"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--runs", "2"], "runs: not what --engine flower does; accepted: 1, or --engine local."),
        (["--aggregation", "unbiased"], "aggregation: not what"),
        (["--present", "0:0"], "present: not what"),
        (["--channels", "measured.h5"], "channels: not what"),
        (["--device", "cuda"], "device: not what"),
        (["--resume"], "resume: not what"),
        (["--checkpoint-every", "3"], "checkpoint-every: not what"),
        (["--import", "json"], "import: not what"),
    ],
)
def test_what_it_does_not_do_is_refused_in_a_sentence(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main([*FLOWER, *options, "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"feduplink: {sentence}")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_tables_and_metrics_are_those_of_the_local_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """An access scheme, a policy that is tuned, and one of a class of the user's own."""
    policies = ["--policies", "ideal,openloop,wmmse_policy:Wmmse"]
    printed, metrics = [], []
    for engine in ("local", "flower"):
        out = tmp_path / engine
        options = ["--workers", "2", "--rounds", "2", "--seed", "5", "--out", str(out)]
        assert main(["federate", "--engine", engine, *policies, *options]) == 0
        printed.append(capsys.readouterr().out.replace(str(out), "OUT"))
        found = json.loads((out / "metrics.json").read_text())
        assert found.pop("engine") == engine
        del found["provenance"]
        metrics.append(found)
        assert {path.name for path in out.iterdir()} >= {
            "federated.md",
            "error.png",
            "arrivals.png",
        }
    assert printed[0] == printed[1]
    assert metrics[0] == metrics[1]
