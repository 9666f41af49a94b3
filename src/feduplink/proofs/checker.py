"""Verification of a proof: the boxes cover all powers, each bound holds, and the statement
follows.

Each check returns None, or a sentence that states what is wrong. All numbers that decide are
computed in ball arithmetic or with outward rounding (:mod:`feduplink.proofs.arithmetic`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from flint import arb

from feduplink.process_pool import process_pool
from feduplink.progress import show_progress, track
from feduplink.proofs import arithmetic as balls
from feduplink.proofs.arithmetic import ZERO
from feduplink.proofs.format import (
    Floats,
    Integers,
    Node,
    Proof,
    ProofTree,
    ProvedMeasure,
    ProvedProblem,
    ProvedUtility,
)
from feduplink.proofs.leaf_bounds import (
    LeafBounds,
    most_efficient_power,
    under_the_floor,
    worker_worths,
)
from feduplink.proofs.regions import Gains, Regions


def wrong_multipliers(proof: Proof) -> str | None:
    """Weak duality takes any multipliers that are not negative, and none without a constraint."""
    problem = proof.problem
    if (proof.multipliers < 0).any():
        return "a multiplier is negative"
    if (proof.multipliers[~problem.active] != 0).any():
        return "a multiplier is not 0 where there is no limit"
    if problem.utility is ProvedUtility.SUM:
        if not np.array_equal(proof.objective_weight, problem.weights):
            return "the objective is not weighted as the problem says"
    elif (proof.objective_weight <= 0).any():
        return "a weight of the objective is not positive"
    return None


def wrong_powers(proof: Proof) -> str | None:
    """The powers are within their limits, reach the objective, and meet the constraints."""
    outside = (proof.power < 0) | (proof.power > proof.problem.pmax_w)
    if outside.any():
        channel, worker = (int(index[0]) for index in np.nonzero(outside))
        return f"channel {channel}: the power of worker {worker + 1} is not between 0 and Pmax"
    problem = proof.problem
    sinrs = _sinrs(proof)
    means = [ZERO] * len(problem.weights)
    missed = ZERO
    for worker in range(len(problem.weights)):
        links = [
            (sinr, arb(float(power)))
            for sinr, power in zip(sinrs[worker], proof.power[:, worker], strict=True)
            if power > 0
        ]
        total = _total(problem, worker, problem.objective, links)
        means[worker] = total / len(proof.power)
        for measure, limits, active in zip(
            problem.constraints, problem.limits, problem.active, strict=True
        ):
            if active[worker] and links:
                limit = arb(float(limits[worker]))
                scale = abs(limit) if limits[worker] != 0 else arb(1)
                mean = _total(problem, worker, measure, links) / len(links)
                missed = balls.larger(missed, (limit - mean) / scale)
    reached = _utility(problem, means)
    statement = proof.statement
    if statement.objective > -math.inf and not (
        reached is not None and reached >= arb(statement.objective)
    ):
        found = "−inf" if reached is None else f"{float(reached):.9g}"
        return f"the objective is said to be {statement.objective:.9g}, and is {found}"
    if not missed <= arb(statement.violation):
        return (
            f"constraints are said to be missed by {statement.violation:.3g} of their limits at "
            f"most, and are by {float(missed):.3g}"
        )
    return None


def wrong_bound(proof: Proof) -> str | None:
    """The stated bound is no less than the one that follows from the channels' bounds.

    mean(upper) + max_y [g(y) − w·y], or what nobody exceeds without interference.
    """
    total = sum((arb(float(upper)) for upper in proof.upper), ZERO) / len(proof.upper)
    proved = total + _conjugate(proof)
    stated = arb(proof.statement.upper_bound)
    if proved <= stated:
        return None
    possible = _interference_free(proof)
    if possible is not None and possible <= stated:
        return None
    return (
        f"the bound is said to be {proof.statement.upper_bound:.9g}, and {float(proved):.9g} "
        "follows from those of the channels"
    )


def _sinrs(proof: Proof) -> list[list[arb]]:
    """SINRs at the proof's powers, worker by worker and channel by channel, L lists of N."""
    csi = proof.csi.astype(np.float64).tolist()
    powers = [[arb(power) for power in row] for row in proof.power.tolist()]
    workers = range(len(powers[0]))
    return [
        [
            arb(gains[i][i])
            * power[i]
            / (1 + sum((arb(gains[i][j]) * power[j] for j in workers if j != i), ZERO))
            for gains, power in zip(csi, powers, strict=True)
        ]
        for i in workers
    ]


