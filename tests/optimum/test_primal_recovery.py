from __future__ import annotations

import torch
from torch import Tensor

from feduplink import Problem, Scenario, draw_csi, judge
from feduplink.lagrangian import MultiStart
from feduplink.optimum import (
    MET,
    DualFunction,
    LocalAscent,
    Vector,
    recombined,
    recovered,
    repaired,
    solve_dual,
)

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


def test_where_nothing_is_in_the_way_every_channel_has_the_best_of_its_powers():
    scenario = Scenario(workers=3, rate_min=1e-6, ee_min=1e-6)
    csi = draw_csi(scenario, 40, torch.Generator().manual_seed(3))
    function = DualFunction(scenario, Problem.from_scenario(scenario), csi)
    full = scenario.pmax_w.expand(40, 3)
    candidates = [full, full * torch.tensor([1.0, 0.3, 0.1]), full * torch.tensor([0.1, 0.3, 1.0])]
    chosen = recombined(candidates, function, function.start())
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


def test_nobody_is_switched_while_prices_move():
    function, x, maxima, _ = _at_the_minimum(50)
    ascent = LocalAscent(function.batch, maxima[0])
    moved = ascent.maximise(function.prices(1.2 * x))
    assert torch.equal(moved > 0, maxima[0] > 0)
    assert not torch.equal(moved, maxima[0])
