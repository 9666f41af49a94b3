from __future__ import annotations

import numpy as np
import pytest
import torch

from feduplink import Policy, Scenario, draw_csi
from feduplink.export import OnnxPolicy, export_onnx
from feduplink.policies import shipped_pdx

pytest.importorskip("onnxscript", reason="the extra export is not installed")

#: Largest accepted difference to PyTorch, relative to Pmax.
TOLERANCE = 1e-5


@pytest.fixture(scope="session")
def pdx(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, OnnxPolicy]:
    policy = shipped_pdx(Scenario.load("interference-x8"))  # some workers are silent
    exported = export_onnx(policy, tmp_path_factory.mktemp("pdx") / "policy.onnx")
    return policy, OnnxPolicy(exported.file)


def largest_difference(policy: Policy, exported: OnnxPolicy, scenario: Scenario) -> float:
    """Largest difference over channels of a scenario, relative to Pmax."""
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(5))
    difference = np.abs(policy.allocate(csi).numpy() - exported.allocate(csi.numpy()))
    return float((difference / policy.scenario.max_power.numpy()).max())
