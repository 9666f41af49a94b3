"""Multipliers at which a policy's own powers meet the constraints."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.lagrangian import Cell, Maximiser, Multipliers
from feduplink.observing import track_each
from feduplink.optimum.dual import PRIMAL_TOLERANCE
from feduplink.problem import Problem, judge
from feduplink.scenario import Scenario

#: Evaluations that settling takes.
_EVALUATIONS = 12
#: First step of the multipliers, relative to the weights, for a relative surplus of one.
_FIRST_STEP = 0.05


def settled(
    scenario: Scenario, csi: Tensor, near: Multipliers, maximiser: Maximiser
) -> Multipliers:
    """Multipliers near ``near`` at which the maximiser's powers meet the constraints.

    A minimum of the dual function need not meet the constraints: where prices make a worker
    indifferent the maximisers jump, and a network that stands in for the search is not quite the
    maximiser, so that the surplus of a constraint is not quite the gradient. Hence steps along the
    surplus itself, λ ← max(λ − η surplus, 0): longer after a step that brings the constraints
    nearer to being met exactly, and back and shorter after one that does not. Of all multipliers on
    the way the best are taken.

    Args:
        scenario: the problem.
        csi: the channels, (N, L, L), which the constraints speak of.
        near: where to begin.
        maximiser: gives the powers (N, L) on these channels, or on what it sees of them.
    """
    problem = Problem.of(scenario)
    cell = Cell.of(scenario, csi)
    thresholds = torch.stack((scenario.rate_thresholds, scenario.ee_thresholds)).to(cell.direct)
    unit = torch.where(thresholds > 0, thresholds, 1.0) / near.worth.mean()
    scaled, step = near.constraints * unit, _FIRST_STEP
    best: tuple[tuple[bool, float], Multipliers] | None = None
    base: tuple[float, Tensor, Tensor] | None = None
    for _ in track_each("multipliers", range(_EVALUATIONS), "evaluations"):
        multipliers = Multipliers(scaled / unit, near.worth)
        power = maximiser.follow(multipliers.prices(scenario))
        verdict = judge(power, csi, scenario, problem)
        met = verdict.violation <= PRIMAL_TOLERANCE
        rank = (met, verdict.objective if met else -verdict.violation)
        if best is None or rank > best[0]:
            best = (rank, multipliers)
        surplus = _relative_surplus(problem, cell, power)
        # A surplus is no fault where nothing is paid for it.
        fault = float(torch.where(scaled > 0, surplus, surplus.clamp_max(0.0)).norm())
        if base is None or fault < base[0]:
            base, step = (fault, scaled, surplus), 1.5 * step
        else:
            step = 0.4 * step
        scaled = (base[1] - step * base[2]).clamp_min(0.0)
    assert best is not None
    return best[1]


def _relative_surplus(problem: Problem, cell: Cell, power: Tensor) -> Tensor:
    """E[1(p > 0) (c − c0)] / c0 for every constraint and worker, 0 without threshold; (2, L)."""
    sinr = cell.sinr(power)
    rows = []
    for constraint in problem.constraints:
        threshold = constraint.threshold.to(power)
        surplus = torch.where(power > 0, constraint.measure(sinr, power) - threshold, 0.0).mean(0)
        rows.append(torch.where(threshold > 0, surplus / threshold.clamp_min(1e-12), 0.0))
    return torch.stack(rows)
