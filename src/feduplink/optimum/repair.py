"""Powers that miss a constraint on the channels at hand, made to meet it by silence."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.lagrangian import Cell
from feduplink.problem import Problem

#: Powers meet the constraints on their channels if the largest relative shortfall is no more than
#: this, which is what rounding leaves. The proved bound holds for such powers and for no others.
MET = 1e-9
#: What rounding may leave of a mean relative surplus that is 0.
_ROUNDING = 1e-12


def repaired(power: Tensor, cell: Cell, problem: Problem) -> Tensor:
    """The powers (N, L) W with workers silenced in some rounds, so that every constraint is met.

    A worker that misses a threshold is silenced in the rounds that miss it most for what they are
    worth, in as few as it takes. That never harms another worker, and changes nothing in this
    worker's other rounds, so one after the other will do. Powers that meet all constraints stay
    as they are.
    """
    power = torch.minimum(power.to(cell.direct), cell.pmax_w)
    for worker in range(power.shape[-1]):
        sinr = cell.sinr(power)
        surplus = torch.stack(
            [
                (c.measure(sinr, power)[:, worker] / float(c.threshold[worker]) - 1)
                if c.threshold[worker] > 0
                else torch.zeros_like(power[:, worker])
                for c in problem.constraints
            ]
        )
        on_air = power[:, worker] > 0
        sent = _rounds_kept(problem.objective(sinr, power)[:, worker], surplus, on_air)
        power[:, worker] = torch.where(sent, power[:, worker], 0.0)
    return power


def _rounds_kept(worth: Tensor, surplus: Tensor, on_air: Tensor) -> Tensor:
    """Which of the rounds on the air (N,) one worker keeps, so that no surplus (K, N) sums below 0.

    ``worth`` (N,) is what a round adds to the worker's objective.
    """
    kept = on_air.clone()
    while True:
        total = (surplus * kept).sum(-1)
        worst = int(total.argmin())
        missing = -float(total[worst])
        if missing <= _ROUNDING * max(1, int(kept.sum())):
            break
        per_worth = surplus[worst] / worth.clamp_min(1e-12)
        order = torch.where(kept, per_worth, torch.inf).argsort()
        regained = (-surplus[worst][order] * kept[order]).clamp_min(0.0).cumsum(0)
        enough = int((regained < missing).sum()) + 1
        kept[order[:enough]] = False
    return _restored(worth, surplus, on_air, kept)


def _restored(worth: Tensor, surplus: Tensor, on_air: Tensor, kept: Tensor) -> Tensor:
    """Rounds that were silenced although there is room for them, back on the air.

    The last round that was silenced for one constraint may have regained more than was missing,
    and those silenced for another constraint may have made up for it. The most worthy come first.
    """
    rounds = (on_air & ~kept).nonzero()[:, 0]
    rounds = rounds[worth[rounds].argsort(descending=True)]
    room = (surplus * kept).sum(-1).tolist()
    kept = kept.clone()
    for place, costs in zip(rounds.tolist(), surplus[:, rounds].T.tolist(), strict=True):
        after = [left + cost for left, cost in zip(room, costs, strict=True)]
        if min(after) >= 0:
            room = after
            kept[place] = True
    return kept
