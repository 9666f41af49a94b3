"""Powers that miss a constraint on the channels at hand, made to meet it by silence."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
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
