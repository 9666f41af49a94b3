"""The exported graph of pdx against its network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from feduplink import Scenario, draw_csi
from feduplink.export import OnnxPolicy, export_onnx
from feduplink.policies import UnrolledPolicy, shipped_pdx

from .conftest import TOLERANCE, largest_difference


@pytest.mark.parametrize("workers", [1, 2, 8, 32, 100])
def test_pdx_computes_the_same_for_any_number_of_workers(pdx, workers: int):
    assert largest_difference(*pdx, Scenario(workers=workers)) < TOLERANCE


def test_pdx_silences_the_same_workers(pdx):
    policy, exported = pdx
    csi = draw_csi(policy.scenario, 500, torch.Generator().manual_seed(6))
    power, found = policy.allocate(csi).numpy(), exported.allocate(csi.numpy())
    assert 0 < (power == 0).mean() < 0.5
    # Rounding may decide where a power is at the limit of silence.
    by_rounding = (power == 0) != (found == 0)
    assert np.maximum(power, found)[by_rounding].max(initial=0.0) < 1.001 * policy.silence_w


def test_pdx_computes_the_same_for_gains_over_many_decades(pdx):
    policy, exported = pdx
    exponents = np.random.default_rng(8).uniform(-2, 8, (500, 8, 8))
    csi = (10**exponents).astype(np.float32)
    difference = np.abs(policy.allocate(torch.from_numpy(csi)).numpy() - exported.allocate(csi))
    # On a few channels two ends are so close that rounding decides between them.
    assert (
        np.percentile(difference.max(-1) / float(policy.scenario.max_power.max()), 90) < TOLERANCE
    )


def test_powers_are_in_range_for_all_gains_of_float32(pdx):
    policy, exported = pdx
    exponents = np.random.default_rng(9).uniform(-37.9, 38.5, (300, 8, 8))
    csi = (10**exponents).astype(np.float32)
    for power in (policy.allocate(torch.from_numpy(csi)).numpy(), exported.allocate(csi)):
        assert ((power >= 0) & (power <= policy.scenario.max_power.numpy())).all()


def test_pdx_computes_the_same_with_a_pmax_per_worker(tmp_path: Path):
    scenario = Scenario(workers=3, pmax_dbw=(-20, -25, -18))
    equal = shipped_pdx(Scenario(workers=3, rate_min=0, ee_min=0))
    policy = UnrolledPolicy(scenario, equal.network, equal.point)
    exported = OnnxPolicy(export_onnx(policy, tmp_path / "policy.onnx").file)
    assert exported.fixed_workers == 3
    assert largest_difference(policy, exported, scenario) < TOLERANCE


@pytest.mark.slow
def test_the_file_denoises_noisy_csi(pdx, tmp_path: Path):
    scenario = Scenario(csi_noise=1e4)
    policy = UnrolledPolicy(scenario, pdx[0].network, pdx[0].point)
    exported = OnnxPolicy(export_onnx(policy, tmp_path / "policy.onnx").file)
    assert largest_difference(policy, exported, scenario) < TOLERANCE
    assert largest_difference(policy, pdx[1], scenario) > 100 * TOLERANCE
