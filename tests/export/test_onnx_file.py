"""Export to ONNX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from feduplink import FullPower, GraphPolicy, InputError, PerceptronPolicy, Scenario
from feduplink.export import OnnxPolicy, export_onnx

from .conftest import TOLERANCE, largest_difference


@pytest.mark.parametrize("kind", [GraphPolicy, PerceptronPolicy])
def test_learned_networks_compute_the_same(kind, tmp_path: Path):
    scenario = Scenario(workers=5, pmax_dbw=(-20, -25, -30, -20, -10))
    policy = kind.initialised(scenario, seed=3)
    file = export_onnx(policy, tmp_path / "policy.onnx")
    assert str(file).startswith(f"{policy.name} for 5 workers in {tmp_path}")
    exported = OnnxPolicy(file.file)
    assert exported.fixed_workers == 5
    assert largest_difference(policy, exported, scenario) < TOLERANCE
    with pytest.raises(InputError, match="4 workers; accepted here: exactly 5"):
        exported.allocate(np.ones((4, 4)))


def test_a_policy_without_a_network_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="max has no network"):
        export_onnx(FullPower(Scenario()), tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []
