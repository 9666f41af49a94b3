"""Exported policies, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from feduplink import InputError, PerceptronPolicy, Scenario, draw_csi
from feduplink.export import OnnxPolicy, export_onnx

from .conftest import TOLERANCE


def test_the_metadata_describes_the_policy(pdx):
    policy, exported = pdx
    assert exported.scenario == policy.scenario
    assert exported.metadata["policy"] == "pdx"
    assert exported.metadata["units"]["power_w"] == "W, (N, L)"
    found = torch.tensor(exported.metadata["multipliers"]["constraints"], dtype=torch.float64)
    assert torch.equal(found, policy.point.multipliers.constraints)


def test_csi_may_have_any_leading_dimensions(pdx):
    policy, exported = pdx
    csi = draw_csi(policy.scenario, 6, torch.Generator().manual_seed(7)).numpy()
    batch = exported.allocate(csi.reshape(2, 3, 8, 8))
    single = np.stack([exported.allocate(channel) for channel in csi])
    assert batch.shape == (2, 3, 8)
    pmax_w = float(policy.scenario.max_power.max())
    np.testing.assert_allclose(batch.reshape(6, 8), single, atol=TOLERANCE * pmax_w)


@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        (np.ones((2, 3)), "not square"),
        (np.full((3, 3), np.nan), "NaN"),
        (-np.ones((3, 3)), "negative"),
    ],
)
def test_invalid_csi_is_refused(pdx, csi, sentence: str):
    with pytest.raises(InputError, match=sentence):
        pdx[1].allocate(csi)


def test_other_files_are_refused(tmp_path: Path):
    file = tmp_path / "policy.onnx"
    with pytest.raises(InputError, match="does not exist"):
        OnnxPolicy(file)
    file.write_bytes(b"no policy")
    with pytest.raises(InputError, match="is not an exported policy, or damaged"):
        OnnxPolicy(file)


def test_a_damaged_file_is_refused(tmp_path: Path):
    file = export_onnx(PerceptronPolicy.initialised(Scenario(workers=3)), tmp_path / "a.onnx").file
    content = bytearray(file.read_bytes())
    for place in (100, len(content) // 2, len(content) - 100):
        content[place] ^= 1
        file.write_bytes(content)
        with pytest.raises(InputError, match="is not an exported policy, or damaged"):
            OnnxPolicy(file)
