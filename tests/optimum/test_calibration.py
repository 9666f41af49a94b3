from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from feduplink import Constraint, Problem, Scenario, draw_csi, judge
from feduplink.lagrangian import ChannelBatch, Multipliers, MultiStart, Prices, maximise
from feduplink.link import Rate
from feduplink.optimum import (
    COARSE,
    FINE,
    PRIMAL_TOLERANCE,
    DualDescent,
    refine_multipliers,
    solve_dual,
    thresholds_with_margin,
)
from feduplink.problem import WeightedSum
from link.own_measures import AveragePower

SCENARIO = Scenario(workers=4, rate_min=0.9, ee_min=70)
CSI = draw_csi(SCENARIO, 300, torch.Generator().manual_seed(1))


def _maximiser(scenario: Scenario, multipliers: Multipliers) -> MultiStart:
    return MultiStart(ChannelBatch.from_scenario(scenario, CSI), _prices(scenario, multipliers))


def _prices(scenario: Scenario, multipliers: Multipliers) -> Prices:
    return Prices.from_problem(Problem.from_scenario(scenario), scenario, multipliers)


def _refined(scenario: Scenario, near: Multipliers) -> Multipliers:
    problem = Problem.from_scenario(scenario)
    return refine_multipliers(
        scenario, CSI, problem=problem, near=near, maximiser=_maximiser(scenario, near)
    )


def _power(multipliers: Multipliers) -> torch.Tensor:
    return _maximiser(SCENARIO, multipliers).best(_prices(SCENARIO, multipliers))


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_refined_multipliers_meet_the_constraints_near_the_optimum(factor: float):
    """From the solution, and from half its multipliers."""
    optimum = solve_dual(SCENARIO, CSI)
    constraints = factor * optimum.multipliers.constraints
    near = Multipliers(constraints, optimum.multipliers.objective_weight)
    if factor < 1:
        assert judge(SCENARIO, CSI, _power(near)).violation > PRIMAL_TOLERANCE
    found = _refined(SCENARIO, near)
    assert (found.constraints >= 0).all()
    assert torch.equal(found.objective_weight, near.objective_weight)
    verdict = judge(SCENARIO, CSI, _power(found))
    assert verdict.violation <= PRIMAL_TOLERANCE
    assert verdict.objective > optimum.judgement.objective - 0.01


def test_multipliers_of_workers_without_thresholds_stay_zero():
    scenario = SCENARIO.replace(rate_min=(0.9, 0.0, 0.9, 0.9), ee_min=(70.0, 0.0, 70.0, 70.0))
    near = solve_dual(scenario, CSI).multipliers
    assert _refined(scenario, near).constraints[:, 1].tolist() == [0.0, 0.0]


def test_thresholds_are_raised_by_standard_errors_of_the_counted_rounds():
    """ln 2 and ln 4 on the air and a round of silence; powers of 3, 1 and 0 mW, all counted."""
    scenario = Scenario(workers=1, rate_min=0.7, ee_min=0.0)
    power = torch.tensor([[3e-3], [1e-3], [0.0]], dtype=torch.float64)
    csi = torch.tensor([1e3, 1e3, 1e3], dtype=torch.float64)[:, None, None]
    problem = Problem(
        Rate(),
        WeightedSum(torch.ones(1)),
        (
            Constraint.at_least(Rate(), torch.tensor([0.7], dtype=torch.float64)),
            Constraint.below(AveragePower(), torch.tensor([0.002], dtype=torch.float64)),
        ),
    )
    aims = thresholds_with_margin(scenario, csi, power, problem=problem, margin=2.0)
    rate_error = (math.log(4) - math.log(2)) / math.sqrt(2) / math.sqrt(2)
    power_error = math.sqrt(((5 / 3) ** 2 + (1 / 3) ** 2 + (4 / 3) ** 2) / 2 / 3) * 1e-3
    assert aims.flatten().tolist() == pytest.approx(
        [0.7 + 2 * rate_error, -0.002 + 2 * power_error]
    )


