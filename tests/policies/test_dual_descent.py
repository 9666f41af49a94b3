from __future__ import annotations

import torch
from torch import Tensor

from feduplink import Problem, Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Prices, maximise
from feduplink.optimum import solve_dual
from feduplink.policies.dual_descent import descended


def test_with_the_search_as_maximiser_it_comes_near_the_minimum_of_the_dual_function():
    scenario = Scenario(workers=2, interference=4, rate_min=3.0, ee_min=40)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 300, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi)

    def search(rows: Tensor, prices: Prices) -> Tensor:
        return maximise(batch.take(rows), prices, rounds=1)

    scaled, x = descended(problem, scenario, csi, search)
    prices = Prices.from_problem(problem, scenario, scaled.multipliers(x))
    reached = float(batch.value(maximise(batch, prices), prices).mean())
    smallest = solve_dual(scenario, csi).dual_value
    assert x.max() > 0.05  # something has to be paid
    assert smallest - 1e-6 < reached < smallest + 2e-3


def test_the_order_of_channels_is_that_of_the_seed():
    scenario = Scenario(workers=2, rate_min=8.0)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 400, torch.Generator().manual_seed(1))

    def full_power(rows: Tensor, _: Prices) -> Tensor:
        return torch.full((len(rows), 2), float(scenario.pmax_w), dtype=torch.float64)

    first, again, other = (
        descended(problem, scenario, csi, full_power, seed=seed)[1] for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
