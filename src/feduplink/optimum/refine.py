"""Multipliers at which a policy's own powers meet the constraints, also on unseen channels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from feduplink.judgement import judge
from feduplink.lagrangian import ChannelBatch, Maximiser, Multipliers, Prices
from feduplink.problem import Problem
from feduplink.progress import track_each
from feduplink.scenario import Scenario

#: Maximisers that miss a constraint by no more than this share of its threshold are near enough
#: for the multipliers of a policy, which is judged on other channels.
PRIMAL_TOLERANCE = 2e-3
#: Evaluations that a refinement takes.
_EVALUATIONS = 12
#: First step of the multipliers, relative to the weights, for a relative surplus of one.
_FIRST_STEP = 0.05


def thresholds_with_margin(
    problem: Problem, scenario: Scenario, csi: Tensor, power: Tensor, margin: float
) -> Tensor:
    """The thresholds (K, L) raised by ``margin`` standard errors.

    The standard errors are those with which the channels (N, L, L) estimate the expectations in
    the constraints under the powers (N, L). Who meets the raised thresholds on these channels
    meets the given ones on others too.
    """
    power = power.to(torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rows = []
    for constraint in problem.constraints:
        counted = constraint.counted(power)
        values = torch.where(counted, constraint.value(sinr, power), math.nan)
        count = counted.sum(0).clamp_min(2)
        spread = (values - values.nanmean(0)).square().nansum(0) / (count - 1)
        error = (spread / count).sqrt().nan_to_num(nan=0.0)  # NaN: a worker never heard
        raised = constraint.threshold + margin * error
        rows.append(torch.where(constraint.active, raised, constraint.threshold))
    return torch.stack(rows)


def refined(
    problem: Problem, scenario: Scenario, csi: Tensor, near: Multipliers, maximiser: Maximiser
) -> Multipliers:
    """Multipliers near ``near`` at which the maximiser's powers meet the constraints.

    A minimum of the dual function need not meet the constraints: where prices make a worker
    indifferent the maximisers jump, and a network that stands in for the search is not quite the
    maximiser, so that the surplus of a constraint is not quite the gradient. Hence steps along the
    surplus itself, λ ← max(λ − η surplus, 0): longer after a step that brings the constraints
    nearer to being met exactly, and back and shorter after one that does not. Of all multipliers on
    the way the best are taken.

    Args:
        problem: with the thresholds to be met.
        scenario: the radio.
        csi: the channels, (N, L, L), which the constraints speak of.
        near: where to begin.
        maximiser: gives the powers (N, L) on these channels, or on what it sees of them.

    """
    batch = ChannelBatch.from_scenario(scenario, csi)
    scales, active = problem.scales.to(batch.direct), problem.active.to(batch.direct.device)
    unit = scales / near.objective_weight.mean()
    scaled, step = near.constraints * unit, _FIRST_STEP
    best: tuple[tuple[bool, float], Multipliers] | None = None
    base: tuple[float, Tensor, Tensor] | None = None
    for _ in track_each("multipliers", range(_EVALUATIONS), "evaluations"):
        multipliers = Multipliers(scaled / unit, near.objective_weight)
        power = maximiser.maximise(Prices.from_problem(problem, scenario, multipliers))
        rank = judge(power, csi, scenario, problem).rank(PRIMAL_TOLERANCE)
        if best is None or rank > best[0]:
            best = (rank, multipliers)
        surplus = problem.mean_surplus(batch.sinr(power), power) / scales
        surplus = torch.where(active, surplus, 0.0)
        # A surplus is no fault where nothing is paid for it.
        fault = float(torch.where(scaled > 0, surplus, surplus.clamp_max(0.0)).norm())
        if base is None or fault < base[0]:
            base, step = (fault, scaled, surplus), 1.5 * step
        else:
            step = 0.4 * step
        scaled = (base[1] - step * base[2]).clamp_min(0.0)
    assert best is not None
    return best[1]