def test_silent_workers_and_those_without_a_threshold_get_no_margin():
    scenario = Scenario(workers=2, rate_min=(0.0, 0.7), ee_min=0.0)
    problem = Problem.from_scenario(scenario)
    power = torch.tensor([[3e-3, 0.0], [1e-3, 0.0]])
    aims = thresholds_with_margin(scenario, torch.ones(2, 2, 2), power, problem=problem, margin=2.0)
    assert torch.equal(aims, problem.thresholds)


def test_dual_descent_with_the_search_comes_near_the_minimum_of_the_dual_function():
    scenario = Scenario(workers=2, interference=4, rate_min=3.0, ee_min=40)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 300, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi)

    def search(csi: Tensor, prices: Prices) -> Tensor:
        batch = ChannelBatch.from_scenario(scenario, csi)
        return MultiStart(batch, prices, rounds=1).best(prices)

    descent = DualDescent(scenario, csi, search, problem=problem)
    descent.descend(COARSE)
    far = descent.multipliers
    descent.descend(replace(FINE, channels=300, steps=40))
    prices = Prices.from_problem(problem, scenario, descent.multipliers)
    reached = float(batch.value(maximise(batch, prices), prices).mean())
    smallest = solve_dual(scenario, csi).dual_value
    assert (descent.multipliers.constraints * problem.thresholds).max() > 0.02  # there is a price
    assert not torch.equal(far.constraints, descent.multipliers.constraints)
    assert smallest - 1e-6 < reached < smallest + 1e-3


def test_the_order_of_channels_follows_the_seed():
    scenario = Scenario(workers=2, rate_min=8.0)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 400, torch.Generator().manual_seed(1))

    def full_power(csi: Tensor, _: Prices) -> Tensor:
        return torch.full((len(csi), 2), float(scenario.max_power), dtype=torch.float64)

    def found(seed: int) -> Tensor:
        descent = DualDescent(scenario, csi, full_power, problem=problem, seed=seed)
        descent.descend(COARSE)
        return descent.multipliers.constraints

    assert torch.equal(found(1), found(1))
    assert not torch.equal(found(1), found(2))


