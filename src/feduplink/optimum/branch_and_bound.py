"""Branch and bound over the channels of a batch: target, budget, incumbents, recorded tree.

The search bounds regions of powers, splits those with the loosest bounds, and drops a region once
it cannot contain a value above the tolerance. The bounds are valid whenever the search stops.

A recorded tree has a root per channel: each worker is silent or transmits at ln p ≤ ln Pmax with an
ln SINR of at least its floor (``Relaxation.roots``). Every other node is one half of its parent,
and both halves are in the tree, so that the leaves cover the root. Each leaf states an upper bound
on the Lagrangian over its region, including the slack for workers below their floor, and the kind
of its proof. The largest of these bounds is a bound for the channel. Regions are not stored: they
follow from the splits on the path from the root by the rules of
:func:`feduplink.optimum.boxes.split` and ``Relaxation.tightened``.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

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
from feduplink.proofs.format import Node
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Tangents(TensorRecord):
    """Linearisations that bound boxes, (T, L) each.

    Attributes:
        at_log_power: the point ln p of linearisation, p in W; 0 for silent workers.
        sinr_slope: slope ≥ 0 in ln SINR of the line above a worker's value.
        rate_end: which of McCormick's planes bounds R q: True for the one at the upper ends of
            ln SINR and ln p, False for the one at the lower ends.
    """

    at_log_power: Tensor
    sinr_slope: Tensor
    rate_end: Tensor


@dataclass(frozen=True)
class Nodes(TensorRecord):
    """M nodes of branching trees, on the CPU.

    Attributes:
        channel: index of the channel, (M,) int64.
        parent: row of the parent node, −1 for a root, (M,) int64.
        split_by: how the parent was split into this node and its sibling, a
            :class:`~feduplink.proofs.format.Node`, −1 for a root, (M,) int8.
        worker: the worker by which the parent was split, −1 for a root, (M,) int64.
        split_at: ln SINR or ln p of the split; unused for ``BY_SILENCE`` and a root, (M,) float64.
        upper_half: whether the node is the upper half; for ``BY_SILENCE`` the half in which the
            worker transmits, (M,) bool.
    """

    channel: Tensor
    parent: Tensor
    split_by: Tensor
    worker: Tensor
    split_at: Tensor
    upper_half: Tensor


@dataclass(frozen=True)
class BranchingTree(Nodes):
    """The trees of all channels, parents before their halves, with the bounds of the leaves.

    Attributes:
        leaf: whether the node was not split, (M,) bool.
        upper: bound of a leaf; −∞ for an empty one, (M,) float64.
        proof: kind of proof of a leaf's bound, a :class:`~feduplink.proofs.format.Node`, −1 for a
            node that was split, (M,) int8.
        tangent_row: row in ``tangents`` of a leaf with a tangent, else −1, (M,) int64.
        tangents: the linearisations, (T, L) each.
    """

    leaf: Tensor
    upper: Tensor
    proof: Tensor
    tangent_row: Tensor
    tangents: Tangents

    def channel_bounds(self, channels: int) -> Tensor:
        """Return the largest bound of a leaf per channel, (N,).

        Args:
            channels: N.
        """
        largest = torch.full((channels,), -torch.inf, dtype=torch.float64)
        return largest.scatter_reduce(0, self.channel[self.leaf], self.upper[self.leaf], "amax")


class TreeRecorder:
    """Records splits and leaves during the search, for N channels of L workers."""

    def __init__(self, channels: int, workers: int) -> None:
        self._workers = workers
        absent = torch.full((channels,), -1)
        roots = Nodes(
            channel=torch.arange(channels),
            parent=absent,
            split_by=absent.to(torch.int8),
            worker=absent,
            split_at=torch.zeros(channels, dtype=torch.float64),
            upper_half=torch.zeros(channels, dtype=torch.bool),
        )
        self._count = channels
        self._nodes = [roots]
        self._leaves: list[tuple[Tensor, Tensor, Node]] = []
        self._tangents: list[Tangents] = []

    def split(
        self, nodes: Tensor, channel: Tensor, split_by: Tensor, worker: Tensor, split_at: Tensor
    ) -> Tensor:
        """Record splits of nodes.

        Args:
            nodes: rows of the nodes, (K,).
            channel: channel of each node, (K,).
            split_by: kind of the split, a :class:`~feduplink.proofs.format.Node`, (K,).
            worker: worker whose quantity is split, (K,).
            split_at: ln SINR or ln p of the split, (K,).

        Returns:
            Rows of the lower halves, then of the upper halves, (2 K,).
        """
        count = len(nodes)
        self._nodes.append(
            Nodes(
                channel=channel.cpu().repeat(2),
                parent=nodes.cpu().repeat(2),
                split_by=split_by.cpu().to(torch.int8).repeat(2),
                worker=worker.cpu().repeat(2),
                split_at=split_at.cpu().repeat(2),
                upper_half=torch.arange(2 * count) >= count,
            )
        )
        first = self._count
        self._count += 2 * count
        return torch.arange(first, self._count, device=nodes.device)

    def close(self, nodes: Tensor, upper: Tensor, proof: Node) -> None:
        """Record ``nodes`` (K,) as leaves with bounds (K,)."""
        self._leaves.append((nodes.cpu(), upper.cpu(), proof))

    def close_by_tangents(self, nodes: Tensor, upper: Tensor, tangents: Tangents) -> None:
        """Record ``nodes`` (K,) as leaves with bounds (K,) that tangents prove."""
        self.close(nodes, upper, Node.TANGENT)
        self._tangents.append(tangents.to("cpu"))

    def tree(self) -> BranchingTree:
        """Return the recorded tree; every node must have been split or closed."""
        upper = torch.full((self._count,), -torch.inf, dtype=torch.float64)
        proofs = torch.full((self._count,), -1, dtype=torch.int8)
        tangent_row = torch.full((self._count,), -1)
        rows = 0
        for nodes, values, proof in self._leaves:
            upper[nodes] = values
            proofs[nodes] = proof
            if proof == Node.TANGENT:
                tangent_row[nodes] = torch.arange(rows, rows + len(nodes))
                rows += len(nodes)
        empty = torch.zeros(0, self._workers, dtype=torch.float64)
        return BranchingTree(
            **vars(Nodes.concat(self._nodes)),
            leaf=proofs >= 0,
            upper=upper,
            proof=proofs,
            tangent_row=tangent_row,
            tangents=Tangents.concat(
                [Tangents(empty, empty, empty.to(torch.bool)), *self._tangents]
            ),
        )


#: Minimum number of power vectors per local search: fewer take as long.
_ROWS_PER_SEARCH = {"cpu": 1024, "gpu": 2**16}


class Incumbents:
    """The best known powers of every channel at given prices.

    Args:
        batch: N channels.
        prices: prices of the Lagrangian, (L,) or (N, L) each.

    Attributes:
        power: transmit powers, (N, L), W.
        value: their Lagrangian, (N,).
    """

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        self._batch, self._prices = batch, prices
        self.power = torch.zeros_like(batch.direct)
        self.value = batch.value(self.power, prices)
        channels = torch.arange(len(self.value), device=self.value.device)
        rows = _ROWS_PER_SEARCH["cpu" if channels.is_cpu else "gpu"]
        starts_per_group = max(1, rows // max(1, len(channels)))
        starts = starting_points(batch, prices)
        for first in range(0, len(starts), starts_per_group):
            group = starts[first : first + starts_per_group]
            self.search_from(channels.repeat(len(group)), torch.cat(group), rounds=4)
        best, value = self.power, torch.full_like(self.value, -torch.inf)
        for power in switched_from_each(batch, prices):
            reached = batch.value(power, prices)
            best = torch.where((reached > value)[:, None], power, best)
            value = torch.maximum(value, reached)
        self.search_from(channels, best)

    def offer(self, channel: Tensor, power: Tensor, value: Tensor) -> Tensor:
        """Replace the powers of channels by better ones.

        Args:
            channel: indices of channels, (M,).
            power: powers on these channels, (M, L), W.
            value: their Lagrangians, (M,).

        Returns:
            Channels whose powers were replaced, possibly with repetitions.
        """
        best = self.value.scatter_reduce(0, channel, value, "amax")
        winners = (value >= best[channel]) & (value > self.value[channel])
        improved = channel[winners]
        self.power[improved] = power[winners]
        # With equal values either power vector may have been kept; recompute its value.
        self.value[improved] = self._batch.take(improved).value(
            self.power[improved], self._prices.take(improved)
        )
        return improved

    def offer_climbed(self, channel: Tensor, power: Tensor, margin: float) -> None:
        """Ascend from the best powers of every channel if they are close to the incumbent.

        Other powers would mostly lead to the same maximum.

        Args:
            channel: indices of channels, (M,).
            power: powers, (M, L), W; clipped to Pmax, which those of empty boxes may exceed.
            margin: largest distance of their Lagrangian to that of the incumbent.
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
        """Search locally from powers (M, L) W of channels (M,), with on/off decisions."""
        batch, prices = self._batch.take(channel), self._prices.take(channel)
        power = improve(batch, prices, power, rounds=rounds)
        self.offer(channel, power, batch.value(power, prices))