def _total(
    problem: ProvedProblem, worker: int, measure: ProvedMeasure, links: list[tuple[arb, arb]]
) -> arb:
    """The sum of a measure over the SINRs and powers of a worker's rounds on the air."""
    total = ZERO
    waterfall, inefficiency = arb(problem.waterfall), arb(problem.amplifier_inefficiency)
    static = arb(float(problem.static_power_w[worker]))
    for sinr, power in links:
        if measure is ProvedMeasure.SUCCESS:
            total += balls.success(sinr, waterfall)
        elif measure is ProvedMeasure.RATE:
            total += balls.rate(sinr)
        else:
            total += balls.rate(sinr) / (inefficiency * power + static)
    return total


def _utility(problem: ProvedProblem, means: Sequence[arb]) -> arb | None:
    """g(y); None where it is −∞."""
    total = ZERO
    for weight, mean in zip(problem.weights.tolist(), means, strict=True):
        if problem.utility is ProvedUtility.SUM:
            total += arb(weight) * mean
        elif weight > 0:
            if not mean > 0:
                return None
            total += arb(weight) * mean.log()
    return total


def _conjugate(proof: Proof) -> arb:
    """max_y g(y) − w·y over y ≥ 0: 0 for the weighted sum, Σ ω (ln(ω / w) − 1) for fairness."""
    total = ZERO
    if proof.problem.utility is ProvedUtility.FAIRNESS:
        weights = zip(proof.problem.weights.tolist(), proof.objective_weight.tolist(), strict=True)
        for own, price in weights:
            if own > 0:
                total += arb(own) * ((arb(own) / arb(price)).log() - 1)
    return total


def _interference_free(proof: Proof) -> arb | None:
    """g(E[max_p f_i(α_i p)]): nobody has more than alone on the air."""
    problem = proof.problem
    direct = Gains.from_csi(proof.csi.astype(np.float64)).direct
    most = []
    for worker, pmax in enumerate(problem.pmax_w.tolist()):
        alone = direct[:, worker]
        if problem.objective is ProvedMeasure.EFFICIENCY:
            total = _most_efficient(problem, worker, alone)
        else:
            links = [(arb(gain) * arb(pmax), arb(pmax)) for gain in alone.tolist()]
            total = _total(problem, worker, problem.objective, links)
        most.append(total / len(direct))
    return _utility(problem, most)


def _most_efficient(problem: ProvedProblem, worker: int, gains: Floats) -> arb:
    """No less than Σ_n max_p ln(1 + α_n p) / (μ p + P_c): a tangent of the logarithm at p⁰."""
    pmax = np.full_like(gains, problem.pmax_w[worker])
    static_power_w = np.full_like(gains, problem.static_power_w[worker])
    inefficiency = arb(problem.amplifier_inefficiency)
    peaks = most_efficient_power(
        gains, static_power_w, problem.amplifier_inefficiency, np.zeros_like(gains), pmax
    )
    static, top = arb(float(static_power_w[0])), arb(float(pmax[0]))
    total = ZERO
    for gain, at in zip(map(arb, gains.tolist()), map(arb, peaks.tolist()), strict=True):
        at_peak = 1 + gain * at
        rate, tilt = at_peak.log(), gain / at_peak
        at_top = (rate + tilt * (top - at)) / (inefficiency * top + static)
        total += balls.larger((rate - tilt * at) / static, at_top)
    return total


#: Boxes that a process takes at a time, at least a channel, and after which progress is reported;
#: also the regions in memory at once.
BOXES_AT_ONCE = 20_000


def find_error(
    proof: Proof, *, processes: int = 1, boxes_at_once: int = BOXES_AT_ONCE
) -> str | None:
    """Check a proof up to its first error.

    Args:
        proof: the proof.
        processes: number of processes that share its channels.
        boxes_at_once: number of boxes that a process takes at a time, at least those of a channel.

    Returns:
        What does not hold, in a sentence; None if the statement is proved.
    """
    if not proof.tree.is_queue() or proof.tree.roots != len(proof.upper):
        return "the boxes are no complete tree: their halves are not all there"
    with balls.precision():
        for wrong in (wrong_multipliers, wrong_powers, wrong_bound):
            if (failure := wrong(proof)) is not None:
                return failure
    parts = list(_parts(proof, boxes_at_once))
    with track("check", len(proof.tree.node), "boxes") as progress:
        done = 0
        for part, failure in zip(parts, _checked(parts, processes), strict=True):
            if failure is not None:
                return failure
            done += len(part.proof.tree.node)
            progress.advance(done)
    return None


