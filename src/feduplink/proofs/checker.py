"""Verification of a proof: the boxes cover all powers, each bound holds, the statement follows.

Each check returns None, or a sentence about the first error. All numbers that decide are computed
in ball arithmetic or with outward rounding (:mod:`feduplink.proofs.arithmetic`).
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
    floor_slack,
    most_efficient_power,
    worker_values,
)
from feduplink.proofs.regions import Gains, Regions


def multiplier_error(proof: Proof) -> str | None:
    """Check that the multipliers are dual feasible: nonnegative, and 0 without a constraint."""
    problem = proof.problem
    if (proof.multipliers < 0).any():
        return "a multiplier is negative"
    if (proof.multipliers[~problem.active] != 0).any():
        return "a multiplier is not 0 for a worker without a limit"
    if problem.utility is ProvedUtility.SUM:
        if not np.array_equal(proof.objective_weight, problem.weights):
            return "the weights of the objective differ from those of the problem"
    elif (proof.objective_weight <= 0).any():
        return "a weight of the objective is not positive"
    return None


def power_error(proof: Proof) -> str | None:
    """Check that the powers are in range, achieve the objective and satisfy the constraints."""
    outside = (proof.power < 0) | (proof.power > proof.problem.pmax_w)
    if outside.any():
        channel, worker = (int(index[0]) for index in np.nonzero(outside))
        return f"channel {channel}: the power of worker {worker + 1} is not between 0 and Pmax"
    problem = proof.problem
    sinrs = _sinrs(proof)
    means = [ZERO] * len(problem.weights)
    violation = ZERO
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
                violation = balls.larger(violation, (limit - mean) / scale)
    objective = _utility(problem, means)
    statement = proof.statement
    if statement.objective > -math.inf and not (
        objective is not None and objective >= arb(statement.objective)
    ):
        found = "−inf" if objective is None else f"{float(objective):.9g}"
        return f"objective {statement.objective:.9g} claimed, {found} found"
    if not violation <= arb(statement.violation):
        return (
            f"violation of the constraints by at most {statement.violation:.3g} of their limits "
            f"claimed, {float(violation):.3g} found"
        )
    return None


def bound_error(proof: Proof) -> str | None:
    """Check that the stated bound follows from the bounds of the channels.

    It must be at least mean(upper) + max_y [g(y) − w·y], or at least the interference-free bound.
    """
    total = sum((arb(float(upper)) for upper in proof.upper), ZERO) / len(proof.upper)
    implied = total + _conjugate(proof)
    stated = arb(proof.statement.upper_bound)
    if implied <= stated:
        return None
    interference_free = _interference_free(proof)
    if interference_free is not None and interference_free <= stated:
        return None
    return (
        f"upper bound {proof.statement.upper_bound:.9g} claimed, {float(implied):.9g} follows from "
        "the bounds of the channels"
    )


def _sinrs(proof: Proof) -> list[list[arb]]:
    """SINRs at the proof's powers by worker and channel, L lists of N."""
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
    """Sum of a measure over the SINRs and powers of the rounds in which a worker transmits."""
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
    """g(y); None if it is −∞."""
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
        for weight, price in weights:
            if weight > 0:
                total += arb(weight) * ((arb(weight) / arb(price)).log() - 1)
    return total


def _interference_free(proof: Proof) -> arb | None:
    """Interference-free bound g(E[max_p f_i(α_i p)]); None if it is −∞."""
    problem = proof.problem
    direct = Gains.from_csi(proof.csi.astype(np.float64)).direct
    means = []
    for worker, pmax in enumerate(problem.pmax_w.tolist()):
        direct_gains = direct[:, worker]
        if problem.objective is ProvedMeasure.EFFICIENCY:
            total = _most_efficient(problem, worker, direct_gains)
        else:
            links = [(arb(gain) * arb(pmax), arb(pmax)) for gain in direct_gains.tolist()]
            total = _total(problem, worker, problem.objective, links)
        means.append(total / len(direct))
    return _utility(problem, means)


def _most_efficient(problem: ProvedProblem, worker: int, gains: Floats) -> arb:
    """Upper bound on Σ_n max_p ln(1 + α_n p) / (μ p + P_c), by a tangent of the logarithm at p⁰."""
    pmax = np.full_like(gains, problem.pmax_w[worker])
    static_power_w = np.full_like(gains, problem.static_power_w[worker])
    inefficiency = arb(problem.amplifier_inefficiency)
    peaks = most_efficient_power(
        gains, static_power_w, problem.amplifier_inefficiency, np.zeros_like(gains), pmax
    )
    static, pmax_ball = arb(float(static_power_w[0])), arb(float(pmax[0]))
    total = ZERO
    for gain, at in zip(map(arb, gains.tolist()), map(arb, peaks.tolist()), strict=True):
        at_peak = 1 + gain * at
        rate, slope = at_peak.log(), gain / at_peak
        at_top = (rate + slope * (pmax_ball - at)) / (inefficiency * pmax_ball + static)
        total += balls.larger((rate - slope * at) / static, at_top)
    return total


