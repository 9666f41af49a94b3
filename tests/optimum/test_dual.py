from __future__ import annotations

import dataclasses

import pytest
import torch

from feduplink import Scenario, draw_csi, judge
from feduplink.lagrangian import Multipliers
from feduplink.optimum import solve_dual
from feduplink.optimum.dual import SEARCH, conjugate
from feduplink.optimum.repair import MET
from observing.recorder import Recorder


def test_few_channels_still_give_a_feasible_solution():
    scenario = Scenario(workers=4, interference=8, rate_min=0.4, ee_min=30)
    csi = draw_csi(scenario, 25, torch.Generator().manual_seed(3))
    solution = solve_dual(scenario, csi)
    assert solution.judgement.violation <= MET
    assert 0.1 < solution.judgement.objective <= solution.dual_value + 1e-3


def test_the_constraints_are_met_exactly_at_next_to_no_cost():
    """The maximisers miss them by a little; to silence a round of every worker would cost 0.005."""
    scenario = Scenario(workers=4)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(6))
    solution = solve_dual(scenario, csi)
    assert judge(solution.power, csi, scenario).violation <= MET
    assert solution.judgement.objective >= solution.dual_value - 1e-3


def test_better_powers_count_only_if_they_meet_the_constraints():
    scenario = Scenario(workers=3, ee_min=110)
    csi = draw_csi(scenario, 50, torch.Generator().manual_seed(7))
    solution = solve_dual(scenario, csi)
    assert solution.found_by == SEARCH
    full = scenario.pmax_w.expand(50, 3)
    verdict = judge(full, csi, scenario)
    assert verdict.violation > MET
    better = dataclasses.replace(verdict, objective=2.0)
    assert solution.improved_by("max", full, better) is solution
    met = dataclasses.replace(better, shortfall=0.0)
    improved = solution.improved_by("max", full, met)
    assert (improved.found_by, improved.judgement.objective) == ("max", 2.0)
    assert torch.equal(improved.power, full)
    worse = dataclasses.replace(met, objective=0.0)
    assert improved.improved_by("quiet", full, worse) is improved


def test_it_goes_on_from_given_multipliers():
    scenario = Scenario(workers=3)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(4))
    first = solve_dual(scenario, csi)
    again = solve_dual(scenario, csi, start=first.multipliers)
    assert again.dual_value == pytest.approx(first.dual_value, abs=3e-4)
    assert len(again.steps) <= len(first.steps)


def test_every_step_is_reported_and_multipliers_are_never_negative():
    scenario = Scenario(workers=3, rate_min=(0.7, 0.0, 0.5))
    csi = draw_csi(scenario, 100, torch.Generator().manual_seed(5))
    recorder = Recorder()
    solution = solve_dual(scenario, csi, observers=[recorder])
    assert [step.detail for step in recorder.steps] == solution.steps
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
