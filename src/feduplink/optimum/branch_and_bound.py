"""Branch and bound over the channels of a batch: target, incumbents, recorded tree.

Every channel has a root: each worker is silent or sends at ln p ≤ ln Pmax with an ln SINR of no
less than its floor (``Relaxation.roots``). Every other node is one half of its parent, and both
halves are there, so the leaves cover the root. Each leaf claims an upper bound on the Lagrangian
over its region, the slack for workers under their floor included, and says how to prove it; the
largest claim of a channel bounds its Lagrangian.

A region is not stored: it follows from the path from the root, by the rules of
:func:`feduplink.optimum.log_power_search.split` and of ``Relaxation.tightened``.

Regions of powers are bounded, split where their bound is loosest, and dropped once they cannot
contain anything that matters. The search may be stopped at any time: its bounds are valid then.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink.lagrangian import (
    ChannelBatch,
    Prices,
    climb,
    improve,
    starting_points,
    switched_from_each,
)
from feduplink.progress import Progress
from feduplink.tensor_record import TensorRecord

#: How a leaf's bound is proved: each worker's best ends, a tangent of the concave relaxation, or
#: that nothing is left of the region.
MONOTONE, TANGENT, EMPTY = 0, 1, 2


@dataclass(frozen=True)
class Tangents(TensorRecord):
    """What fixes the linearisation that bounds a box, (T, L) each.

    Attributes:
        at_log_power: the point ln p at which the relaxation is linearised; 0 for silent workers.
        sinr_slope: slope ≥ 0 in ln SINR of the line above a worker's value.
        rate_end: which of McCormick's two lines bounds R q: True for (R, q) at the upper ends of
            ln SINR and ln p, False at the lower ones.
    """

    at_log_power: Tensor
    sinr_slope: Tensor
    rate_end: Tensor


@dataclass(frozen=True)
class BranchingTree:
    """The M nodes of all channels' trees as flat arrays on the CPU, a parent before its halves.

    Attributes:
        channel: of which channel, (M,) int64.
        parent: its row, −1 for a root, (M,) int64.
        how: how the parent was split into this node and its sibling, ``SINR``, ``POWER`` or
            ``REST`` (:mod:`feduplink.optimum.log_power_search`), −1 for a root, (M,) int8.
        worker: which worker's, −1 for a root, (M,) int64.
        point: at which ln SINR or ln p; unused for ``REST`` and for a root, (M,) float64.
        upper_half: whether this node is the upper half; for ``REST`` that in which the worker is
            surely on the air, (M,) bool.
        leaf: whether it was not split, (M,) bool.
        upper: of a leaf, the claimed bound; −∞ for an empty one, (M,) float64.
        bound: of a leaf, its proof: :data:`MONOTONE`, :data:`TANGENT` or :data:`EMPTY`; −1 for a
            node that was split, (M,) int8.
        tangent_row: of a leaf with a tangent its row in ``tangents``, else −1, (M,) int64.
        tangents: the linearisations, (T, L) each.
    """

    channel: Tensor
    parent: Tensor
    how: Tensor
    worker: Tensor
    point: Tensor
    upper_half: Tensor
    leaf: Tensor
    upper: Tensor
    bound: Tensor
    tangent_row: Tensor
    tangents: Tangents

    def channel_bounds(self, channels: int) -> Tensor:
        """The largest claim among the leaves of every channel, (N,)."""
        most = torch.full((channels,), -torch.inf, dtype=torch.float64)
        return most.scatter_reduce(0, self.channel[self.leaf], self.upper[self.leaf], "amax")


class TreeRecorder:
    """Writes down splits and leaves while the search goes on."""

    def __init__(self, channels: int, workers: int) -> None:
        self._workers = workers
        roots = torch.arange(channels)
        absent = torch.full((channels,), -1)
        self._count = channels
        self._nodes = [
            {
                "channel": roots,
                "parent": absent,
                "how": absent.to(torch.int8),
                "worker": absent,
                "point": torch.zeros(channels, dtype=torch.float64),
                "upper_half": torch.zeros(channels, dtype=torch.bool),
            }
        ]
        self._leaves: list[tuple[Tensor, Tensor, int]] = []
        self._tangents: list[Tangents] = []

    def split(
        self, nodes: Tensor, channel: Tensor, how: Tensor, worker: Tensor, point: Tensor
    ) -> Tensor:
        """Split ``nodes`` (K,); returns the lower halves, then the upper ones, (2 K,)."""
        count = len(nodes)
        upper_half = torch.arange(2 * count) >= count
        self._nodes.append(
            {
                "channel": channel.cpu().repeat(2),
                "parent": nodes.cpu().repeat(2),
                "how": how.cpu().to(torch.int8).repeat(2),
                "worker": worker.cpu().repeat(2),
                "point": point.cpu().repeat(2),
                "upper_half": upper_half,
            }
        )
        first = self._count
        self._count += 2 * count
        return torch.arange(first, self._count, device=nodes.device)

    def close(self, nodes: Tensor, upper: Tensor, bound: int) -> None:
        """Make ``nodes`` leaves with a claimed bound, proved by their ends or empty."""
        self._leaves.append((nodes.cpu(), upper.cpu(), bound))

    def close_by_tangents(self, nodes: Tensor, upper: Tensor, tangents: Tangents) -> None:
        """Make ``nodes`` leaves whose bound a tangent proves."""
        self.close(nodes, upper, TANGENT)
        self._tangents.append(tangents.to("cpu"))

    def tree(self) -> BranchingTree:
        """What was recorded; every node must have been split or closed."""
        columns = {name: torch.cat([part[name] for part in self._nodes]) for name in self._nodes[0]}
        upper = torch.full((self._count,), -torch.inf, dtype=torch.float64)
        bound = torch.full((self._count,), -1, dtype=torch.int8)
        tangent_row = torch.full((self._count,), -1)
        rows = 0
        for nodes, values, proof in self._leaves:
            upper[nodes] = values
            bound[nodes] = proof
            if proof == TANGENT:
                tangent_row[nodes] = torch.arange(rows, rows + len(nodes))
                rows += len(nodes)
        nothing = torch.zeros(0, self._workers, dtype=torch.float64)
        tangents = Tangents.concat(
            [Tangents(nothing, nothing, nothing.to(torch.bool)), *self._tangents]
        )
        return BranchingTree(
            **columns,
            leaf=bound >= 0,
            upper=upper,
            bound=bound,
            tangent_row=tangent_row,
            tangents=tangents,
        )


#: Channels climbed on at a time, from one start or several: few of them take as long as many.
_ROWS = {"cpu": 1024, "cuda": 2**16}


class Incumbents:
    """The best known allocation of every channel at given prices, and its value.

    Attributes:
        power: (N, L) W.
        value: the Lagrangian there, (N,).
    """

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        self._batch, self._prices = batch, prices
        self.power = torch.zeros_like(batch.direct)
        self.value = batch.value(self.power, prices)
        every = torch.arange(len(self.value), device=self.value.device)
        together = max(1, _ROWS[every.device.type] // max(1, len(every)))
        for starts in _in_groups(starting_points(batch, prices), together):
            self.search_from(every.repeat(len(starts)), torch.cat(starts), rounds=4)
        best, value = self.power, torch.full_like(self.value, -torch.inf)
        for power in switched_from_each(batch, prices):
            reached = batch.value(power, prices)
            best = torch.where((reached > value)[:, None], power, best)
            value = torch.maximum(value, reached)
        self.search_from(every, best)

    def offer(self, channel: Tensor, power: Tensor, value: Tensor) -> Tensor:
        """Keep those of the allocations (M, L) W, with their values, that are better.

        Returns the channels on which one was, some perhaps more than once.
        """
        best = self.value.scatter_reduce(0, channel, value, "amax")
        winners = (value >= best[channel]) & (value > self.value[channel])
        improved = channel[winners]
        self.power[improved] = power[winners]
        # Of two equally good ones either may have been kept, and its own value goes with it.
        self.value[improved] = self._batch.take(improved).value(
            self.power[improved], self._prices.take(improved)
        )
        return improved

    def offer_climbed(self, channel: Tensor, power: Tensor, margin: float) -> None:
        """Climb from the best allocation of every channel, if within ``margin`` of the best known.

        The others would mostly lead to the same maximum. Powers (M, L) W above Pmax, as those of
        empty boxes may be, count as Pmax.
        """
        batch, prices = self._batch.take(channel), self._prices.take(channel)
        power = torch.minimum(power, batch.pmax_w)
        value = batch.value(power, prices)
        best = torch.full_like(self.value, -torch.inf).scatter_reduce(0, channel, value, "amax")
        promising = (value >= best[channel]) & (value > self.value[channel] - margin)
        if not bool(promising.any()):
            return
        batch, prices = batch.take(promising), prices.take(promising)
        power = climb(batch, prices, power[promising], steps=3)
        self.offer(channel[promising], power, batch.value(power, prices))

    def search_from(self, channel: Tensor, power: Tensor, *, rounds: int = 2) -> None:
        """Search locally from allocations (M, L) W of some channels, silence included."""
        batch, prices = self._batch.take(channel), self._prices.take(channel)
        power = improve(batch, prices, power, rounds=rounds)
        self.offer(channel, power, batch.value(power, prices))


def _in_groups(starts: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    return (starts[first : first + size] for first in range(0, len(starts), size))


#: Share of the target gap that the search may use up in any case.
_LEFT_TO_SEARCH = 0.25
#: Boxes to bound at most where neither a number of boxes nor a time is given: one to two minutes
#: on two cores where packet success is priced, less elsewhere.
MAX_BOXES = 2_000_000


@dataclass(frozen=True, repr=False)
class Certificate(TensorRecord):
    """Bounds on the largest Lagrangian of each channel.

    Attributes:
        lower: the best value found, (N,).
        upper: what no power allocation exceeds, (N,).
        power: the allocation that reaches ``lower``, (N, L) W.
        boxes: how many boxes were bounded.
        seconds: how long it took.
        tree: the search itself, if it was recorded; only in the last one.
    """

    lower: Tensor
    upper: Tensor
    power: Tensor
    boxes: int
    seconds: float
    tree: BranchingTree | None = None

    def __repr__(self) -> str:
        """How tight it is, and what it took."""
        return (
            f"Certificate(largest Lagrangian {float(self.lower.mean()):.4f} to "
            f"{float(self.upper.mean()):.4f}, gap {self.gap:.4f}, {len(self.lower)} channels, "
            f"{self.boxes} boxes, {self.seconds:.1f} s)"
        )

    @property
    def gap(self) -> float:
        """Mean over the channels of upper − lower."""
        return float((self.upper - self.lower).mean())


@dataclass(frozen=True)
class Budget:
    """How long a search may last.

    Attributes:
        boxes: number of boxes after which it stops; None: :data:`MAX_BOXES`, or no limit if there
            is one in seconds.
        seconds: time after which it stops, s; None: no limit. What a search has found by then
            depends on the machine.
    """

    boxes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.boxes is None and self.seconds is None:
            object.__setattr__(self, "boxes", MAX_BOXES)

    def is_spent(self, boxes: int, seconds: float) -> bool:
        """Whether a search that has bounded ``boxes`` boxes in ``seconds`` has to stop."""
        return (self.boxes is not None and boxes >= self.boxes) or (
            self.seconds is not None and seconds >= self.seconds
        )

    def remaining(self, boxes: int, seconds: float) -> Budget:
        """The budget left after ``boxes`` boxes and ``seconds``."""
        return Budget(
            None if self.boxes is None else max(self.boxes - boxes, 0),
            None if self.seconds is None else max(self.seconds - seconds, 0.0),
        )

    def share(self, fraction: float) -> Budget:
        """A fraction of the budget."""
        return Budget(
            None if self.boxes is None else round(fraction * self.boxes),
            None if self.seconds is None else fraction * self.seconds,
        )


@dataclass(frozen=True)
class Target:
    """When a search has proved enough.

    Attributes:
        mean_gap: how far the mean upper bound may be above ``reached``.
        channel_gap: largest upper − lower of a channel, one for all or (N,); None if only the mean
            counts.
        reached: from where the mean gap counts, at most the mean of the best values; None: that
            itself. Where less than a quarter of the gap is left above it, a quarter is allowed:
            half as much takes several times as many boxes.
    """

    mean_gap: float
    channel_gap: float | Tensor | None = None
    reached: float | None = None

    def allowed_gap(self, lower: Tensor) -> float:
        """How far the mean upper bound may be above that of the best values (N,)."""
        if self.reached is None:
            return self.mean_gap
        used = max(float(lower.mean()) - self.reached, 0.0)
        return max(self.mean_gap - used, _LEFT_TO_SEARCH * self.mean_gap)

    def met_by(self, certificate: Certificate) -> bool:
        """Whether the certificate is tight enough."""
        if certificate.gap > self.allowed_gap(certificate.lower):
            return False
        if self.channel_gap is None:
            return True
        return bool((certificate.upper - certificate.lower <= self.channel_gap).all())

    def tolerance(self, share: float, lower: Tensor) -> Tensor:
        """How far above the best known values ``lower`` (N,) boxes are dropped, (N,).

        What one channel may keep, or a ``share`` of what they may on average.
        """
        each = share * self.allowed_gap(lower) if self.channel_gap is None else self.channel_gap
        return torch.as_tensor(each).to(lower).expand_as(lower)


class BranchAndBound(ABC):
    """A search that encloses the largest Lagrangian of every channel.

    Attributes:
        dropped: largest bound among the regions that are not searched any further, (N,).
        proved: smallest upper bound so far, (N,).
        count: how many boxes were bounded.
        recorder: of the tree, if it is recorded.
    """

    def __init__(
        self, batch: ChannelBatch, prices: Prices, target: Target, *, record: bool
    ) -> None:
        self.started = time.monotonic()
        self.batch, self.prices, self.target = batch, prices, target
        self.incumbents = Incumbents(batch, prices)
        self.dropped = torch.full_like(self.incumbents.value, -torch.inf)
        self.proved = torch.full_like(self.incumbents.value, torch.inf)
        self.recorder = TreeRecorder(*batch.direct.shape) if record else None
        self.count = 0

    @property
    @abstractmethod
    def open_boxes(self) -> tuple[Tensor, Tensor]:
        """Channels and bounds of the boxes that are not settled, (M,) each."""

    @abstractmethod
    def branch(self) -> None:
        """Split some open boxes and bound their halves."""

    @abstractmethod
    def close_all(self) -> None:
        """Record the open boxes as leaves."""

    def run(self, budget: Budget, progress: Progress) -> Certificate:
        """Search until the target is met or the budget is spent."""
        while True:
            certificate = self.certificate()
            figures = {"gap": certificate.gap, "boxes": certificate.boxes}
            used = certificate.boxes if budget.seconds is None else certificate.seconds
            progress.advance(used, figures, certificate)
            if (
                self.target.met_by(certificate)
                or budget.is_spent(certificate.boxes, certificate.seconds)
                or len(self.open_boxes[0]) == 0
            ):
                break
            self.branch()
        if self.recorder is None:
            return certificate
        self.close_all()
        return replace(certificate, tree=self.recorder.tree())

    def certificate(self) -> Certificate:
        """The bounds proved so far."""
        lower, power = self.incumbents.value.clone(), self.incumbents.power.clone()
        upper = torch.maximum(self.dropped, lower)
        upper = upper.scatter_reduce(0, *self.open_boxes, "amax")
        if self.recorder is None:
            # Dropped boxes count at their threshold, which rises with the best value found. The
            # leaves of a recorded tree prove the present bound only.
            self.proved = torch.minimum(self.proved, upper)
            upper = torch.maximum(self.proved, lower)
        elapsed = time.monotonic() - self.started
        return Certificate(lower, upper, power, self.count, elapsed)
