from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from feduplink import GraphPolicy, Scenario, draw_csi, save_policy
from feduplink.export import OnnxPolicy

from .conftest import Run, metrics_of, refused

pytest.importorskip("onnxscript", reason="the extra export is not installed")


def test_a_trained_policy(run: Run, tmp_path: Path):
    policy = GraphPolicy.initialised(Scenario(workers=4), seed=1)
    save_policy(policy, tmp_path / "trained")
    ended = run("export", "--policy", tmp_path / "trained", "--workers", 4, "--out", "out")
    assert ended.status == 0
    assert "pdg for any number of workers in out/policy.onnx" in ended.out
    csi = draw_csi(policy.scenario, 10, torch.Generator().manual_seed(0))
    powers = OnnxPolicy(tmp_path / "out/policy.onnx").allocate(csi.numpy())
    np.testing.assert_allclose(powers, policy.allocate(csi).numpy(), atol=1e-7)
    assert max(metrics_of(tmp_path / "out")["difference_of_pmax"].values()) < 1e-5


def test_a_policy_without_a_network_is_refused(run: Run):
    assert "accepted: pdg, pdm, pdx" in refused(run("export", "--policy", "openloop"))
