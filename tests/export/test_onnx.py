from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from feduplink import (
    FullPower,
    GraphPolicy,
    InputError,
    PerceptronPolicy,
    Policy,
    Scenario,
    draw_csi,
)
from feduplink.export import OnnxPolicy, export_onnx
from feduplink.policies import UnrolledPolicy, shipped_pdx

pytest.importorskip("onnxscript", reason="the extra export is not installed")

#: As a share of Pmax.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def pdx(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, OnnxPolicy]:
    policy = shipped_pdx(Scenario.load("interference-x8"))  # where silence pays
    exported = export_onnx(policy, tmp_path_factory.mktemp("pdx") / "policy.onnx")
    return policy, OnnxPolicy(exported.file)


def largest_difference(policy: Policy, exported: OnnxPolicy, scenario: Scenario) -> float:
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(5))
    ours, theirs = policy.allocate(csi).numpy(), exported.allocate(csi.numpy())
    return float((np.abs(ours - theirs) / policy.scenario.pmax_w.numpy()).max())


@pytest.mark.parametrize("workers", [1, 2, 8, 32, 100])
def test_pdx_says_the_same_for_any_number_of_workers(pdx, workers: int):
    assert largest_difference(*pdx, Scenario(workers=workers)) < TOLERANCE


def test_pdx_silences_the_same_workers(pdx):
    policy, exported = pdx
    csi = draw_csi(policy.scenario, 500, torch.Generator().manual_seed(6))
    silent = policy.allocate(csi) == 0
    assert 0 < silent.float().mean() < 0.5
    assert np.array_equal(exported.allocate(csi.numpy()) == 0, silent.numpy())


def test_pdx_says_the_same_of_gains_as_no_cell_has_them(pdx):
    policy, exported = pdx
    exponents = np.random.default_rng(8).uniform(-2, 8, (500, 8, 8))
    csi = (10**exponents).astype(np.float32)
    ours, theirs = policy.allocate(torch.from_numpy(csi)).numpy(), exported.allocate(csi)
    of_a_channel = np.abs(ours - theirs).max(-1) / float(policy.scenario.pmax_w.max())
    # Few channels are so near to another decision that rounding is seen in the powers.
    assert np.percentile(of_a_channel, 90) < TOLERANCE


def test_powers_are_in_range_for_all_gains_that_float32_has(pdx):
    policy, exported = pdx
    exponents = np.random.default_rng(9).uniform(-37.9, 38.5, (300, 8, 8))
    csi = (10**exponents).astype(np.float32)
    for power in (policy.allocate(torch.from_numpy(csi)).numpy(), exported.allocate(csi)):
        assert ((power >= 0) & (power <= policy.scenario.pmax_w.numpy())).all()


def test_pdx_with_a_pmax_of_each_workers_own(tmp_path: Path):
    given = Scenario(workers=3, pmax_dbw=(-20, -25, -18))
    alike = shipped_pdx(Scenario(workers=3, rate_min=0, ee_min=0))
    policy = UnrolledPolicy(given, alike.network, alike.point)
    exported = OnnxPolicy(export_onnx(policy, tmp_path / "policy.onnx").file)
    assert exported.fixed_workers == 3
    assert largest_difference(policy, exported, given) < TOLERANCE


def test_the_file_says_what_it_is(pdx):
    policy, exported = pdx
    assert exported.scenario == policy.scenario
    assert exported.metadata["policy"] == "pdx"
    assert exported.metadata["units"]["power_w"] == "W, (N, L)"
    found = torch.tensor(exported.metadata["multipliers"]["constraints"], dtype=torch.float64)
    assert torch.equal(found, policy.point.multipliers.constraints)


def test_one_channel_and_many_and_any_shape(pdx):
    policy, exported = pdx
    csi = draw_csi(policy.scenario, 6, torch.Generator().manual_seed(7)).numpy()
    together = exported.allocate(csi.reshape(2, 3, 8, 8))
    alone = np.stack([exported.allocate(one) for one in csi])
    assert together.shape == (2, 3, 8)
    largest_w = float(policy.scenario.pmax_w.max())
    np.testing.assert_allclose(together.reshape(6, 8), alone, atol=TOLERANCE * largest_w)


@pytest.mark.parametrize("kind", [GraphPolicy, PerceptronPolicy])
def test_learned_networks(kind, tmp_path: Path):
    scenario = Scenario(workers=5, pmax_dbw=(-20, -25, -30, -20, -10))
    policy = kind.initialised(scenario, seed=3)
    exported = OnnxPolicy(export_onnx(policy, tmp_path / "policy.onnx").file)
    assert exported.fixed_workers == 5
    assert largest_difference(policy, exported, scenario) < TOLERANCE
    with pytest.raises(InputError, match="4 workers; accepted here: exactly 5"):
        exported.allocate(np.ones((4, 4)))


@pytest.mark.slow
def test_noisy_csi_is_denoised_in_the_file(pdx, tmp_path: Path):
    scenario = Scenario(csi_noise=1e4)
    policy = type(pdx[0])(scenario, pdx[0].network, pdx[0].point)
    exported = OnnxPolicy(export_onnx(policy, tmp_path / "policy.onnx").file)
    assert largest_difference(policy, exported, scenario) < TOLERANCE
    assert largest_difference(policy, pdx[1], scenario) > 100 * TOLERANCE


@pytest.mark.parametrize(
    ("csi", "said"),
    [
        (np.ones((2, 3)), "not square"),
        (np.full((3, 3), np.nan), "NaN"),
        (-np.ones((3, 3)), "negative"),
    ],
)
def test_what_is_no_csi_is_refused(pdx, csi, said: str):
    with pytest.raises(InputError, match=said):
        pdx[1].allocate(csi)


def test_what_is_no_network_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="max is a computation in Python"):
        export_onnx(FullPower(Scenario()), tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused(tmp_path: Path):
    file = tmp_path / "policy.onnx"
    with pytest.raises(InputError, match="does not exist"):
        OnnxPolicy(file)
    file.write_bytes(b"no policy")
    with pytest.raises(InputError, match="is no exported policy, or damaged"):
        OnnxPolicy(file)


def test_a_damaged_file_is_refused(tmp_path: Path):
    """A weight that has become another one would go unnoticed."""
    file = export_onnx(PerceptronPolicy.initialised(Scenario(workers=3)), tmp_path / "a.onnx").file
    content = bytearray(file.read_bytes())
    for place in (100, len(content) // 2, len(content) - 100):
        content[place] ^= 1
        file.write_bytes(content)
        with pytest.raises(InputError, match="is no exported policy, or damaged"):
            OnnxPolicy(file)
