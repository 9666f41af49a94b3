from __future__ import annotations

from pathlib import Path

import pytest

from feduplink import GraphPolicy, Scenario, save_policy

from .conftest import Run, metrics_of, refused

pytest.importorskip("onnxscript", reason="the extra export is not installed")


def test_a_trained_policy_is_exported(run: Run, tmp_path: Path):
    save_policy(GraphPolicy.initialised(Scenario(workers=4), seed=1), tmp_path / "trained")
    ended = run("export", "--policy", tmp_path / "trained", "--workers", 4, "--out", "out")
    assert ended.status == 0
    assert "pdg for any number of workers in out/policy.onnx" in ended.out
    assert max(metrics_of(tmp_path / "out")["difference_of_pmax"].values()) < 1e-5


def test_a_policy_without_a_network_is_refused(run: Run):
    assert "openloop has no network" in refused(run("export", "--policy", "openloop"))
