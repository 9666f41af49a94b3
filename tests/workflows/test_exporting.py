from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import feduplink as fu
from feduplink.export import OnnxPolicy

pytest.importorskip("onnxscript", reason="the extra export is not installed")


def test_a_trained_policy_is_exported_with_its_differences(tmp_path: Path):
    policy = fu.GraphPolicy.initialised(fu.Scenario(workers=4), seed=1)
    fu.save_policy(policy, tmp_path / "trained")
    exported = fu.export_policy(fu.Scenario(workers=4), tmp_path / "trained", out=tmp_path / "out")
    assert exported.file == tmp_path / "out" / "policy.onnx"
    csi = fu.draw_csi(policy.scenario, 10, torch.Generator().manual_seed(0))
    powers = OnnxPolicy(exported.file).allocate(csi.numpy())
    np.testing.assert_allclose(powers, policy.allocate(csi).numpy(), atol=1e-7)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert list(metrics["difference_of_pmax"].values()) == list(exported.differences.values())
    assert max(exported.differences.values()) < 1e-5


def test_options_are_checked(tmp_path: Path):
    with pytest.raises(fu.InputError, match="channels_per_split"):
        fu.export_policy(fu.Scenario(), "pdx", out=tmp_path, channels_per_split=0)
