from __future__ import annotations

import math
import warnings

import pytest
import torch

from feduplink.channels import (
    base_station_positions,
    distances,
    gauss_markov,
    hata_cost231_gain,
    rayleigh,
    shadowing_gain,
    walk,
    wideband_spatial_gain,
    worker_positions,
)


@pytest.mark.parametrize(
    ("count", "positions"),
    [
        (1, [(0, 0)]),
        (2, [(-250, 0), (250, 0)]),
        (4, [(-250, -250), (250, -250), (-250, 250), (250, 250)]),
    ],
)
def test_base_stations_form_a_grid(count, positions):
    assert base_station_positions(count, 1000.0).tolist() == [list(p) for p in positions]


def test_workers_are_uniform_in_the_square(generator):
    positions = worker_positions(2000, 8, 1000.0, generator).flatten(0, 1)
    assert positions.abs().max() <= 500
    torch.testing.assert_close(positions.mean(0), torch.zeros(2), atol=10, rtol=0)
    # The deviation of a uniform variable is its width over the root of 12.
    torch.testing.assert_close(positions.std(0), torch.full((2,), 288.7), atol=5, rtol=0)


def test_distance_to_every_station():
    workers = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
    stations = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    assert distances(workers, stations).tolist() == [[[5.0, 4.0], [0.0, 3.0]]]


def test_a_walk_starts_at_the_worker_and_stays_in_the_cell(generator):
    start = torch.tensor([[0.0, 0.0], [49.0, -49.0]])
    path = walk(start, 2000, 7.0, 100.0, generator)
    torch.testing.assert_close(path[0], start)
    assert path.abs().max() <= 50
    steps = (path[1:] - path[:-1]).norm(dim=-1)
    assert steps.max() <= 7.001
    # Only steps reflected at the border are shorter.
    inside = (path[:-1].abs() < 43).all(-1)
    torch.testing.assert_close(
        steps[inside], torch.full_like(steps[inside], 7.0), rtol=1e-3, atol=0
    )
    assert path[:, 0].min() < -40 < 40 < path[:, 0].max()


@pytest.mark.parametrize(
    ("distance_m", "gain"),
    [
        (0.0, 2 * 10**-8.4),
        (35.0, 10**-8.4),  # half of it at the breakpoint
        (140.0, 2 * 10**-8.4 / 513),  # 1 + 4^4.5
        (350.0, 2 * 10**-8.4 / (1 + 10**4.5)),
    ],
)
def test_wideband_spatial_path_gain_by_hand(distance_m, gain):
    distance = torch.tensor([distance_m], dtype=torch.float64)
    assert wideband_spatial_gain(distance).item() == pytest.approx(gain, rel=1e-12)


def test_hata_path_gain_is_the_textbook_formula():
    """COST 231 final report, 4.4.3: 46.3 + 33.9 lg f − 13.82 lg hb − a(hm) + (…) lg d + C."""
    log_f, log_hb = math.log10(1900), math.log10(30)
    mobile = (1.1 * log_f - 0.7) * 1.5 - (1.56 * log_f - 0.8)
    loss_db = (
        46.3 + 33.9 * log_f - 13.82 * log_hb - mobile + (44.9 - 6.55 * log_hb) * math.log10(0.4)
    )
    distance = torch.tensor([400.0], dtype=torch.float64)
    suburban = hata_cost231_gain(distance, urban=False, carrier_hz=1.9e9)
    urban = hata_cost231_gain(distance, urban=True, carrier_hz=1.9e9)
    assert -10 * math.log10(suburban.item()) == pytest.approx(loss_db, rel=1e-9)
    assert -10 * math.log10(urban.item()) == pytest.approx(loss_db + 3, rel=1e-9)


def test_hata_clamps_short_distances_with_a_warning():
    near, edge = torch.tensor([1.0]), torch.tensor([35.0])
    with pytest.warns(UserWarning, match="under 35 m .* clamped"):
        clamped = hata_cost231_gain(near, urban=True, carrier_hz=1.9e9)
    with warnings.catch_warnings(action="error"):
        assert torch.equal(clamped, hata_cost231_gain(edge, urban=True, carrier_hz=1.9e9))


def test_shadowing_is_log_normal(generator):
    shadowing_db = 10 * shadowing_gain((100_000,), 8.0, generator).log10()
    assert shadowing_db.mean().item() == pytest.approx(0, abs=0.1)
    assert shadowing_db.std().item() == pytest.approx(8, rel=0.01)


def lag_correlation(series: torch.Tensor, lag: int) -> float:
    """Correlation of unit-mean-square complex series over time, the first axis."""
    later, earlier = series[lag:], series[:-lag]
    power = series.abs().square().mean()
    return float((later * earlier.conj()).real.mean() / power)


def test_rayleigh_fading_has_unit_power(generator):
    power = rayleigh((100_000,), generator).square().sum(-1)
    assert power.mean().item() == pytest.approx(1, rel=0.02)
    assert power.std().item() == pytest.approx(1, rel=0.03)  # exponentially distributed


def test_gauss_markov_fading_has_unit_power_and_geometric_correlation(generator):
    fading = torch.view_as_complex(gauss_markov(rayleigh((40, 20_000), generator), 0.8))
    assert fading[-1].abs().square().mean().item() == pytest.approx(1, rel=0.03)
    for lag in (1, 2, 5):
        assert lag_correlation(fading, lag) == pytest.approx(0.8**lag, abs=0.01)
