from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor

from feduplink import Constraint, Problem, Scenario, draw_csi, judge
from feduplink.lagrangian import ChannelBatch, MultiStart
from feduplink.link import PacketSuccess
from feduplink.optimum import (
    MAX_VIOLATION,
    DualFunction,
    LocalAscent,
    Vector,
    combine_maxima,
    recover_primal,
    repair_by_silence,
    solve_dual,
)
from feduplink.problem import WeightedSum
from link.own_measures import AveragePower

#: Workers exclude each other: at no multipliers are the maximisers feasible.
SCENARIO = Scenario(workers=4, interference=8, rate_min=0.5, ee_min=40)


def _at_the_minimum(channels: int) -> tuple[DualFunction, Vector, list[Tensor], float]:
    csi = draw_csi(SCENARIO, channels, torch.Generator().manual_seed(2))
    solution = solve_dual(SCENARIO, csi)
    function = DualFunction(SCENARIO, Problem.from_scenario(SCENARIO), csi)
    x = function.start(solution.multipliers)
    maxima = MultiStart(function.batch, function.prices(x), rounds=4).maxima
    return function, x, maxima, solution.dual_value


def test_recovered_powers_are_feasible_and_near_the_dual_value():
    function, x, maxima, dual = _at_the_minimum(300)
    power, verdict = recover_primal(function, x, maxima)
    assert judge(SCENARIO, function.csi, power).violation <= MAX_VIOLATION
    assert dual - 4e-4 < verdict.objective < dual + 1e-9
    # Silencing alone costs several times as much.
    at = function.at(x, MultiStart(function.batch, function.prices(x), rounds=4))
    silenced = repair_by_silence(at.power, function.batch, function.problem)
    assert judge(SCENARIO, function.csi, silenced).objective < verdict.objective - 4e-4


def test_without_binding_constraints_every_channel_has_its_best_candidate():
    scenario = Scenario(workers=3, rate_min=1e-6, ee_min=1e-6)
    csi = draw_csi(scenario, 40, torch.Generator().manual_seed(3))
    function = DualFunction(scenario, Problem.from_scenario(scenario), csi)
    full = scenario.max_power.expand(40, 3)
    candidates = [full, full * torch.tensor([1.0, 0.3, 0.1]), full * torch.tensor([0.1, 0.3, 1.0])]
    chosen = combine_maxima(candidates, function, function.start())
    objective = torch.stack(
        [
            (function.problem.objective.value(function.batch.sinr(power), power)).to(power)
            @ function.problem.utility.weights
            for power in candidates
        ]
    )
    best = objective.argmax(0)
    assert len(best.unique()) > 1  # it depends on the channel
    assert torch.equal(chosen, torch.stack(candidates)[best, torch.arange(40)])


def test_local_ascent_does_not_switch_workers():
    function, x, maxima, _ = _at_the_minimum(50)
    ascent = LocalAscent(function.batch, maxima[0])
    moved = ascent.maximise(function.prices(1.2 * x))
    assert torch.equal(moved > 0, maxima[0] > 0)
    assert not torch.equal(moved, maxima[0])


def _repaired(power: torch.Tensor, csi: torch.Tensor, scenario: Scenario) -> torch.Tensor:
    return repair_by_silence(
        power, ChannelBatch.from_scenario(scenario, csi), Problem.from_scenario(scenario)
    )


@pytest.mark.parametrize(("rate_min", "ee_min"), [(1.0, 70.0), (2.5, 0.0), (0.0, 150.0)])
def test_repair_is_feasible_and_only_silences(rate_min: float, ee_min: float):
    scenario = Scenario(workers=5, rate_min=rate_min, ee_min=ee_min)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(0))
    power = scenario.max_power.expand(200, 5)
    assert judge(scenario, csi, power).violation > 0.1
    mended = _repaired(power, csi, scenario)
    assert judge(scenario, csi, mended).violation <= MAX_VIOLATION
    assert ((mended == power) | (mended == 0)).all()
    assert 0 < float((mended > 0).double().mean()) < 1


def test_repair_leaves_feasible_powers_unchanged():
    scenario = Scenario(workers=3, rate_min=0.1, ee_min=0.0)
    csi = draw_csi(scenario, 50, torch.Generator().manual_seed(1))
    power = scenario.max_power.expand(50, 3)
    assert judge(scenario, csi, power).shortfall < 0
    assert torch.equal(_repaired(power, csi, scenario), power)