@dataclass(frozen=True)
class _Part:
    """The proof for some of the channels, and which channels and boxes of the whole they are."""

    proof: Proof
    first: int
    rows: Integers
    boxes_at_once: int


def _parts(proof: Proof, boxes_at_once: int) -> Iterator[_Part]:
    """Runs of channels with about ``boxes_at_once`` boxes each."""
    channel = proof.tree.channel()
    boxes = np.cumsum(np.bincount(channel, minlength=len(proof.upper)))
    first = 0
    while first < len(boxes):
        before = boxes[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(boxes, before + boxes_at_once, "right")))
        tree, rows = proof.tree.take(channel, first, last)
        chosen = slice(first, last)
        part = replace(
            proof,
            csi=proof.csi[chosen],
            power=proof.power[chosen],
            upper=proof.upper[chosen],
            tree=tree,
            rows=None,
        )
        yield _Part(part, first, rows, boxes_at_once)
        first = last


def _checked(parts: list[_Part], processes: int) -> Iterator[str | None]:
    """What is wrong with each of the parts, in order."""
    if min(processes, len(parts)) == 1:
        yield from map(_wrong_part, parts)
        return
    silence = functools.partial(show_progress, False)
    with process_pool(min(processes, len(parts)), silence) as pool:
        yield from pool.map(_wrong_part, parts)


@balls.precision()
def _wrong_part(part: _Part) -> str | None:
    """The first channel and box whose bound does not hold, in a sentence."""
    proof = part.proof
    tree = proof.tree
    worths = worker_worths(proof)
    bounds = LeafBounds(worths, under_the_floor(worths, proof.floor))
    every = Gains.from_csi(proof.csi.astype(np.float64))
    regions = Regions.roots(every, proof.problem.pmax_w, proof.floor)
    for level in tree.levels():
        halves = []
        for start in range(0, level.stop - level.start, part.boxes_at_once):
            some = regions.take(slice(start, start + part.boxes_at_once))
            gains = every.take(some.channel)
            some = some.tightened(gains, proof.floor)
            nodes = level.start + start + np.arange(len(some.channel))
            for box, channel, found in _leaves(tree, nodes, some, gains, bounds):
                where = f"channel {part.first + channel}, box {part.rows[box]}"
                if found is None:
                    return f"{where}: said to be empty, but is not"
                claimed = float(proof.upper[channel])
                if not found <= arb(claimed):
                    return f"{where}: bound {claimed:.9g} claimed, {float(found.upper()):.9g} found"
            split = tree.split[nodes]
            rows = nodes[split]
            halves.append(
                some.take(split).halves(tree.node[rows], tree.worker[rows], tree.split_at[rows])
            )
        regions = Regions.concat(halves)
    return None


def _leaves(
    tree: ProofTree, nodes: Integers, regions: Regions, gains: Gains, bounds: LeafBounds
) -> Iterator[tuple[int, int, arb | None]]:
    """Box, channel and bound of the leaves among ``nodes``; None for one that is not empty.

    A leaf whose region is empty has nothing to bound.
    """
    kind = tree.node[nodes]
    for leaf in (Node.EMPTY, Node.MONOTONE, Node.TANGENT):
        rows = np.flatnonzero((kind == leaf) & ~regions.empty)
        some, their_gains = regions.take(rows), gains.take(rows)
        found: Iterator[arb | None]
        if leaf is Node.EMPTY:
            found = iter([None] * len(rows))
        elif leaf is Node.MONOTONE:
            found = bounds.monotone(some, their_gains)
        else:
            tangents = tree.tangent_rows[nodes[rows]]
            found = bounds.tangent(
                some,
                their_gains,
                tree.at_power[tangents],
                tree.sinr_slope[tangents],
                tree.upper_ends[tangents],
            )
        yield from zip(nodes[rows].tolist(), some.channel.tolist(), found, strict=True)
