"""What a proof consists of: a statement, the problem it is about, and the boxes that prove it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class ProvedMeasure(StrEnum):
    """What a proof may have as its objective and under lower limits."""

    SUCCESS = "psr"  #: exp(−m / SINR)
    RATE = "rate"  #: ln(1 + SINR), nats/s/Hz
    EFFICIENCY = "energy_efficiency"  #: ln(1 + SINR) / (μ p + P_c), nats/s/Hz/W


class ProvedUtility(StrEnum):
    """How the workers' means y become one number."""

    SUM = "weighted-sum"  #: Σ ω y
    FAIRNESS = "proportional-fairness"  #: Σ ω ln y


class Node(IntEnum):
    """What becomes of a box: it is split in two, or it is a leaf and bounded."""

    BY_SINR = 0
    BY_POWER = 1
    BY_SILENCE = 2
    MONOTONE = 3
    TANGENT = 4
    EMPTY = 5


@dataclass(frozen=True)
class Statement:
    """What is proved.

    Attributes:
        objective: what the powers reach at least; −∞ where a worker that counts is never heard.
        violation: by which share of its limit they miss a constraint at most; 0 if they meet all.
        upper_bound: what no policy exceeds that meets the constraints on the channels.
    """

    objective: float
    violation: float
    upper_bound: float


@dataclass(frozen=True)
class ProvedProblem:
    """maximise g(E[f]) subject to E[c_ki | p_i > 0] ≥ limit_ki, 0 ≤ p_i ≤ Pmax_i.

    Attributes:
        objective: f.
        utility: g.
        weights: ω, (L,).
        constraints: c, K of them.
        limits: (K, L), in the unit of the measure.
        active: which worker has a limit in which constraint, (K, L).
        pmax_w, static_power_w: Pmax and P_c, (L,), W.
        waterfall: m.
        amplifier_inefficiency: μ.
    """

    objective: ProvedMeasure
    utility: ProvedUtility
    weights: Floats
    constraints: tuple[ProvedMeasure, ...]
    limits: Floats
    active: Booleans
    pmax_w: Floats
    static_power_w: Floats
    waterfall: float
    amplifier_inefficiency: float


@dataclass(frozen=True)
class ProofTree:
    """The branching of N channels as one queue of M boxes.

    The first N boxes are the roots, one per channel; the two halves of the r-th box that is split
    are boxes N + 2 r and N + 2 r + 1, the lower half first. So there is nothing to say about
    parents, and both halves of a box are always there.

    Attributes:
        roots: N.
        node: what becomes of every box, a :class:`Node`, (M,).
        worker: whose quantity splits it, (M,); 0 for a leaf.
        split_at: at which SINR or power in W, (M,); 0 for a leaf and for a split by silence.
        at_power: where the tangents are taken, (T, L), W, in the order of their leaves.
        sinr_slope: of the lines above the workers' values in ln SINR, (T, L).
        upper_ends: whether R q is bounded from the upper ends of SINR and power, (T, L).
    """

    roots: int
    node: NDArray[np.int8]
    worker: Integers
    split_at: Floats
    at_power: Floats
    sinr_slope: Floats
    upper_ends: Booleans

    @cached_property
    def split(self) -> Booleans:
        """Which boxes are split, (M,)."""
        return self.node <= Node.BY_SILENCE

    @cached_property
    def tangent_rows(self) -> Integers:
        """Which tangent bounds a box that is bounded by one, (M,)."""
        return np.cumsum(self.node == Node.TANGENT) - 1

    def is_queue(self) -> bool:
        """Whether the boxes are a queue as described: then all of a root is in its leaves."""
        parents = np.flatnonzero(self.split)
        children = self.roots + 2 * np.arange(len(parents))
        return len(self.node) == self.roots + 2 * len(parents) and bool((parents < children).all())

    def levels(self) -> Iterator[slice]:
        """The boxes generation by generation."""
        start, stop = 0, self.roots
        while start < stop:
            yield slice(start, stop)
            start, stop = stop, stop + 2 * int(np.count_nonzero(self.split[start:stop]))

    def channel(self) -> Integers:
        """The channel of every box, (M,)."""
        channel = np.arange(len(self.node))
        for level in self.levels():
            halved = channel[level][self.split[level]]
            channel[level.stop : level.stop + 2 * len(halved)] = np.repeat(halved, 2)
        return channel

    def take(self, channel: Integers, first: int, last: int) -> tuple[ProofTree, Integers]:
        """The branching of channels ``first`` to ``last`` − 1, and the rows of its boxes here."""
        chosen = (channel >= first) & (channel < last)
        tangents = chosen[self.node == Node.TANGENT]
        return (
            ProofTree(
                last - first,
                self.node[chosen],
                self.worker[chosen],
                self.split_at[chosen],
                self.at_power[tangents],
                self.sinr_slope[tangents],
                self.upper_ends[tangents],
            ),
            np.flatnonzero(chosen),
        )


@dataclass(frozen=True)
class Proof:
    """A statement with all that is needed to check it.

    Attributes:
        statement: what is proved.
        problem: what it is about.
        csi: the channels H, (N, L, L), relative to the noise; float32 or float64.
        rows: where the channels are in the file they were recorded in, (N,); None if drawn.
        multipliers: λ of the constraints, (K, L).
        objective_weight: w of the objective's measure, (L,): ω for the weighted sum.
        power: the powers that reach the objective, (N, L), W.
        upper: what no powers' Lagrangian exceeds in a channel, (N,).
        floor: the SINR under which a worker on the air is worth next to nothing, (L,).
        tree: the boxes that prove ``upper``.
        scenario: the scenario as text, for readers; nothing is concluded from it.
    """

    statement: Statement
    problem: ProvedProblem
    csi: NDArray[np.float32] | Floats
    rows: Integers | None
    multipliers: Floats
    objective_weight: Floats
    power: Floats
    upper: Floats
    floor: Floats
    tree: ProofTree
    scenario: str = ""

    @property
    def channels_sha256(self) -> str:
        """What tells the channels from others."""
        return channels_sha256(self.csi)


def channels_sha256(csi: NDArray[np.float32] | Floats) -> str:
    """SHA-256 of the shape and of the little-endian float64 values of channels (N, L, L)."""
    digest = hashlib.sha256(repr(csi.shape).encode())
    digest.update(np.ascontiguousarray(csi, dtype="<f8").tobytes())
    return digest.hexdigest()
