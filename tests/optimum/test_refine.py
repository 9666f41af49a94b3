from __future__ import annotations

import math

import pytest
import torch

from feduplink import Constraint, Problem, Scenario, draw_csi, judge
from feduplink.lagrangian import ChannelBatch, Multipliers, MultiStart, Prices
from feduplink.link import Rate
from feduplink.optimum import PRIMAL_TOLERANCE, refined, solve_dual, thresholds_with_margin
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
    return refined(problem, scenario, CSI, near, _maximiser(scenario, near))


def _power(multipliers: Multipliers) -> torch.Tensor:
    return _maximiser(SCENARIO, multipliers).best(_prices(SCENARIO, multipliers))


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_refined_multipliers_meet_the_constraints_near_the_optimum(factor: float):
    """From the solution, and from prices that are half too low."""
    optimum = solve_dual(SCENARIO, CSI)
    constraints = factor * optimum.multipliers.constraints
    near = Multipliers(constraints, optimum.multipliers.objective_weight)
    if factor < 1:
        assert judge(_power(near), CSI, SCENARIO).violation > PRIMAL_TOLERANCE
    found = _refined(SCENARIO, near)
    assert (found.constraints >= 0).all()
    assert torch.equal(found.objective_weight, near.objective_weight)
    verdict = judge(_power(found), CSI, SCENARIO)
    assert verdict.violation <= PRIMAL_TOLERANCE
    assert verdict.objective > optimum.judgement.objective - 0.01


def test_a_worker_without_threshold_is_never_charged():
    scenario = SCENARIO.replace(rate_min=(0.9, 0.0, 0.9, 0.9), ee_min=(70.0, 0.0, 70.0, 70.0))
    near = solve_dual(scenario, CSI).multipliers
    assert _refined(scenario, near).constraints[:, 1].tolist() == [0.0, 0.0]


def test_thresholds_are_raised_by_standard_errors_of_what_counts():
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
    aims = thresholds_with_margin(problem, scenario, csi, power, margin=2.0)
    rate_error = (math.log(4) - math.log(2)) / math.sqrt(2) / math.sqrt(2)
    power_error = math.sqrt(((5 / 3) ** 2 + (1 / 3) ** 2 + (4 / 3) ** 2) / 2 / 3) * 1e-3
    assert aims.flatten().tolist() == pytest.approx(
        [0.7 + 2 * rate_error, -0.002 + 2 * power_error]
    )


def test_who_has_no_limit_or_is_never_heard_gets_no_margin():
    scenario = Scenario(workers=2, rate_min=(0.0, 0.7), ee_min=0.0)
    problem = Problem.from_scenario(scenario)
    power = torch.tensor([[3e-3, 0.0], [1e-3, 0.0]])
    aims = thresholds_with_margin(problem, scenario, torch.ones(2, 2, 2), power, margin=2.0)
    assert torch.equal(aims, problem.thresholds)
