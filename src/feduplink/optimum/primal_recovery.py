"""Primal recovery: feasible powers near the minimum of the dual function.

At the minimum of the dual function some channels have several maximisers of nearly equal value, and
no rule that picks one of them at all multipliers is feasible. The recovery has three steps:

1. A linear program chooses among the local maxima of every channel, maximising the objective
   subject to the constraints on average. In a basic solution at most as many channels as there are
   constraints have a fractional choice; they get the maximum with the largest share.
2. The violation due to this rounding is removed by adjusting the multipliers while every channel
   stays at its chosen local maximum. No worker is switched on or off, so the powers change
   continuously, and the cost is of second order.
3. The remaining violation is repaired by silence (:func:`repair_by_silence`).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from feduplink.judgement import Judgement, judge
from feduplink.lagrangian import ChannelBatch, Prices, climb
from feduplink.optimum.dual_function import DualFunction, Evaluation, Vector
from feduplink.problem import Problem

#: Largest relative violation of powers that count as feasible on their channels, of the order of
#: rounding errors. The certified bound holds for such powers only.
MAX_VIOLATION = 1e-9
#: Rounding error of a mean relative surplus.
_ROUNDING = 1e-12


def repair_by_silence(power: Tensor, batch: ChannelBatch, problem: Problem) -> Tensor:
    """Silence workers in as few rounds as needed to satisfy every constraint.

    A worker that violates a constraint is silenced in the rounds with the largest violation per
    unit of the objective. Silence never lowers another worker's SINR and does not affect the
    worker's other rounds, so the workers are treated one after the other. Powers that are feasible,
    or that silence cannot make feasible, are returned unchanged.

    Args:
        power: transmit powers, (N, L), W; clipped to Pmax.
        batch: N channels.
        problem: objective and constraints.

    Returns:
        Powers, (N, L), W.
    """
    power = torch.minimum(power.to(batch.direct), batch.pmax_w)
    if not problem.constraints:
        return power
    silence = torch.zeros_like(power[:1])
    for worker in range(power.shape[-1]):
        sinr = batch.sinr(power)
        gains, silent_surplus = [], []
        for constraint in problem.constraints:
            scale = float(constraint.scale[worker]) if constraint.active[worker] else math.inf
            values = constraint.value(sinr, power)[:, worker]
            surplus = values / scale - float(constraint.threshold[worker]) / scale
            silent = constraint.surplus(silence, silence)[0, worker] / scale
            gains.append(surplus - silent)
            silent_surplus.append(len(power) * silent)
        objective = problem.objective_values(sinr, power)[:, worker]
        sent = _rounds_kept(
            objective, torch.stack(gains), torch.stack(silent_surplus), power[:, worker] > 0
        )
        power[:, worker] = torch.where(sent, power[:, worker], 0.0)
    return power


def _rounds_kept(
    objective: Tensor, gains: Tensor, silent_surplus: Tensor, transmits: Tensor
) -> Tensor:
    """Choose the rounds in which one worker transmits, such that its constraints hold.

    Args:
        objective: contribution of a round to the worker's objective, (N,).
        gains: contribution of transmitting in a round to a constraint's surplus, (K, N).
        silent_surplus: the surplus if the worker is silent in all rounds, (K,).
        transmits: rounds in which it transmits, (N,) bool.

    Returns:
        Rounds in which it still transmits, (N,) bool.
    """
    kept = transmits.clone()
    while True:
        total = (gains * kept).sum(-1) + silent_surplus
        worst = int(total.argmin())
        violation = -float(total[worst])
        if violation <= _ROUNDING * max(1, int(kept.sum())):
            break
        per_objective = gains[worst] / objective.clamp_min(1e-12)
        order = torch.where(kept, per_objective, torch.inf).argsort()
        recovered = (-gains[worst][order] * kept[order]).clamp_min(0.0).cumsum(0)
        if float(recovered[-1]) < (1 - _ROUNDING) * violation:
            break
        count = int((recovered < violation).sum()) + 1
        kept[order[:count]] = False
    return _reactivate(objective, gains, silent_surplus, transmits, kept)


def _reactivate(
    objective: Tensor, gains: Tensor, silent_surplus: Tensor, transmits: Tensor, kept: Tensor
) -> Tensor:
    """Reactivate silenced rounds while all constraints hold, best rounds first.

    The last round silenced for one constraint may have gained more surplus than needed, and rounds
    silenced for another constraint may have made it unnecessary.
    """
    rounds = (transmits & ~kept).nonzero()[:, 0]
    rounds = rounds[objective[rounds].argsort(descending=True)]
    surplus = ((gains * kept).sum(-1) + silent_surplus).tolist()
    kept = kept.clone()
    for place, costs in zip(rounds.tolist(), gains[:, rounds].T.tolist(), strict=True):
        remaining = [available + cost for available, cost in zip(surplus, costs, strict=True)]
        if min(remaining) >= 0:
            surplus = remaining
            kept[place] = True
    return kept


#: Largest distance of a local maximum to the best of its channel, relative to the mean of these.
_MAX_DISTANCE = 0.03
#: Relative difference of powers below which two local maxima are the same.
_SAME_POWER = 0.02
#: Relative margin of the thresholds while the multipliers are adjusted. Powers that nearly satisfy
#: the raised thresholds satisfy the original ones, at a lower cost than that of one silenced round.
_THRESHOLD_MARGIN = 2e-4
#: Maximum number of evaluations while the multipliers are adjusted.
_MAX_EVALUATIONS = 40
#: Relative gap between dual and primal value at which the recovery stops.
_RECOVERED_GAP = 2e-5


def recover_primal(
    function: DualFunction, x: Vector, maxima: list[Tensor]
) -> tuple[Tensor, Judgement]:
    """Recover feasible powers from local maxima.

    Args:
        function: the dual function.
        x: scaled multipliers near its minimum.
        maxima: local maxima of the Lagrangians at x, (N, L) W each.

    Returns:
        Powers (N, L) in W, and their judgement.
    """
    problem, batch = function.problem, function.batch
    ascent = LocalAscent(batch, combine_maxima(maxima, function, x))
    raised = DualFunction(function.scenario, problem.with_margin(_THRESHOLD_MARGIN), function.csi)
    best: tuple[Tensor, Judgement] | None = None

    def evaluate(x: Vector) -> Evaluation:
        nonlocal best
        at = raised.at(x, ascent)
        power = repair_by_silence(at.power, batch, problem)
        verdict = judge(function.scenario, function.csi, power, problem=problem)
        if best is None or verdict.objective > best[1].objective:
            best = (power, verdict)
        return at

    def is_converged(value: float) -> bool:
        return best is not None and value - best[1].objective <= _RECOVERED_GAP * max(
            1.0, abs(value)
        )

    raised.minimised(
        raised.start(function.multipliers(x)), evaluate, _MAX_EVALUATIONS, is_converged
    )
    assert best is not None
    return best


class LocalAscent:
    """A maximiser that follows one local maximum per channel while prices change.

    Args:
        batch: N channels.
        power: initial powers, (N, L), W.
    """

    def __init__(self, batch: ChannelBatch, power: Tensor) -> None:
        self._batch, self._power = batch, power

    def maximise(self, prices: Prices) -> Tensor:
        """Ascend to the local maxima at new prices, (N, L) W; silent workers stay silent."""
        self._power = climb(self._batch, prices, self._power, steps=3)
        return self._power


def combine_maxima(maxima: list[Tensor], function: DualFunction, x: Vector) -> Tensor:
    """Choose one local maximum per channel by a linear program.

    Over shares x_nj ≥ 0 of the j-th maximum of channel n: maximise Σ x_nj ω·f_nj subject to
    Σ x_nj surplus_nj ≥ 0 for every constraint and Σ_j x_nj = 1. If the program is infeasible, the
    maximum with the largest Lagrangian is chosen.

    Args:
        maxima: local maxima, (N, L) W each.
        function: the dual function.
        x: scaled multipliers of the Lagrangians.

    Returns:
        Powers, (N, L), W.
    """
    # Imported here because it takes 0.3 s.
    from scipy import sparse
    from scipy.optimize import LinearConstraint, milp

    batch, problem, prices = function.batch, function.problem, function.prices(x)
    weight = function.multipliers(x).objective_weight
    values = torch.stack([batch.value(power, prices) for power in maxima])
    best = values.max(0)
    near = values >= best.values - _MAX_DISTANCE * abs(float(best.values.mean()))
    power, channel = _distinct(torch.stack(maxima), near)
    sinr = batch.take(channel).sinr(power)
    objective = (problem.objective_values(sinr, power) * weight).sum(-1)
    surplus = torch.cat(
        [
            (c.surplus(sinr, power) / c.scale.to(power))[:, c.active.to(power.device)]
            for c in problem.constraints
        ],
        dim=1,
    )
    count, columns = batch.direct.shape[0], len(channel)
    rows = channel.cpu().numpy()
    one_per_channel = sparse.csr_array(
        (np.ones(columns), (rows, np.arange(columns))), (count, columns)
    )
    # Without integer variables milp runs the simplex method of HiGHS, whose solutions are basic.
    solution = milp(
        -objective.cpu().numpy() / count,
        constraints=(
            LinearConstraint(surplus.T.cpu().numpy() / count, lb=0.0),
            LinearConstraint(one_per_channel, lb=1.0, ub=1.0),
        ),
    )
    if solution.x is None:
        return torch.stack(maxima)[best.indices, torch.arange(count, device=power.device)]
    # Sorted such that the largest share of every channel comes last.
    order = np.lexsort((solution.x, rows))
    last = np.flatnonzero(np.append(np.diff(rows[order]) > 0, True))
    chosen = torch.from_numpy(order[last]).to(power.device)
    return power[chosen]


def _distinct(maxima: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct maxima among those selected, and their channels.

    Args:
        maxima: (J, N, L), W.
        near: selection, (J, N) bool.

    Returns:
        Powers (C, L) in W, and channels (C,). Maxima that differ only by rounding appear once.
    """
    _, channel = near.nonzero().T
    power = maxima[near]
    steps = torch.where(power > 0, power.clamp_min(1e-30).log() / _SAME_POWER, -torch.inf).round()
    keys = torch.cat((channel[:, None].to(steps), steps), dim=1).cpu().numpy()
    _, kept = np.unique(keys, axis=0, return_index=True)
    index = torch.from_numpy(kept).to(power.device)
    return power[index], channel[index]
