from __future__ import annotations

import math

import pytest
import torch

from feduplink import Scenario, draw_channels, draw_csi
from feduplink.channels import RayleighCell, check_csi
from feduplink.registry import CHANNEL_MODELS


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lag_correlation(series: torch.Tensor, lag: int) -> float:
    """Correlation of unit-mean-square complex series over time, the first axis."""
    later, earlier = series[lag:], series[:-lag]
    power = series.abs().square().mean()
    return float((later * earlier.conj()).real.mean() / power)


def shipped() -> list[str]:
    known = [name for name in CHANNEL_MODELS.names() if not name.startswith("sionna-")]
    found = {name: CHANNEL_MODELS.find(name) for name in known}
    return [name for name, kind in found.items() if kind.__module__ == RayleighCell.__module__]


@pytest.mark.filterwarnings("ignore:Hata")
@pytest.mark.parametrize("model", shipped())
@pytest.mark.parametrize("extra", [{}, {"base_stations": 3}, {"geometry": "kept", "speed_mps": 1}])
def test_every_model_draws_valid_csi_reproducible_by_seed(model, extra):
    scenario = Scenario(workers=3, antennas=2, channel_model=model, **extra)
    first, again, other = (draw_csi(scenario, 20, seeded(seed)) for seed in (1, 1, 2))
    assert check_csi(first).shape == (20, 3, 3)
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_csi_follows_from_the_antenna_coefficients():
    scenario = Scenario(workers=4)
    channels = draw_channels(scenario, 50, seeded())
    h = channels.antenna[:, :, 0].to(torch.complex128)
    norm = h.abs().square().sum(-1)
    products = torch.einsum("nia,nja->nij", h.conj(), h).abs().square()
    expected = products / norm[..., None] / scenario.noise_power_w
    torch.testing.assert_close(channels.csi.double(), expected, rtol=1e-4, atol=0)


def test_csi_is_the_same_with_and_without_antenna_coefficients():
    scenario = Scenario()
    assert torch.equal(
        draw_channels(scenario, 3000, seeded()).csi, draw_csi(scenario, 3000, seeded())
    )


def test_every_worker_is_served_by_its_strongest_station():
    scenario = Scenario(workers=6, base_stations=4, geometry="kept")
    channels = draw_channels(scenario, 500, seeded())
    received = channels.antenna.abs().square().sum(-1)  # (N, L, K)
    strongest = received.mean(0).argmax(-1)
    assert len(set(strongest.tolist())) > 1
    own = received[:, torch.arange(6), strongest] / scenario.noise_power_w
    torch.testing.assert_close(channels.csi.diagonal(dim1=1, dim2=2), own, rtol=1e-4, atol=0)


def test_cross_gains_are_those_at_the_serving_station_of_the_receiver():
    """A filter of unit norm receives i.i.d. fading at its mean gain, so E[β_ij] is a path gain."""
    scenario = Scenario(workers=6, base_stations=4, antennas=4, geometry="kept")
    channels = draw_channels(scenario, 5000, seeded())
    gain = channels.antenna.abs().square().mean((0, 3)) / scenario.noise_power_w  # (L, K)
    seen = gain[:, gain.argmax(-1)].T  # (i, j): gain of j at the station that serves i
    off_diagonal = ~torch.eye(6, dtype=torch.bool)
    torch.testing.assert_close(
        channels.csi.mean(0)[off_diagonal], seen[off_diagonal], rtol=0.08, atol=0
    )


@pytest.mark.parametrize(
    ("fields", "rho"),
    [
        ({}, 0.0),
        ({"coherence_time_s": 2.0}, math.exp(-1 / 2)),
        # Clarke: 0.423 / Doppler, here 10 m/s at 1.9 GHz.
        (
            {"speed_mps": 10, "round_interval_s": 1e-3},
            math.exp(-1e-3 * 10 * 1.9e9 / (0.423 * 299_792_458)),
        ),
    ],
)
def test_fading_of_kept_workers_has_the_correlation_of_the_scenario(fields, rho):
    scenario = Scenario(workers=1, antennas=64, geometry="kept", **fields)
    antenna = draw_channels(scenario, 1000, seeded()).antenna
    assert lag_correlation(antenna, 1) == pytest.approx(rho, abs=0.02)


def test_only_kept_workers_keep_their_path_gain():
    def spread(**fields: object) -> float:
        """Deviation over the rounds of ln of the mean gain over many antennas."""
        scenario = Scenario(workers=4, antennas=256, **fields)
        antenna = draw_channels(scenario, 200, seeded()).antenna
        return float(antenna.abs().square().mean((-1, -2)).log().std(0).max())

    assert spread(geometry="kept") < 0.1  # Rayleigh fading averages to 1/√256
    assert spread(geometry="redrawn") > 1


@pytest.mark.filterwarnings("ignore:Hata")
def test_kept_workers_keep_their_shadowing_while_they_move():
    fields = {"geometry": "kept", "speed_mps": 0.1, "antennas": 256}
    scenario = Scenario(channel_model="hata-urban-shadowed", **fields)
    gain = draw_channels(scenario, 50, seeded()).antenna.abs().square().mean((-1, -2))
    assert gain.log().std(0).max() < 0.15


class Plain(RayleighCell):
    """A gain that does not depend on distance, with 4 dB of shadowing."""

    shadowing_std_db = 4.0

    def path_gain(self, distance_m):
        return torch.full_like(distance_m, 1e-9)


def test_a_user_defined_path_loss_needs_one_method():
    scenario = Scenario(workers=4, antennas=256, channel_model=f"{__name__}:Plain")
    antenna = draw_channels(scenario, 1000, seeded()).antenna
    gain_db = 10 * antenna.abs().square().mean((-1, -2)).log10()
    assert gain_db.mean().item() == pytest.approx(-90, abs=0.3)
    assert gain_db.std().item() == pytest.approx(4, rel=0.05)
