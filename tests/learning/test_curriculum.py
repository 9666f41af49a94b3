from __future__ import annotations

import pytest
import torch

from feduplink import Scenario
from feduplink.training import AnyScenario, OneScenario


def test_a_scenario_of_its_own_keeps_its_fields_and_varies_the_prices():
    scenario = Scenario(workers=5, pmax_dbw=-30, interference=2, weights="uniform")
    batch, prices = OneScenario(scenario).draw(50, torch.Generator().manual_seed(0))
    assert batch.direct.shape == (50, 5)
    assert batch.pmax_w.tolist() == pytest.approx([float(scenario.pmax_w)] * 5)
    torch.testing.assert_close(prices.success, torch.full((50, 5), 0.2))
    cost = prices.rate * 0.7 + prices.efficiency * 55.0
    torch.testing.assert_close(prices.activation_cost, cost, rtol=1e-5, atol=1e-8)
    assert len(prices.rate.unique()) > 50


def test_batches_of_recorded_channels_are_drawn_with_replacement():
    """The direct gains of a channel tell which one it is."""
    scenario = Scenario(workers=2)
    recorded = torch.ones(3, 2, 2) * torch.tensor([10.0, 20.0, 30.0])[:, None, None]
    curriculum = OneScenario(scenario, recorded)
    cell, _ = curriculum.draw(300, torch.Generator().manual_seed(0))
    counts = [int((cell.direct[:, 0] == gain).sum()) for gain in (10, 20, 30)]
    assert sum(counts) == 300
    assert min(counts) > 75


def test_everything_varies_size_power_and_weights():
    curriculum, generator = AnyScenario(), torch.Generator().manual_seed(0)
    batches = [curriculum.draw(4, generator) for _ in range(100)]
    assert {batch.direct.shape[1] for batch, _ in batches} == set(curriculum.workers)
    pmax = torch.stack([batch.pmax_w[0] for batch, _ in batches])
    assert pmax.max() > 100 * pmax.min()
    sums = torch.cat([prices.success.sum(-1) for _, prices in batches])
    others = sums == 0  # another objective than packet success
    torch.testing.assert_close(sums[~others], torch.ones(int((~others).sum())))
    assert 0.02 < others.float().mean() < 0.25
