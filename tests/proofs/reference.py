"""A second checker: plain float64, as docs/proofs.md reads, in logarithms and over dense grids.

What it finds is at most what the argument of the page gives, up to rounding: maxima over grids are
a little too small. So where it finds a proof wrong by a clear margin, the proof is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from feduplink.proofs import Proof, ProvedProblem
from feduplink.proofs.format import Floats, Node, ProvedMeasure, ProvedUtility

#: Relative to what a proof's numbers are worth.
MARGIN = 1e-6
_GRID = 400


def sinrs(csi: Floats, power: Floats) -> Floats:
    """(..., L)."""
    direct = np.diagonal(csi, axis1=-2, axis2=-1).astype(float)
    received = (csi.astype(float) @ power[..., None])[..., 0]
    return direct * power / (1 + received - direct * power)


def measured(problem: ProvedProblem, measure: ProvedMeasure, sinr: Floats, power: Floats) -> Floats:
    """A measure of every worker, 0 in silence."""
    if measure is ProvedMeasure.SUCCESS:
        return np.where(sinr > 0, np.exp(-problem.waterfall / np.maximum(sinr, 1e-300)), 0.0)
    if measure is ProvedMeasure.RATE:
        return np.log1p(sinr)
    return np.log1p(sinr) / (problem.amplifier_inefficiency * power + problem.static_power_w)


def measure_means(
    problem: ProvedProblem,
    measures: Sequence[ProvedMeasure],
    csi: Floats,
    power: Floats,
    *,
    on_air: bool,
) -> Floats:
    """Means over the channels, or over those in which a worker sends, (len(measures), L)."""
    sinr = sinrs(csi, power)
    count = (power > 0).sum(0) if on_air else len(power)
    rows = [measured(problem, measure, sinr, power).sum(0) / count for measure in measures]
    return np.array(rows).reshape(len(measures), power.shape[-1])


def prices(proof: Proof) -> tuple[Floats, Floats, Floats, Floats]:
    """a, b, c and d, (L,) each."""
    price = {measure: np.zeros(len(proof.floor)) for measure in ProvedMeasure}
    price[proof.problem.objective] = price[proof.problem.objective] + proof.objective_weight
    for measure, row in zip(proof.problem.constraints, proof.multipliers, strict=True):
        price[measure] = price[measure] + row
    return *price.values(), (proof.multipliers * proof.problem.limits).sum(0)


def lagrangian(proof: Proof, csi: Floats, power: Floats) -> float:
    """That of one channel (L, L) at powers (L,)."""
    *price, cost = prices(proof)
    sinr = sinrs(csi, power)
    total = -cost.copy()
    for one, measure in zip(price, ProvedMeasure, strict=True):
        total = total + one * measured(proof.problem, measure, sinr, power)
    return math.fsum(total[power > 0])


def worth(proof: Proof) -> float:
    """What the margins are relative to."""
    success, rate, efficiency, _ = prices(proof)
    return float((success + rate + efficiency / proof.problem.static_power_w).sum()) + 1


def is_wrong(proof: Proof, *, only_channel: int | None = None) -> bool:
    """Whether the proof fails by a clear margin; of boxes those of ``only_channel``, if given."""
    problem, margin = proof.problem, MARGIN * worth(proof)
    fair = problem.utility is ProvedUtility.FAIRNESS
    if (proof.multipliers < 0).any() or proof.multipliers[~problem.active].any():
        return True
    if fair:
        constant = (problem.weights * (np.log(problem.weights / proof.objective_weight) - 1)).sum()
    else:
        constant = 0.0
        if np.abs(proof.objective_weight - problem.weights).max() > 0:
            return True
    if (proof.power < 0).any() or (proof.power > problem.pmax_w).any():
        return True
    [reached] = measure_means(problem, (problem.objective,), proof.csi, proof.power, on_air=False)
    with np.errstate(divide="ignore"):
        objective = float((problem.weights * (np.log(reached) if fair else reached)).sum())
    if proof.statement.objective > objective + margin:
        return True
    with np.errstate(invalid="ignore", divide="ignore"):
        means = measure_means(problem, problem.constraints, proof.csi, proof.power, on_air=True)
        missed = (problem.limits - means) / np.where(problem.limits == 0, 1, abs(problem.limits))
    missed = np.where(problem.active, np.nan_to_num(missed, nan=-1.0), -1.0)
    if missed.size and missed.max() > proof.statement.violation + MARGIN:
        return True
    bound = proof.upper.mean() + constant
    if min(bound, _alone(proof)) > proof.statement.upper_bound + margin:
        return True
    return bool((channel_bounds(proof, only_channel) > proof.upper + margin).any())


def _alone(proof: Proof) -> float:
    """g of what everyone would have without interference, at the best of many powers."""
    problem = proof.problem
    power = problem.pmax_w * np.geomspace(1e-6, 1, 3000)[:, None, None]
    direct = np.diagonal(proof.csi, axis1=1, axis2=2).astype(float)
    power = np.broadcast_to(power, (3000, *direct.shape))
    most = measured(problem, problem.objective, direct * power, power).max(0).mean(0)
    fair = problem.utility is ProvedUtility.FAIRNESS
    return float((problem.weights * (np.log(most) if fair else most)).sum())


class _Box:
    """Limits of t = ln p and s = ln SINR."""

    def __init__(self, t_low, t_high, s_low, s_high, may_be_silent, silent, empty=False):
        self.t_low, self.t_high, self.s_low, self.s_high = t_low, t_high, s_low, s_high
        self.may_be_silent, self.silent, self.empty = may_be_silent, silent, empty

    def half(self, node: int, worker: int, at: float, *, upper: bool) -> _Box:
        half = _Box(
            *(
                getattr(self, name).copy()
                for name in ("t_low", "t_high", "s_low", "s_high", "may_be_silent", "silent")
            ),
            self.empty,
        )
        sure = not (self.may_be_silent[worker] or self.silent[worker])
        if upper:
            half.empty |= bool(self.silent[worker])
            half.may_be_silent[worker] = False
            if node == Node.BY_SINR:
                half.s_low[worker] = max(half.s_low[worker], math.log(at))
            if node == Node.BY_POWER:
                half.t_low[worker] = max(half.t_low[worker], math.log(at))
        elif node == Node.BY_SILENCE:
            half.empty |= sure
            half.may_be_silent[worker], half.silent[worker] = False, True
        elif node == Node.BY_SINR:
            half.s_high[worker] = min(half.s_high[worker], math.log(at))
        else:
            half.t_high[worker] = min(half.t_high[worker], math.log(at))
        return half

    def tighten(self, log_direct: Floats, cross: Floats, floor: Floats) -> None:
        for _ in range(2):
            sure = ~self.may_be_silent & ~self.silent
            least, most = np.log(self.least(cross)), np.log(self.most(cross))
            self.s_high = np.minimum(self.s_high, log_direct + self.t_high - least)
            reached = np.maximum(self.s_low, log_direct + self.t_low - most)
            self.s_low = np.where(sure, reached, self.s_low)
            self.t_low = np.maximum(self.t_low, self.s_low + least - log_direct)
            self.t_high = np.minimum(self.t_high, self.s_high + most - log_direct)
            # What only rounding keeps of a box is nothing: it must not be found wrong.
            nothing = (self.t_low > self.t_high - 1e-12) | (self.s_low > self.s_high - 1e-12)
            nothing |= self.s_high <= floor + 1e-12
            self.empty |= bool((nothing & sure).any())
            self.silent = self.silent | (nothing & self.may_be_silent)
            self.may_be_silent = self.may_be_silent & ~nothing

    def least(self, cross: Floats) -> Floats:
        return 1 + cross @ np.where(self.may_be_silent | self.silent, 0.0, np.exp(self.t_low))

    def most(self, cross: Floats) -> Floats:
        return 1 + cross @ np.where(self.silent, 0.0, np.exp(self.t_high))


def channel_bounds(proof: Proof, only_channel: int | None = None) -> Floats:
    """The largest bound of a leaf of every channel, (N,); infinite if the boxes prove nothing."""
    tree, problem = proof.tree, proof.problem
    count, workers = proof.power.shape
    found = np.full(count, -np.inf)
    parents = [row for row, node in enumerate(tree.node) if node <= Node.BY_SILENCE]
    if len(tree.node) != count + 2 * len(parents):
        return np.full(count, np.inf)
    rank = {row: number for number, row in enumerate(parents)}
    floor, top = np.log(proof.floor), np.log(problem.pmax_w)
    everyone, nobody = np.ones(workers, bool), np.zeros(workers, bool)
    direct = np.log(np.diagonal(proof.csi, axis1=1, axis2=2).astype(float))
    boxes = {
        channel: (channel, _Box(floor - gain, top, floor, gain + top, everyone, nobody))
        for channel, gain in enumerate(direct)
    }
    tangent = -1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for row, node in enumerate(tree.node.tolist()):
            if row not in boxes:
                return np.full(count, np.inf)
            channel, box = boxes.pop(row)
            tangent += node == Node.TANGENT
            looked_at = only_channel in (None, channel)
            cross = proof.csi[channel].astype(float)
            np.fill_diagonal(cross, 0.0)
            if looked_at:
                box.tighten(direct[channel], cross, floor)
            if row in rank:
                worker, at = int(tree.worker[row]), float(tree.split_at[row])
                for half in range(2):
                    child = box.half(node, worker, at, upper=half == 1) if looked_at else box
                    boxes[count + 2 * rank[row] + half] = channel, child
            elif looked_at and not box.empty:
                if node == Node.EMPTY:
                    bound = math.inf
                elif node == Node.TANGENT:
                    bound = _tangent_bound(proof, box, direct[channel], cross, tangent)
                else:
                    bound = _monotone_bound(proof, box, direct[channel], cross)
                found[channel] = max(found[channel], bound)
    return found + _under_the_floor(proof)


def _under_the_floor(proof: Proof) -> float:
    """What workers on the air under their floors may add."""
    problem = proof.problem
    success, rate, efficiency, cost = prices(proof)
    value = success * np.exp(-problem.waterfall / proof.floor) - cost
    value += (rate + efficiency / problem.static_power_w) * np.log1p(proof.floor)
    return math.fsum(np.maximum(value, 0.0))


def _monotone_bound(proof: Proof, box: _Box, log_direct: Floats, cross: Floats) -> float:
    problem = proof.problem
    success, rate, efficiency, cost = prices(proof)
    x = np.exp(box.s_high)
    gain = np.exp(log_direct) / box.least(cross)
    # Efficiency at the best of many powers, with the rate that each allows.
    low, high = np.exp(np.maximum(box.t_low, box.t_high - 14)), np.exp(box.t_high)
    p = low * (high / low) ** np.linspace(0, 1, 5 * _GRID)[:, None]
    p = np.vstack([p, np.clip(x / gain, low, high)])  # from here on the rate is at its limit
    drawn = problem.amplifier_inefficiency * p + problem.static_power_w
    most = (np.log1p(np.minimum(gain * p, x)) / drawn).max(0)
    value = success * np.exp(-problem.waterfall / x) + rate * np.log1p(x)
    value += efficiency * most - cost
    value = np.where(box.may_be_silent, np.maximum(value, 0.0), value)
    return math.fsum(value[~box.silent])


def _tangent_bound(proof: Proof, box: _Box, log_direct: Floats, cross: Floats, row: int) -> float:
    problem, tree = proof.problem, proof.tree
    success, rate, efficiency, cost = prices(proof)
    heard = ~box.silent
    slope = np.where(heard, tree.sinr_slope[row], 0.0)
    p0 = np.where(heard, tree.at_power[row], 0.0)

    def q(t: Floats) -> Floats:
        return 1 / (problem.amplifier_inefficiency * np.exp(t) + problem.static_power_w)

    upper = tree.upper_ends[row]
    k = np.log1p(np.exp(np.where(upper, box.s_high, box.s_low)))
    q0 = q(np.where(upper, box.t_high, box.t_low))
    share = np.linspace(0, 1, _GRID)[:, None]
    s = box.s_low + (box.s_high - box.s_low) * share
    value = success * np.exp(-problem.waterfall * np.exp(-s))
    value = value + (rate + efficiency * q0) * np.log1p(np.exp(s)) - slope * s
    intercept = value.max(0) - cost - efficiency * k * q0
    at_rest = log_direct + box.t_low - np.log(box.most(cross))
    resting = -slope * at_rest - efficiency * k * q(box.t_low)
    intercept = np.where(box.may_be_silent, np.maximum(intercept, resting), intercept)
    received = 1 + cross @ p0
    lifted = cross @ np.where(box.may_be_silent, np.exp(box.t_low), 0.0) / box.least(cross)
    s0 = log_direct + np.log(np.where(heard, p0, 1.0)) - np.log(received) + np.log1p(lifted)
    gradient = slope - (slope / received) @ cross * p0
    t = box.t_low + (box.t_high - box.t_low) * share
    moved = gradient * (t - np.log(np.where(heard, p0, 1.0))) + efficiency * k * q(t)
    return math.fsum((intercept + slope * s0 + moved.max(0))[heard])