#: Minimum share of the target gap that the search may use.
_MIN_SEARCH_SHARE = 0.25
#: Default maximum number of boxes.
MAX_BOXES = 2_000_000


@dataclass(frozen=True, repr=False)
class Certificate(TensorRecord):
    """Enclosure of the largest Lagrangian of each channel.

    Attributes:
        lower: the best value found, (N,).
        upper: upper bound, (N,).
        power: powers whose Lagrangian is ``lower``, (N, L), W.
        boxes: number of boxes bounded.
        seconds: duration of the search, s.
        limit: limit of the budget, ``boxes`` or ``seconds``, that ended the search before its
            target was met; empty if it was met.
        tree: the branching tree, if it was recorded; only in the last certificate of a search.
    """

    lower: Tensor
    upper: Tensor
    power: Tensor
    boxes: int
    seconds: float
    limit: str = ""
    tree: BranchingTree | None = None

    def __repr__(self) -> str:
        """Enclosure, gap and cost on one line."""
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
    """Limits of a search.

    Attributes:
        boxes: maximum number of boxes; None: :data:`MAX_BOXES`, or no limit if ``seconds`` is
            given.
        seconds: time limit, s; None: no limit. Results then depend on the machine.

    >>> Budget(boxes=1000).remaining(boxes=400, seconds=2.0).boxes
    600
    """

    boxes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.boxes is None and self.seconds is None:
            object.__setattr__(self, "boxes", MAX_BOXES)

    def spent(self, boxes: int, seconds: float) -> str:
        """Name of the limit reached after ``boxes`` boxes and ``seconds``; empty if none."""
        if self.boxes is not None and boxes >= self.boxes:
            return "boxes"
        return "seconds" if self.seconds is not None and seconds >= self.seconds else ""

    def is_spent(self, boxes: int, seconds: float) -> bool:
        """Whether the limits are reached after ``boxes`` boxes and ``seconds``."""
        return bool(self.spent(boxes, seconds))

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
    """The gap at which a search stops.

    Attributes:
        mean_gap: accepted mean upper bound minus ``reached``.
        channel_gap: accepted upper − lower per channel, a number or (N,); None if only the mean
            counts.
        reached: value from which the mean gap counts, at most the mean of the best values; None for
            that mean. A quarter of the gap above the mean of the best values is always allowed,
            since closing half of it takes several times as many boxes.
    """

    mean_gap: float
    channel_gap: float | Tensor | None = None
    reached: float | None = None

    def allowed_gap(self, lower: Tensor) -> float:
        """Allowed mean of the upper bounds minus that of the best values ``lower`` (N,)."""
        if self.reached is None:
            return self.mean_gap
        used = max(float(lower.mean()) - self.reached, 0.0)
        return max(self.mean_gap - used, _MIN_SEARCH_SHARE * self.mean_gap)

    def is_met(self, certificate: Certificate) -> bool:
        """Whether the gaps of the certificate are small enough."""
        if certificate.gap > self.allowed_gap(certificate.lower):
            return False
        if self.channel_gap is None:
            return True
        return bool((certificate.upper - certificate.lower <= self.channel_gap).all())

    def tolerance(self, share: float, lower: Tensor) -> Tensor:
        """Distance to the best known values at which boxes are dropped.

        It is the accepted gap of a channel or, if only the mean counts, a share of the mean gap.

        Args:
            share: that share.
            lower: the best known values, (N,).

        Returns:
            (N,).
        """
        tolerance = (
            share * self.allowed_gap(lower) if self.channel_gap is None else self.channel_gap
        )
        return torch.as_tensor(tolerance).to(lower).expand_as(lower)


