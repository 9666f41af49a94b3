from __future__ import annotations

import math
import warnings

import pytest
import torch

from feduplink.channels import hata_cost231_gain, shadowing_gain, wideband_spatial_gain


@pytest.mark.parametrize(
    ("distance_m", "gain"),
    [
        (0.0, 2 * 10**-8.4),
        (35.0, 10**-8.4),  # half of it at the breakpoint
        (140.0, 2 * 10**-8.4 / 513),  # 1 + 4^4.5
        (350.0, 2 * 10**-8.4 / (1 + 10**4.5)),
    ],
)
def test_wideband_spatial_by_hand(distance_m, gain):
    distance = torch.tensor([distance_m], dtype=torch.float64)
    assert wideband_spatial_gain(distance).item() == pytest.approx(gain, rel=1e-12)


def test_hata_by_the_textbook_formula():
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


def test_hata_clamps_short_distances_and_says_so():
    near, edge = torch.tensor([1.0]), torch.tensor([35.0])
    with pytest.warns(UserWarning, match="under 35 m .* clamped"):
        clamped = hata_cost231_gain(near, urban=True, carrier_hz=1.9e9)
    with warnings.catch_warnings(action="error"):
        assert torch.equal(clamped, hata_cost231_gain(edge, urban=True, carrier_hz=1.9e9))


def test_shadowing_is_log_normal(generator):
    shadowing_db = 10 * shadowing_gain((100_000,), 8.0, generator).log10()
    assert shadowing_db.mean().item() == pytest.approx(0, abs=0.1)
    assert shadowing_db.std().item() == pytest.approx(8, rel=0.01)
