from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from feduplink import Problem, Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Prices, maximise
from feduplink.optimum import solve_dual
from feduplink.policies.dual_descent import FAR, NEAR, DualDescent


def test_with_the_search_as_maximiser_it_comes_near_the_minimum_of_the_dual_function():
    scenario = Scenario(workers=2, interference=4, rate_min=3.0, ee_min=40)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 300, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi)

    def search(csi: Tensor, prices: Prices) -> Tensor:
        return maximise(ChannelBatch.from_scenario(scenario, csi), prices, rounds=1)

    descent = DualDescent(problem, scenario, csi, search)
    descent.descend(FAR)
    far = descent.multipliers
    descent.descend(replace(NEAR, channels=300, steps=40))
    prices = Prices.from_problem(problem, scenario, descent.multipliers)
    reached = float(batch.value(maximise(batch, prices), prices).mean())
    smallest = solve_dual(scenario, csi).dual_value
    assert (descent.multipliers.constraints * problem.thresholds).max() > 0.02  # there is a price
    assert not torch.equal(far.constraints, descent.multipliers.constraints)
    assert smallest - 1e-6 < reached < smallest + 1e-3


def test_the_order_of_channels_is_that_of_the_seed():
    scenario = Scenario(workers=2, rate_min=8.0)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 400, torch.Generator().manual_seed(1))

    def full_power(csi: Tensor, _: Prices) -> Tensor:
        return torch.full((len(csi), 2), float(scenario.pmax_w), dtype=torch.float64)

    def found(seed: int) -> Tensor:
        descent = DualDescent(problem, scenario, csi, full_power, seed=seed)
        descent.descend(FAR)
        return descent.multipliers.constraints

    assert torch.equal(found(1), found(1))
    assert not torch.equal(found(1), found(2))


def test_only_multipliers_of_what_is_missed_beyond_the_noise_are_raised():
    """Powers that no price changes: one worker misses its rate by far, the other is on the edge."""
    scenario = Scenario(workers=2, rate_min=(8.0, 8.0), ee_min=0.1)
    csi = draw_csi(scenario, 400, torch.Generator().manual_seed(1))
    power = torch.full((400, 2), float(scenario.pmax_w), dtype=torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rates = Problem.from_scenario(scenario).constraint_values(sinr, power)[0].mean(0)
    scenario = scenario.replace(rate_min=(1.5 * float(rates[0]), 1.001 * float(rates[1])))
    problem = Problem.from_scenario(scenario)
    descent = DualDescent(problem, scenario, csi, lambda csi, _: power[: len(csi)])
    descent.descend(replace(FAR, channels=400))
    before = descent.multipliers.constraints
    descent.raise_missed(2, 400)
    raised = descent.multipliers.constraints / before
    assert (before[0] > 0).all()
    torch.testing.assert_close(raised[0], torch.tensor([1.21, 1.0], dtype=torch.float64))
    assert torch.equal(descent.multipliers.constraints[1], before[1])


def test_further_channels_tell_what_the_first_do_not():
    """The first channels happen to be good for a worker; all of them show that it falls short."""
    scenario = Scenario(workers=2, rate_min=8.0, ee_min=0.1)
    drawn = draw_csi(scenario, 8000, torch.Generator().manual_seed(1))
    power = torch.full((8000, 2), float(scenario.pmax_w), dtype=torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, drawn).sinr(power)
    rates = Problem.from_scenario(scenario).constraint_values(sinr, power)[0]
    good = rates[:, 0].argsort(descending=True)[:4000:10]
    scenario = scenario.replace(rate_min=(float(rates[good, 0].mean()), 0.1))
    problem = Problem.from_scenario(scenario)

    def raised(*further: Tensor) -> float:
        descent = DualDescent(problem, scenario, drawn[good], lambda csi, _: power[: len(csi)])
        descent.descend(replace(FAR, channels=400))
        before = descent.multipliers.constraints[0, 0]
        descent.raise_missed(1, 400, further)
        return float(descent.multipliers.constraints[0, 0] / before)

    assert raised() == 1.0
    assert raised(drawn[:4000], drawn[4000:]) > 1.05
