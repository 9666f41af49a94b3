"""Checks a proof: the boxes cover all powers, each bound holds, and the statement follows.

Whatever decides is computed with outward rounding (:mod:`feduplink.proofs.outward`) or in ball
arithmetic (:mod:`feduplink.proofs.balls`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from flint import arb

from feduplink.process_pool import process_pool
from feduplink.progress import show_progress, track
from feduplink.proofs import balls
from feduplink.proofs.leaf_bounds import LeafBounds
from feduplink.proofs.proof import Integers, Node, Proof, ProofTree
from feduplink.proofs.regions import Gains, Regions
from feduplink.proofs.statement import wrong_bound, wrong_multipliers, wrong_powers
from feduplink.proofs.worker_worth import under_the_floor, worker_worths

#: Boxes in what a process is given at a time, if a channel has no more; progress is told by it.
#: And how many regions are computed with at once, which bounds the memory.
_BOXES_AT_A_TIME = 20_000


@dataclass(frozen=True)
class Verdict:
    """What came of a check.

    Attributes:
        failure: what does not hold, in a sentence; None if the proof holds.
        channels, boxes, leaves: how many there are.
        seconds: how long it took.
    """

    failure: str | None
    channels: int
    boxes: int
    leaves: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the statement is proved."""
        return self.failure is None


def check_proof(proof: Proof, *, processes: int = 1) -> Verdict:
    """Check a proof, its channels in so many ``processes``; stops at the first thing wrong."""
    started = time.monotonic()
    failure = _failure(proof, processes)
    leaves = int(np.count_nonzero(~proof.tree.split))
    elapsed = time.monotonic() - started
    return Verdict(failure, len(proof.upper), len(proof.tree.node), leaves, elapsed)


def _failure(proof: Proof, processes: int) -> str | None:
    if not proof.tree.is_queue() or proof.tree.roots != len(proof.upper):
        return "the boxes are no complete tree: their halves are not all there"
    with balls.precision():
        for wrong in (wrong_multipliers, wrong_powers, wrong_bound):
            if (failure := wrong(proof)) is not None:
                return failure
    parts = list(_parts(proof))
    with track("check", len(proof.tree.node), "boxes") as tracker:
        done = 0
        for part, failure in zip(parts, _checked(parts, processes), strict=True):
            if failure is not None:
                return failure
            done += len(part.proof.tree.node)
            tracker.advance(done)
    return None


@dataclass(frozen=True)
class _Part:
    """The proof for some of the channels, and which channels and boxes of the whole they are."""

    proof: Proof
    first: int
    rows: Integers


def _parts(proof: Proof) -> Iterator[_Part]:
    """Runs of channels with about :data:`_BOXES_AT_A_TIME` boxes each."""
    channel = proof.tree.channel()
    boxes = np.cumsum(np.bincount(channel, minlength=len(proof.upper)))
    first = 0
    while first < len(boxes):
        before = boxes[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(boxes, before + _BOXES_AT_A_TIME, "right")))
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
        yield _Part(part, first, rows)
        first = last


def _checked(parts: list[_Part], processes: int) -> Iterator[str | None]:
    """What is wrong with each of the parts, in order."""
    if min(processes, len(parts)) == 1:
        yield from map(_wrong_part, parts)
        return
    with process_pool(min(processes, len(parts)), _work_silently) as pool:
        yield from pool.map(_wrong_part, parts)


def _work_silently() -> None:
    show_progress(False)


def _wrong_part(part: _Part) -> str | None:
    """The first channel and box whose bound does not hold, in a sentence."""
    with balls.precision():
        return _wrong_box(part)


def _wrong_box(part: _Part) -> str | None:
    proof = part.proof
    tree = proof.tree
    worths = worker_worths(proof)
    bounds = LeafBounds(worths, under_the_floor(worths, proof.floor))
    every = Gains.from_csi(proof.csi.astype(np.float64))
    regions = Regions.roots(every, proof.problem.pmax_w, proof.floor)
    for level in tree.levels():
        halves = []
        for start in range(0, level.stop - level.start, _BOXES_AT_A_TIME):
            some = regions.take(slice(start, start + _BOXES_AT_A_TIME))
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
