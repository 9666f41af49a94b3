"""What both compute, by Sionna and by us, on the same channels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sionna.phy.mimo import StreamManagement, lmmse_equalizer
from sionna.phy.ofdm import LMMSEPostEqualizationSINR, ResourceGrid
from sionna.sys import open_loop_uplink_power_control

from feduplink import OpenLoop, Scenario, draw_channels, draw_csi, link
from feduplink.channels import interference_covariance, mmse_csi

WORKERS = 8


def drawn(name: str, side_m: float, antennas: int = 10) -> tuple[Scenario, torch.Tensor]:
    """A scenario, and channels of its workers (N, L, n_R) in units of the noise's deviation."""
    scenario = Scenario(channel_model=name, cell_side_m=side_m, carrier_hz=3.5e9, antennas=antennas)
    channels = draw_channels(scenario, 30, torch.Generator().manual_seed(3))
    assert channels.antenna is not None
    h = channels.antenna[:, :, 0].to(torch.complex128) / scenario.noise_power_w**0.5
    return scenario, h


def sionna_sinr(h: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    """SINR after Sionna's LMMSE equaliser, (N, L)."""
    users = h.shape[1]
    grid = ResourceGrid(
        num_ofdm_symbols=1, fft_size=1, subcarrier_spacing=15e3, num_tx=users, precision="double"
    )
    streams = StreamManagement(np.ones((1, users), dtype=int), 1)
    compute = LMMSEPostEqualizationSINR(grid, streams, precision="double")
    sent = h * power.sqrt()[:, None]
    found: torch.Tensor = compute(sent.mT[:, None, :, :, None, None, None], torch.ones(1).double())
    return found.reshape(h.shape[:2])


@pytest.mark.parametrize("antennas", [4, 10])
@pytest.mark.parametrize(
    ("name", "side_m"), [("sionna-umi", 200), ("sionna-uma", 500), ("sionna-inf", 120)]
)
def test_sinr_after_mmse_at_full_power(name: str, side_m: float, antennas: int):
    scenario, h = drawn(name, side_m, antennas)
    power = scenario.pmax_w.expand(WORKERS)
    ours = link.sinr(mmse_csi(h, power), power.expand(len(h), -1))
    torch.testing.assert_close(ours, sionna_sinr(h, power), rtol=1e-4, atol=0)


def test_sinr_of_the_drawn_h_is_that_of_the_mmse_receiver():
    """H of the registered model, in single precision, at the power its filters are made for."""
    scenario, h = drawn("sionna-umi-mmse", 200)
    csi = draw_channels(scenario, 30, torch.Generator().manual_seed(3)).csi
    power = scenario.pmax_w.expand(WORKERS)
    ours = link.sinr(csi.double(), power.expand(len(h), -1))
    torch.testing.assert_close(ours, sionna_sinr(h, power), rtol=1e-4, atol=0)


def test_sinr_after_mmse_among_users_of_other_cells():
    """Of eight users five are served, the others are noise that is correlated over antennas."""
    scenario, h = drawn("sionna-umi", 200)
    power = scenario.pmax_w.expand(WORKERS)
    own, others = h[:, :5], h[:, 5:]
    ours = link.sinr(
        mmse_csi(own, power[:5], interference_covariance(others, power[5:])),
        power[:5].expand(len(h), -1),
    )
    covariance = torch.eye(h.shape[-1]).to(h)
    for user, sent_w in zip(others.unbind(1), power[5:], strict=True):
        covariance = covariance + sent_w * user[:, :, None] * user[:, None, :].conj()
    _, noise_after = lmmse_equalizer(
        torch.zeros_like(h[:, 0]), own.mT * power[:5].sqrt(), covariance, precision="double"
    )
    torch.testing.assert_close(ours, 1 / noise_after, rtol=1e-4, atol=0)


@pytest.mark.parametrize("fraction", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("p0_dbm", [-100.0, -60.0])
def test_open_loop_powers(fraction: float, p0_dbm: float):
    """Our path loss is relative to the noise, 1/α = PL σ², so that our P0 is theirs / σ^(2a)."""
    scenario = Scenario(channel_model="sionna-umi", cell_side_m=200, carrier_hz=3.5e9)
    csi = draw_csi(scenario, 30, torch.Generator().manual_seed(3)).double()
    noise_w = scenario.noise_power_w
    target = 10 ** ((p0_dbm - 30) / 10) / noise_w**fraction
    ours = OpenLoop(scenario, target=target, fraction=fraction).powers(csi)
    path_loss = 1 / (csi.diagonal(dim1=-2, dim2=-1) * noise_w)
    theirs = open_loop_uplink_power_control(
        path_loss,
        torch.full_like(path_loss, 12),
        alpha=fraction,
        p0_dbm=p0_dbm,
        ut_max_power_dbm=10 * math.log10(float(scenario.pmax_w)) + 30,
        precision="double",
    )
    assert float((10 * torch.log10(ours / theirs)).abs().max()) < 0.1


def test_open_loop_powers_reach_pmax_for_some_only():
    """The comparison above is of both cases of min(P0 PL^a, Pmax)."""
    scenario = Scenario(channel_model="sionna-umi", cell_side_m=200, carrier_hz=3.5e9)
    csi = draw_csi(scenario, 30, torch.Generator().manual_seed(3)).double()
    target = 1e-13 / scenario.noise_power_w
    capped = OpenLoop(scenario, target=target, fraction=1.0).powers(csi) >= scenario.pmax_w
    assert 0.05 < float(capped.double().mean()) < 0.95
