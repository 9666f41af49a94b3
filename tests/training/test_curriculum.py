from __future__ import annotations

import pytest
import torch
from torch import Tensor

from feduplink import Scenario
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.training import AnyScenario, OneScenario, TunedProblems


def test_one_scenario_has_constant_cell_and_random_prices():
    scenario = Scenario(workers=5, pmax_dbw=-30, interference=2, weights="uniform")
    batch, prices = OneScenario(scenario).draw(50, torch.Generator().manual_seed(0))
    assert batch.direct.shape == (50, 5)
    assert batch.pmax_w.tolist() == pytest.approx([float(scenario.max_power)] * 5)
    torch.testing.assert_close(prices.success, torch.full((50, 5), 0.2))
    cost = prices.rate * 0.7 + prices.efficiency * 55.0
    torch.testing.assert_close(prices.activation_cost, cost, rtol=1e-5, atol=1e-8)
    assert len(prices.rate.unique()) > 50


def test_recorded_channels_are_sampled_with_replacement():
    """The direct gains of a channel tell which one it is."""
    scenario = Scenario(workers=2)
    recorded = torch.ones(3, 2, 2) * torch.tensor([10.0, 20.0, 30.0])[:, None, None]
    curriculum = OneScenario(scenario, recorded)
    cell, _ = curriculum.draw(300, torch.Generator().manual_seed(0))
    counts = [int((cell.direct[:, 0] == gain).sum()) for gain in (10, 20, 30)]
    assert sum(counts) == 300
    assert min(counts) > 75


def test_any_scenario_varies_size_power_and_weights():
    curriculum, generator = AnyScenario(), torch.Generator().manual_seed(0)
    batches = [curriculum.draw(4, generator) for _ in range(100)]
    assert {batch.direct.shape[1] for batch, _ in batches} == set(curriculum.workers)
    pmax = torch.stack([batch.pmax_w[0] for batch, _ in batches])
    assert pmax.max() > 100 * pmax.min()
    sums = torch.cat([prices.success.sum(-1) for _, prices in batches])
    others = sums == 0  # another objective than packet success
    torch.testing.assert_close(sums[~others], torch.ones(int((~others).sum())))
    assert 0.02 < others.float().mean() < 0.25


def drawn(curriculum: TunedProblems) -> tuple[ChannelBatch, Prices]:
    """A batch of the first cell that is under way."""
    generator = torch.Generator().manual_seed(1)
    while True:
        batch, prices = curriculum.draw(64, generator)
        if scaled(curriculum):
            return batch, prices


def scaled(curriculum: TunedProblems) -> list[Tensor]:
    return [problems.scaled for problems in curriculum.cells.values()]


def test_violated_constraints_get_multipliers_and_slack_ones_none():
    """Alone on the air at a billionth of Pmax every threshold is missed; silence misses none."""
    for level, paid in ((1e-9, 0.3), (0.0, 0.0)):
        curriculum = TunedProblems(AnyScenario(workers=(1,)))
        batch, prices = drawn(curriculum)
        assert not prices.activation_cost.any()  # nothing is paid at first
        curriculum.respond((level * batch.pmax_w).expand(64, 1))
        (found,) = scaled(curriculum)
        torch.testing.assert_close(found, torch.full_like(found, paid), rtol=1e-3, atol=0)


def test_thresholds_do_not_exceed_the_interference_free_means():
    curriculum = TunedProblems(AnyScenario(workers=(4,)), seed=3)
    batch, _ = drawn(curriculum)
    (thresholds,) = (problems.thresholds for problems in curriculum.cells.values())
    most = torch.log1p(batch.direct.double() * batch.pmax_w).mean()
    assert (thresholds > 0).all()
    assert thresholds[:, 0].max() < 2 * most  # of other channels of the cell
