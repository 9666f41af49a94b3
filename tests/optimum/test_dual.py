from __future__ import annotations

import pytest
import torch

from feduplink import Scenario, draw_csi, judge
from feduplink.lagrangian import Cell, Multipliers
from feduplink.optimum import solve_dual
from feduplink.optimum.dual import PRIMAL_TOLERANCE, conjugate, repaired
from feduplink.problem import Problem


def test_repaired_powers_meet_the_constraints_and_only_silence():
    scenario = Scenario(workers=5, rate_min=1.0, ee_min=70)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(0))
    power = scenario.pmax_w.expand(200, 5)
    assert judge(power, csi, scenario).violation > 0.1
    mended = repaired(power, Cell.of(scenario, csi), scenario, Problem.of(scenario))
    assert judge(mended, csi, scenario).violation <= PRIMAL_TOLERANCE
    assert ((mended == power) | (mended == 0)).all()
    assert 0 < float((mended > 0).double().mean()) < 1
    assert torch.equal(
        repaired(mended, Cell.of(scenario, csi), scenario, Problem.of(scenario)), mended
    )


def test_few_channels_still_give_a_feasible_solution():
    scenario = Scenario(workers=4, interference=8, rate_min=0.4, ee_min=30)
    csi = draw_csi(scenario, 25, torch.Generator().manual_seed(3))
    solution = solve_dual(scenario, csi)
    assert solution.judgement.violation <= PRIMAL_TOLERANCE
    assert solution.judgement.objective <= solution.dual_value + 1e-3


def test_it_goes_on_from_given_multipliers():
    scenario = Scenario(workers=3)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(4))
    first = solve_dual(scenario, csi)
    again = solve_dual(scenario, csi, start=first.multipliers)
    assert again.dual_value == pytest.approx(first.dual_value, abs=3e-4)
    assert len(again.steps) <= len(first.steps)


def test_every_step_is_told_and_multipliers_are_never_negative():
    scenario = Scenario(workers=3, rate_min=(0.7, 0.0, 0.5))
    csi = draw_csi(scenario, 100, torch.Generator().manual_seed(5))
    told = []
    solution = solve_dual(scenario, csi, progress=told.append)
    assert told == solution.steps
    assert (solution.multipliers.constraints >= 0).all()
    assert float(solution.multipliers.constraints[0, 1]) == 0  # no threshold, no price


def test_the_conjugate_of_proportional_fairness():
    """max_y Σ ω ln y − w·y, against a fine grid of y."""
    scenario = Scenario(workers=2, utility="proportional-fairness", weights=(0.3, 0.7))
    worth = torch.tensor([0.5, 2.0], dtype=torch.float64)
    y = torch.linspace(1e-4, 5, 500_001, dtype=torch.float64)
    best = sum(
        float((w * y.log() - p * y).max()) for w, p in zip((0.3, 0.7), worth.tolist(), strict=True)
    )
    assert conjugate(scenario, worth) == pytest.approx(best, abs=1e-8)
    assert conjugate(scenario.replace(utility="weighted-sum"), worth) == 0


def test_multipliers_move_between_devices():
    multipliers = Multipliers(torch.zeros(2, 3), torch.ones(3)).to(torch.device("meta"))
    assert multipliers.constraints.is_meta
    assert multipliers.worth.is_meta