#: Number of boxes per task of a process, after which progress is reported, and number of regions in
#: memory at a time.
BOXES_AT_ONCE = 20_000


def find_error(
    proof: Proof, *, processes: int = 1, boxes_at_once: int = BOXES_AT_ONCE
) -> str | None:
    """Check a proof up to its first error.

    Args:
        proof: the proof.
        processes: number of processes that share its channels.
        boxes_at_once: number of boxes per task of a process, at least those of one channel.

    Returns:
        A sentence about the first error; None if the statement is proved.
    """
    if not proof.tree.is_queue() or proof.tree.roots != len(proof.upper):
        return "incomplete branching tree: child boxes are missing"
    with balls.precision():
        for check in (multiplier_error, power_error, bound_error):
            if (error := check(proof)) is not None:
                return error
    parts = list(_parts(proof, boxes_at_once))
    with track("check", len(proof.tree.node), "boxes") as progress:
        done = 0
        for part, error in zip(parts, _part_errors(parts, processes), strict=True):
            if error is not None:
                return error
            done += len(part.proof.tree.node)
            progress.advance(done)
    return None


@dataclass(frozen=True)
class _Part:
    """The proof for consecutive channels.

    Attributes:
        proof: the proof for these channels.
        first: index of the first channel in the whole proof.
        rows: rows of the boxes in the whole proof, (m,).
        boxes_at_once: number of boxes in memory at a time.
    """

    proof: Proof
    first: int
    rows: Integers
    boxes_at_once: int


def _parts(proof: Proof, boxes_at_once: int) -> Iterator[_Part]:
    """Split a proof into consecutive channels with about ``boxes_at_once`` boxes each."""
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


def _part_errors(parts: list[_Part], processes: int) -> Iterator[str | None]:
    """First error of each part, in order; None for parts without one."""
    if min(processes, len(parts)) == 1:
        yield from map(_part_error, parts)
        return
    silence = functools.partial(show_progress, False)
    with process_pool(min(processes, len(parts)), silence) as pool:
        yield from pool.map(_part_error, parts)


@balls.precision()
def _part_error(part: _Part) -> str | None:
    """A sentence about the first channel and box whose bound does not hold, or None."""
    proof = part.proof
    tree = proof.tree
    values = worker_values(proof)
    bounds = LeafBounds(values, floor_slack(values, proof.floor))
    all_gains = Gains.from_csi(proof.csi.astype(np.float64))
    regions = Regions.roots(all_gains, proof.problem.pmax_w, proof.floor)
    for level in tree.levels():
        halves = []
        for start in range(0, level.stop - level.start, part.boxes_at_once):
            chunk = regions.take(slice(start, start + part.boxes_at_once))
            gains = all_gains.take(chunk.channel)
            chunk = chunk.tightened(gains, proof.floor)
            nodes = level.start + start + np.arange(len(chunk.channel))
            for box, channel, found in _leaves(tree, nodes, chunk, gains, bounds):
                where = f"channel {part.first + channel}, box {part.rows[box]}"
                if found is None:
                    return f"{where}: claimed to be empty, but is not"
                claimed = float(proof.upper[channel])
                if not found <= arb(claimed):
                    return f"{where}: bound {claimed:.9g} claimed, {float(found.upper()):.9g} found"
            split = tree.split[nodes]
            rows = nodes[split]
            halves.append(
                chunk.take(split).halves(tree.node[rows], tree.worker[rows], tree.split_at[rows])
            )
        regions = Regions.concat(halves)
    return None


def _leaves(
    tree: ProofTree, nodes: Integers, regions: Regions, gains: Gains, bounds: LeafBounds
) -> Iterator[tuple[int, int, arb | None]]:
    """Box, channel and bound of the leaves among ``nodes``.

    Leaves whose region is empty need no bound and are omitted. The bound is None for a leaf that is
    claimed to be empty but is not.
    """
    kind = tree.node[nodes]
    for leaf in (Node.EMPTY, Node.MONOTONE, Node.TANGENT):
        rows = np.flatnonzero((kind == leaf) & ~regions.empty)
        chunk, leaf_gains = regions.take(rows), gains.take(rows)
        found: Iterator[arb | None]
        if leaf is Node.EMPTY:
            found = iter([None] * len(rows))
        elif leaf is Node.MONOTONE:
            found = bounds.monotone(chunk, leaf_gains)
        else:
            tangents = tree.tangent_rows[nodes[rows]]
            found = bounds.tangent(
                chunk,
                leaf_gains,
                tree.at_power[tangents],
                tree.sinr_slope[tangents],
                tree.upper_ends[tangents],
            )
        yield from zip(nodes[rows].tolist(), chunk.channel.tolist(), found, strict=True)
