from __future__ import annotations

import itertools

import torch
from torch import Tensor

from feduplink import Problem, Scenario, draw_csi, judge
from feduplink.lagrangian import MultiStart
from feduplink.optimum import repaired, solve_dual
from feduplink.optimum.dual_function import DualFunction, Vector
from feduplink.optimum.primal_recovery import LocalAscent, recombined, recovered
from feduplink.optimum.repair import MET

#: Where workers exclude each other, so that no price makes their maximisers meet the constraints.
SCENARIO = Scenario(workers=4, interference=8, rate_min=0.5, ee_min=40)


def _at_the_minimum(channels: int) -> tuple[DualFunction, Vector, list[Tensor], float]:
    csi = draw_csi(SCENARIO, channels, torch.Generator().manual_seed(2))
    solution = solve_dual(SCENARIO, csi)
    function = DualFunction(SCENARIO, Problem.from_scenario(SCENARIO), csi)
    x = function.start(solution.multipliers)
    maxima = MultiStart(function.batch, function.prices(x), rounds=4).maxima
    return function, x, maxima, solution.dual_value


def test_what_is_recovered_meets_the_constraints_and_is_near_the_dual_value():
    function, x, maxima, dual = _at_the_minimum(300)
    power, verdict = recovered(function, x, maxima)
    assert judge(power, function.csi, SCENARIO).violation <= MET
    assert dual - 4e-4 < verdict.objective < dual + 1e-9
    # Silence alone costs several times as much.
    at = function.at(x, MultiStart(function.batch, function.prices(x), rounds=4))
    silenced = repaired(at.power, function.batch, function.problem)
    assert judge(silenced, function.csi, SCENARIO).objective < verdict.objective - 4e-4


def test_the_best_choice_among_local_maxima_of_a_few_channels():
    """By trying all of them: where the program's shares are whole, nothing is better."""
    function, x, maxima, _ = _at_the_minimum(6)
    chosen = judge(recombined(maxima, function, x), function.csi, SCENARIO)
    two = [torch.stack([maxima[0][n], maxima[4][n]]) for n in range(6)]
    tried = [
        judge(torch.stack([two[n][j] for n, j in enumerate(choice)]), function.csi, SCENARIO)
        for choice in itertools.product((0, 1), repeat=6)
    ]
    best = max((v.objective for v in tried if v.violation <= MET), default=0.0)
    assert chosen.violation > 0 or chosen.objective >= best - 1e-9


def test_nobody_is_switched_while_prices_move():
    function, x, maxima, _ = _at_the_minimum(50)
    ascent = LocalAscent(function.batch, maxima[0])
    moved = ascent.maximise(function.prices(1.2 * x))
    assert torch.equal(moved > 0, maxima[0] > 0)
    assert not torch.equal(moved, maxima[0])