@dataclass(frozen=True)
class Regions(TensorRecord):
    """M regions of powers, each of one channel.

    Attributes:
        channel: index of the channel, (M,).
    """

    channel: Tensor


@dataclass(frozen=True)
class OpenRegions(TensorRecord):
    """Regions that remain to be searched, and how to split them.

    Attributes:
        boxes: M regions.
        upper: upper bound on the Lagrangian in the region, (M,); −∞ for an empty one.
        worker: the worker whose quantity is split next, (M,).
        split_at: value of the quantity at the split, (M,).
    """

    boxes: Regions
    upper: Tensor
    worker: Tensor
    split_at: Tensor


class BranchAndBound(ABC):
    """A search that encloses the largest Lagrangian of every channel.

    A subclass bounds the root regions in its constructor, as :attr:`open`.

    Args:
        batch: N channels.
        prices: prices of the Lagrangian, (L,) or (N, L) each.
        target: gap at which the search stops.
        record: whether to keep the branching tree.

    Attributes:
        open: regions that remain to be searched.
        tolerance: distance to the best known value at which regions are dropped, (N,).
        dropped: largest bound among the dropped regions, (N,).
        proved: smallest upper bound so far, (N,).
        count: number of boxes bounded.
        recorder: recorder of the tree; None without a recording.
    """

    #: Share of the target gap within which regions are dropped.
    drop_share: ClassVar[float]
    open: OpenRegions

    def __init__(
        self, batch: ChannelBatch, prices: Prices, target: Target, *, record: bool
    ) -> None:
        self.started = time.monotonic()
        self.batch, self.prices, self.target = batch, prices, target
        self.incumbents = Incumbents(batch, prices)
        self.tolerance = target.tolerance(self.drop_share, self.incumbents.value)
        self.dropped = torch.full_like(self.incumbents.value, -torch.inf)
        self.proved = torch.full_like(self.incumbents.value, torch.inf)
        self.recorder = TreeRecorder(*batch.direct.shape) if record else None
        self.count = 0

    @abstractmethod
    def choose(self) -> Tensor:
        """Return the rows of the open regions to split next, (K,)."""

    @abstractmethod
    def halves(self, chosen: Tensor) -> list[OpenRegions]:
        """Split the open regions ``chosen`` (K,) and bound their halves."""

    @abstractmethod
    def record_leaves(self, regions: OpenRegions) -> None:
        """Record regions as leaves of the tree, if there is a recorder."""

    def threshold(self, channel: Tensor) -> Tensor:
        """Bound at or below which a region is dropped, (M,), for the channels of regions (M,)."""
        return (self.incumbents.value + self.tolerance)[channel]

    def drop(self, channel: Tensor, upper: Tensor) -> None:
        """Account for bounds (M,) over regions of channels (M,) that are not searched further."""
        self.dropped = self.dropped.scatter_reduce(0, channel, upper, "amax")

    def drop_settled(self) -> None:
        """Drop the open regions within the tolerance of the best known value."""
        channel, upper = self.open.boxes.channel, self.open.upper
        settled = upper <= self.threshold(channel)
        self.drop(channel[settled], upper[settled])
        if self.recorder is not None:
            self.record_leaves(self.open.take(settled))
        self.open = self.open.take(~settled)

    def gap_per_open_region(self) -> Tensor:
        """Gap of every open region divided by the number of open regions of its channel, (M,).

        Splitting the regions with the largest quotient lowers the mean bound most.
        """
        channel = self.open.boxes.channel
        gaps = self.open.upper - self.incumbents.value[channel]
        return gaps / torch.bincount(channel, minlength=len(self.dropped))[channel]

    def branch(self) -> None:
        """Split some open regions and keep the halves that are not settled."""
        chosen = self.choose()
        children = self.halves(chosen)
        rest = torch.ones_like(self.open.upper, dtype=torch.bool)
        rest[chosen] = False
        self.open = self.open.concat([self.open.take(rest), *children])
        self.drop_settled()

    def run(self, budget: Budget, progress: Progress) -> Certificate:
        """Search until the target is met or the budget is spent."""
        while True:
            certificate = self.certificate()
            figures = {"gap": certificate.gap, "boxes": certificate.boxes}
            used = certificate.boxes if budget.seconds is None else certificate.seconds
            progress.advance(used, figures, certificate)
            if self.target.is_met(certificate) or len(self.open.upper) == 0:
                break
            if limit := budget.spent(certificate.boxes, certificate.seconds):
                certificate = replace(certificate, limit=limit)
                break
            self.branch()
        if self.recorder is None:
            return certificate
        self.record_leaves(self.open)
        return replace(certificate, tree=self.recorder.tree())

    def certificate(self) -> Certificate:
        """Return the enclosure so far."""
        lower, power = self.incumbents.value.clone(), self.incumbents.power.clone()
        upper = torch.maximum(self.dropped, lower)
        upper = upper.scatter_reduce(0, self.open.boxes.channel, self.open.upper, "amax")
        if self.recorder is None:
            # Dropped boxes count at their threshold, which increases with the best value found, so
            # an earlier bound may be lower. A recorded tree proves the present bound only.
            self.proved = torch.minimum(self.proved, upper)
            upper = torch.maximum(self.proved, lower)
        elapsed = time.monotonic() - self.started
        return Certificate(lower, upper, power, self.count, elapsed)