def test_repair_silences_the_rounds_of_least_value():
    """One worker, six rounds: the best of all sets of rounds that meet the threshold."""
    scenario = Scenario(workers=1, weights="ones", rate_min=1.5, ee_min=0.0, pmax_dbw=0)
    gains = torch.tensor([0.02, 0.1, 0.5, 2.0, 8.0, 60.0], dtype=torch.float64)
    csi = gains[:, None, None]
    rate, worth = torch.log1p(gains), torch.exp(-0.023 / gains)
    best = max(
        float(worth[list(kept)].sum())
        for count in range(1, 7)
        for kept in itertools.combinations(range(6), count)
        if float(rate[list(kept)].mean()) >= 1.5
    )
    verdict = judge(scenario, csi, _repaired(torch.ones(6, 1), csi, scenario))
    assert verdict.violation <= MAX_VIOLATION
    assert 6 * verdict.objective == pytest.approx(best)


def test_repair_satisfies_conflicting_thresholds():
    """Loud rounds have the rate, quiet ones the efficiency; both means hold in the end."""
    scenario = Scenario(workers=1, weights="ones", rate_min=1.0, ee_min=30.0, pmax_dbw=0)
    csi = torch.full((40, 1, 1), 100.0, dtype=torch.float64)
    power = torch.logspace(-3, 0, 40, dtype=torch.float64)[:, None]
    assert judge(scenario, csi, power).violation > 0.05
    rate = torch.log1p(100 * power[:, 0])
    worth, surplus = (
        torch.exp(-0.023 / (100 * power[:, 0])),
        torch.stack((rate - 1, rate / (power[:, 0] + 0.01) - 30)),
    )
    best = milp(
        -worth.numpy(),
        constraints=LinearConstraint(surplus.numpy(), 0, math.inf),
        integrality=1,
        bounds=Bounds(0, 1),
    )
    verdict = judge(scenario, csi, _repaired(power, csi, scenario))
    assert verdict.violation <= MAX_VIOLATION
    assert -best.fun * 0.995 <= 40 * verdict.objective <= -best.fun + 1e-6


def test_repair_silences_workers_that_cannot_reach_a_threshold():
    scenario = Scenario(workers=2, rate_min=(40.0, 0.0), ee_min=0.0)
    csi = draw_csi(scenario, 10, torch.Generator().manual_seed(2))
    mended = _repaired(scenario.max_power.expand(10, 2), csi, scenario)
    assert not mended[:, 0].any()
    assert (mended[:, 1] > 0).all()


def test_repaired_powers_are_at_most_pmax():
    scenario = Scenario(workers=2, rate_min=0.0, ee_min=0.0)
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(3))
    mended = _repaired(2 * scenario.max_power.expand(5, 2).float(), csi, scenario)
    assert torch.equal(mended, scenario.max_power.expand(5, 2).double())


def _power_limited(limit_w: float, *, at_most: bool) -> Problem:
    """The packet success of one worker whose power is limited on average over all rounds."""
    limit = torch.tensor([limit_w], dtype=torch.float64)
    constraint = (Constraint.below if at_most else Constraint.at_least)(AveragePower(), limit)
    return Problem(PacketSuccess(0.023), WeightedSum(torch.ones(1)), (constraint,))


def test_repair_under_an_average_power_limit_is_a_knapsack():
    """Rounds with their powers and values, and a capacity of N times the limit."""
    scenario = Scenario(workers=1, pmax_dbw=0)
    rng = np.random.default_rng(0)
    power = torch.from_numpy(10 ** rng.uniform(-3, 0, (60, 1)))
    gains = torch.from_numpy(10 ** rng.uniform(-2, 2, 60))
    csi = gains[:, None, None]
    problem = _power_limited(0.05, at_most=True)
    assert judge(scenario, csi, power, problem=problem).violation > 1
    worth = torch.exp(-0.023 / (gains * power[:, 0]))
    best = milp(
        -worth.numpy(),
        constraints=LinearConstraint(power[:, 0].numpy(), 0, 60 * 0.05),
        integrality=1,
        bounds=Bounds(0, 1),
    )
    mended = repair_by_silence(power, ChannelBatch.from_scenario(scenario, csi), problem)
    verdict = judge(scenario, csi, mended, problem=problem)
    assert verdict.violation <= MAX_VIOLATION
    assert ((mended == power) | (mended == 0)).all()
    assert -best.fun * 0.99 <= 60 * verdict.objective <= -best.fun + 1e-6


def test_repair_leaves_violations_that_silence_cannot_reduce():
    scenario = Scenario(workers=1, pmax_dbw=0)
    power = torch.full((4, 1), 0.5, dtype=torch.float64)
    csi = torch.ones(4, 1, 1, dtype=torch.float64)
    problem = _power_limited(0.6, at_most=False)
    assert judge(scenario, csi, power, problem=problem).violation > 0.1
    assert torch.equal(
        repair_by_silence(power, ChannelBatch.from_scenario(scenario, csi), problem), power
    )
