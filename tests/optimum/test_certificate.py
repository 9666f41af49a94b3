from __future__ import annotations

import itertools

import pytest
import torch

from feduplink import Scenario
from feduplink.lagrangian import Cell, Multipliers
from feduplink.optimum import Certificate, certify
from observing.recorder import Recorder

from .reference import best_on_grid, random_instance


@pytest.mark.parametrize("seed", range(9))
def test_the_bound_converges_to_the_best_value(seed: int):
    instance = random_instance(seed, workers=2, channels=4)
    scale = 1 + float(instance.prices.success.sum() + instance.prices.rate.sum())
    certificate = certify(instance.cell, instance.prices, budget_s=30, target_gap=1e-4 * scale)
    assert certificate.gap <= 1e-4 * scale
    assert certificate.seconds < 30
    best = torch.tensor([best_on_grid(instance, k, 120) for k in range(4)], dtype=torch.float64)
    torch.testing.assert_close(certificate.lower, best, atol=1e-4 * scale, rtol=1e-4)


def test_the_powers_reach_the_lower_bound_and_more_time_never_loosens(
    default_scenario: Scenario, default_csi: torch.Tensor
):
    cell = Cell.of(default_scenario, default_csi[:20])
    multipliers = Multipliers(
        torch.full((2, 8), 1e-4, dtype=torch.float64), default_scenario.worker_weights
    )
    prices = multipliers.prices(default_scenario)
    recorder = Recorder()
    certificate = certify(cell, prices, budget_s=2, target_gap=1e-4, observers=[recorder])
    torch.testing.assert_close(cell.value(certificate.power, prices), certificate.lower)
    seen = [step.detail for step in recorder.steps]
    for earlier, later in itertools.pairwise(seen):
        assert isinstance(earlier, Certificate)
        assert isinstance(later, Certificate)
        assert (later.upper <= earlier.upper + 1e-12).all()
        assert (later.lower >= earlier.lower - 1e-12).all()
        assert later.boxes > earlier.boxes


def test_without_prices_there_is_nothing_to_gain():
    instance = random_instance(0, workers=3, channels=2)
    zero = torch.zeros(3, dtype=torch.float64)
    prices = type(instance.prices)(zero, zero, zero, zero)
    certificate = certify(instance.cell, prices, budget_s=1)
    assert float(certificate.upper.max()) < 1e-6
    assert float(certificate.lower.min()) == 0