def test_only_multipliers_of_significantly_violated_constraints_are_raised():
    """At constant powers one worker misses its rate by far, the other by less than the noise."""
    scenario = Scenario(workers=2, rate_min=(8.0, 8.0), ee_min=0.1)
    csi = draw_csi(scenario, 400, torch.Generator().manual_seed(1))
    power = torch.full((400, 2), float(scenario.max_power), dtype=torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rates = Problem.from_scenario(scenario).constraint_values(sinr, power)[0].mean(0)
    scenario = scenario.replace(rate_min=(1.5 * float(rates[0]), 1.001 * float(rates[1])))
    problem = Problem.from_scenario(scenario)
    descent = DualDescent(scenario, csi, lambda csi, _: power[: len(csi)], problem=problem)
    descent.descend(replace(COARSE, channels=400))
    before = descent.multipliers.constraints
    descent.raise_violated_multipliers(2, 400)
    raised = descent.multipliers.constraints / before
    assert (before[0] > 0).all()
    torch.testing.assert_close(raised[0], torch.tensor([1.21, 1.0], dtype=torch.float64))
    assert torch.equal(descent.multipliers.constraints[1], before[1])


def _full_power() -> tuple[Tensor, Tensor, Tensor]:
    """Channels, powers, and rates of the first worker, in falling order of these rates."""
    scenario = Scenario(workers=2, rate_min=8.0)
    csi = draw_csi(scenario, 8000, torch.Generator().manual_seed(1))
    power = torch.full((8000, 2), float(scenario.max_power), dtype=torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rates = Problem.from_scenario(scenario).constraint_values(sinr, power)[0, :, 0]
    rates, order = rates.sort(descending=True)
    return csi[order], power, rates


def _raised(rate_min: float, descended_on: slice, looked_at: Sequence[Tensor]) -> tuple[float, int]:
    """Factor by which the first worker's multiplier is raised, and the number of looks."""
    before, after, looks = _multipliers(rate_min, descended_on, looked_at)
    assert before > 0
    return after / before, looks


def _multipliers(
    rate_min: float, descended_on: slice, looked_at: Sequence[Tensor]
) -> tuple[float, float, int]:
    """The first worker's multiplier before and after it is raised, and the number of looks."""
    csi, power, _ = _full_power()
    scenario = Scenario(workers=2, rate_min=(rate_min, 0.1), ee_min=0.1)
    descent = DualDescent(
        scenario,
        csi[descended_on],
        lambda csi, _: power[: len(csi)],
        problem=Problem.from_scenario(scenario),
    )
    descent.descend(replace(COARSE, channels=400))
    before = float(descent.multipliers.constraints[0, 0])
    seen = []

    def look(number: int) -> Tensor:
        seen.append(number)
        return csi[looked_at[number]]

    descent.raise_violated_multipliers(len(looked_at), 0, look)
    return before, float(descent.multipliers.constraints[0, 0]), len(seen)


def test_violations_are_estimated_on_channels_other_than_those_of_the_descent():
    """A threshold that the best channels miss by less than the noise, and all channels by far."""
    best, everything = slice(400), torch.arange(8000)
    rates = _full_power()[2]
    assert float(rates.mean()) < 0.9 * float(rates[best].mean())
    threshold = 1.005 * float(rates[best].mean())
    assert _raised(threshold, best, [everything[best]])[0] == 1.0
    assert _raised(threshold, best, [everything])[0] > 1.03


def test_a_multiplier_of_zero_is_raised_too():
    """A threshold that the channels of the descent exceed by far, and all channels miss."""
    rates = _full_power()[2]
    threshold = 0.8 * float(rates[:400].mean())
    assert float(rates.mean()) < 0.9 * threshold
    before, after, _ = _multipliers(threshold, slice(400), [torch.arange(8000)])
    assert before == 0
    assert after > 0


def test_a_violation_is_estimated_on_all_channels_since_the_last_correction():
    """A violation of a tenth is insignificant on 50 channels and significant on 800."""
    threshold = 1.1 * float(_full_power()[2].mean())
    looks = [torch.arange(begin, 8000, 160) for begin in range(72, 88)]
    alone = [_raised(threshold, slice(4000, 8000), [look])[0] for look in looks]
    together, _ = _raised(threshold, slice(4000, 8000), looks)
    assert alone == [1.0] * 16
    assert 1.02 < together < 1.1


def test_correction_ends_when_no_constraint_is_violated_or_inconclusive():
    """A slack of 3 % is inconclusive on twenty channels and conclusive on all of them."""
    threshold = 0.97 * float(_full_power()[2].mean())
    few, everything = [torch.arange(begin, 8000, 400) for begin in range(4)], torch.arange(8000)
    assert _raised(threshold, slice(4000, 8000), few) == (1.0, 4)
    assert _raised(threshold, slice(4000, 8000), [everything] * 4) == (1.0, 1)


def test_a_large_slack_is_conclusive_on_few_channels():
    threshold = 0.5 * float(_full_power()[2].mean())
    few = [torch.arange(begin, 8000, 200) for begin in range(4)]
    assert _raised(threshold, slice(7960, 8000), few) == (1.0, 1)


def test_repeated_channels_count_once():
    """A violation of a tenth stays insignificant on 50 channels however often they repeat."""
    csi, power, rates = _full_power()
    fifty = csi[torch.arange(72, 8000, 160)]
    scenario = Scenario(workers=2, rate_min=(1.1 * float(rates.mean()), 0.1), ee_min=0.1)
    descent = DualDescent(
        scenario, fifty, lambda csi, _: power[: len(csi)], problem=Problem.from_scenario(scenario)
    )
    descent.descend(replace(COARSE, channels=50))
    before = descent.multipliers.constraints
    descent.raise_violated_multipliers(16, 400)
    assert before[0, 0] > 0
    assert torch.equal(descent.multipliers.constraints, before)
