from __future__ import annotations

import dataclasses

import pytest
import torch

from feduplink import Scenario, draw_csi, judge
from feduplink.optimum import MAX_VIOLATION, SEARCH, solve_dual
from recorder import Recorder


def test_the_solution_on_few_channels_is_feasible():
    scenario = Scenario(workers=4, interference=8, rate_min=0.4, ee_min=30)
    csi = draw_csi(scenario, 25, torch.Generator().manual_seed(3))
    solution = solve_dual(scenario, csi)
    assert solution.judgement.violation <= MAX_VIOLATION
    assert 0.1 < solution.judgement.objective <= solution.dual_value + 1e-3


def test_the_constraints_hold_exactly_at_a_negligible_cost():
    """The maximisers violate them slightly; silencing a round of every worker would cost 0.005."""
    scenario = Scenario(workers=4, interference=3)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(6))
    solution = solve_dual(scenario, csi)
    assert solution.steps[0].violation > 0.05  # without multipliers they are violated
    assert judge(scenario, csi, solution.power).violation <= MAX_VIOLATION
    assert solution.judgement.objective >= solution.dual_value - 1e-3


def test_only_feasible_powers_improve_the_solution():
    scenario = Scenario(workers=3, ee_min=110)
    csi = draw_csi(scenario, 50, torch.Generator().manual_seed(7))
    solution = solve_dual(scenario, csi)
    assert solution.found_by == SEARCH
    full = scenario.max_power.expand(50, 3)
    verdict = judge(scenario, csi, full)
    assert verdict.violation > MAX_VIOLATION
    better = dataclasses.replace(verdict, objective=2.0)
    assert solution.improved_by("max", full, better) is solution
    met = dataclasses.replace(better, shortfall=0.0)
    improved = solution.improved_by("max", full, met)
    assert (improved.found_by, improved.judgement.objective) == ("max", 2.0)
    assert torch.equal(improved.power, full)
    worse = dataclasses.replace(met, objective=0.0)
    assert improved.improved_by("quiet", full, worse) is improved


def test_the_solver_warm_starts_from_given_multipliers():
    scenario = Scenario(workers=3, interference=4)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(4))
    first = solve_dual(scenario, csi)
    assert (first.multipliers.constraints > 0).any()
    again = solve_dual(scenario, csi, start=first.multipliers)
    assert again.steps[0].dual == pytest.approx(first.dual_value, abs=1e-12)
    assert len(again.steps) < len(first.steps)
    assert first.dual_value - 3e-4 <= again.dual_value <= first.dual_value


def test_every_step_is_reported_and_multipliers_are_never_negative():
    scenario = Scenario(workers=3, interference=4, rate_min=(1.2, 0.0, 0.5))
    csi = draw_csi(scenario, 100, torch.Generator().manual_seed(5))
    recorder = Recorder()
    solution = solve_dual(scenario, csi, callbacks=[recorder])
    assert [step.detail for step in recorder.steps] == solution.steps
    assert (solution.multipliers.constraints >= 0).all()
    assert float(solution.multipliers.constraints[0, 0]) > 0
    assert float(solution.multipliers.constraints[0, 1]) == 0  # no threshold
