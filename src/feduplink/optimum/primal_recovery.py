"""Primal recovery: powers that satisfy the constraints, near the minimum of the dual function.

At the multipliers where the dual function is smallest some channels have several maximisers as good
as equal, and no choice of one for all multipliers meets the constraints. So:

1. A linear program chooses, for every channel, among its local maxima: the largest objective with
   the constraints met on average. Of its basic solutions at most as many channels as there are
   constraints have two powers in turns; they get the one they have more of.
2. What the constraints miss by that is made up for by moving the multipliers, the powers of every
   channel staying at the local maximum that was chosen: nobody is switched on or off, so the powers
   follow smoothly, and what that costs is of second order.
3. The last bit is repaired by silence (``repair``).
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

#: Powers meet the constraints on their channels if the largest relative shortfall is no more than
#: this, which is what rounding leaves. The proved bound holds for such powers and for no others.
MET = 1e-9
#: What rounding may leave of a mean relative surplus that is 0.
_ROUNDING = 1e-12


def repaired(power: Tensor, batch: ChannelBatch, problem: Problem) -> Tensor:
    """The powers (N, L) W with workers silenced in some rounds, so that every constraint is met.

    A worker that misses a threshold is silenced in the rounds that miss it most for what they are
    worth, in as few as it takes. That never harms another worker, and changes nothing in this
    worker's other rounds, so one after the other will do. Powers that meet all constraints stay
    as they are, and so do those that silence cannot help.
    """
    power = torch.minimum(power.to(batch.direct), batch.pmax_w)
    if not problem.constraints:
        return power
    silence = torch.zeros_like(power[:1])
    for worker in range(power.shape[-1]):
        sinr = batch.sinr(power)
        gains, at_rest = [], []
        for constraint in problem.constraints:
            scale = float(constraint.scale[worker]) if constraint.active[worker] else math.inf
            values = constraint.value(sinr, power)[:, worker]
            surplus = values / scale - float(constraint.threshold[worker]) / scale
            silent = constraint.surplus(silence, silence)[0, worker] / scale
            gains.append(surplus - silent)
            at_rest.append(len(power) * silent)
        objective = problem.objective.value(sinr, power)[:, worker]
        sent = _rounds_kept(
            objective, torch.stack(gains), torch.stack(at_rest), power[:, worker] > 0
        )
        power[:, worker] = torch.where(sent, power[:, worker], 0.0)
    return power


def _rounds_kept(worth: Tensor, gains: Tensor, at_rest: Tensor, on_air: Tensor) -> Tensor:
    """Which of the rounds on the air (N,) one worker keeps, so that no constraint is missed.

    Args:
        worth: what a round adds to the worker's objective, (N,).
        gains: what being on the air in a round adds to a constraint's surplus, (K, N).
        at_rest: the surplus if the worker is silent in all rounds, (K,).
        on_air: in which rounds it is on the air, (N,) bool.

    """
    kept = on_air.clone()
    while True:
        total = (gains * kept).sum(-1) + at_rest
        worst = int(total.argmin())
        missing = -float(total[worst])
        if missing <= _ROUNDING * max(1, int(kept.sum())):
            break
        per_worth = gains[worst] / worth.clamp_min(1e-12)
        order = torch.where(kept, per_worth, torch.inf).argsort()
        regained = (-gains[worst][order] * kept[order]).clamp_min(0.0).cumsum(0)
        if float(regained[-1]) < (1 - _ROUNDING) * missing:
            break
        enough = int((regained < missing).sum()) + 1
        kept[order[:enough]] = False
    return _restored(worth, gains, at_rest, on_air, kept)


def _restored(
    worth: Tensor, gains: Tensor, at_rest: Tensor, on_air: Tensor, kept: Tensor
) -> Tensor:
    """Rounds that were silenced although there is room for them, back on the air.

    The last round that was silenced for one constraint may have regained more than was missing,
    and those silenced for another constraint may have made up for it. The most worthy come first.
    """
    rounds = (on_air & ~kept).nonzero()[:, 0]
    rounds = rounds[worth[rounds].argsort(descending=True)]
    room = ((gains * kept).sum(-1) + at_rest).tolist()
    kept = kept.clone()
    for place, costs in zip(rounds.tolist(), gains[:, rounds].T.tolist(), strict=True):
        after = [left + cost for left, cost in zip(room, costs, strict=True)]
        if min(after) >= 0:
            room = after
            kept[place] = True
    return kept


#: Local maxima this far under the largest Lagrangian are not chosen, relative to its mean.
_NEAR = 0.03
#: Relative differences of powers under which they are the same local maximum.
_SAME = 0.02
#: By which share thresholds are raised while the multipliers move, so that powers that nearly meet
#: them meet those that are asked for: one round of silence costs more.
_AIM = 2e-4
#: Most evaluations while the multipliers move, and by how much what is reached may be below the
#: dual value of the chosen local maxima.
_EVALUATIONS = 40
_REACHED = 2e-5


def recovered(function: DualFunction, x: Vector, maxima: list[Tensor]) -> tuple[Tensor, Judgement]:
    """Powers (N, L) W that meet the constraints, from local maxima (N, L) W each near x."""
    problem, batch = function.problem, function.batch
    ascent = LocalAscent(batch, recombined(maxima, function, x))
    aimed = DualFunction(function.scenario, problem.with_margin(_AIM), function.csi)
    best: tuple[Tensor, Judgement] | None = None

    def evaluate(x: Vector) -> Evaluation:
        nonlocal best
        at = aimed.at(x, ascent)
        power = repaired(at.power, batch, problem)
        verdict = judge(power, function.csi, function.scenario, problem)
        if best is None or verdict.objective > best[1].objective:
            best = (power, verdict)
        return at

    def enough(value: float) -> bool:
        return best is not None and value - best[1].objective <= _REACHED * max(1.0, abs(value))

    aimed.minimised(aimed.start(function.multipliers(x)), evaluate, _EVALUATIONS, enough)
    assert best is not None
    return best


class LocalAscent:
    """A maximiser that follows one local maximum per channel while prices move."""

    def __init__(self, batch: ChannelBatch, power: Tensor) -> None:
        self._batch, self._power = batch, power

    def maximise(self, prices: Prices) -> Tensor:
        """The local maxima at these prices, (N, L) W; who is silent stays so."""
        self._power = climb(self._batch, prices, self._power, steps=3)
        return self._power

    def restart(self, prices: Prices) -> None:
        """Nothing: the local maxima are given."""


def recombined(maxima: list[Tensor], function: DualFunction, x: Vector) -> Tensor:
    """One of the ``maxima``, (N, L) W each, for every channel, (N, L) W.

    The linear program over shares x_nj of the rounds in which channel n has its j-th maximum:
    maximise Σ x_nj ω·f_nj with Σ x_nj surplus_nj ≥ 0 for every constraint and Σ_j x_nj = 1. Where
    it has no solution, the best maxima are taken.
    """
    # Loaded when it is used, as in the dual function.
    from scipy import sparse
    from scipy.optimize import LinearConstraint, milp

    batch, problem, prices = function.batch, function.problem, function.prices(x)
    weight = function.multipliers(x).objective_weight
    values = torch.stack([batch.value(power, prices) for power in maxima])
    best = values.max(0)
    near = values >= best.values - _NEAR * abs(float(best.values.mean()))
    power, channel = _distinct(torch.stack(maxima), near)
    sinr = batch.take(channel).sinr(power)
    worth = (problem.objective.value(sinr, power) * weight).sum(-1)
    surplus = torch.cat(
        [
            (c.surplus(sinr, power) / c.scale.to(power))[:, c.active.to(power.device)]
            for c in problem.constraints
        ],
        dim=1,
    )
    count, columns = batch.direct.shape[0], len(channel)
    rows = channel.cpu().numpy()
    once = sparse.csr_array((np.ones(columns), (rows, np.arange(columns))), (count, columns))
    # Without integers it is HiGHS' simplex method, whose solutions are basic.
    solution = milp(
        -worth.cpu().numpy() / count,
        constraints=(
            LinearConstraint(surplus.T.cpu().numpy() / count, lb=0.0),
            LinearConstraint(once, lb=1.0, ub=1.0),
        ),
    )
    if solution.x is None:
        return torch.stack(maxima)[best.indices, torch.arange(count, device=power.device)]
    # The largest share of every channel comes last.
    order = np.lexsort((solution.x, rows))
    last = np.flatnonzero(np.append(np.diff(rows[order]) > 0, True))
    chosen = torch.from_numpy(order[last]).to(power.device)
    return power[chosen]


def _distinct(maxima: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """The powers (C, L) W of maxima (J, N, L) that are ``near`` (J, N), and their channels (C,).

    Of those that are the same but for rounding, one.
    """
    _, channel = near.nonzero().T
    power = maxima[near]
    steps = torch.where(power > 0, power.clamp_min(1e-30).log() / _SAME, -torch.inf).round()
    keys = torch.cat((channel[:, None].to(steps), steps), dim=1).cpu().numpy()
    _, kept = np.unique(keys, axis=0, return_index=True)
    index = torch.from_numpy(kept).to(power.device)
    return power[index], channel[index]
