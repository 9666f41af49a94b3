"""Branch and bound over boxes of powers, with bounds cheap enough for millions of boxes.

All channels are searched together. A box is bounded by monotonicity and reduced: the parts below
the best known value and, for rates and efficiencies, dominated powers are cut off. The rest is
bounded by tangents and split at the worker that contributes most to the error of the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.boxes import PowerBoxes
from feduplink.optimum.branch_and_bound import BranchAndBound, OpenRegions, Target
from feduplink.optimum.concave_relaxation import Relaxation
from feduplink.optimum.monotone_bound import BoundedBoxes, MonotoneBound
from feduplink.proofs.format import Node

#: Number of powers bounded at a time, to fit into a cache or to fill a GPU.
CHUNK = {"cpu": 2**16, "gpu": 2**22}
#: Minimum share of the open boxes that is split per step. A step copies the other boxes, which must
#: not take longer than the step itself.
_MIN_SPLIT_SHARE = 0.25
#: Number of powers in open boxes (2 GiB) above which the boxes closest to being settled come first,
#: so that their number stays bounded.
MAX_OPEN = 2**27


@dataclass(frozen=True)
class OpenBoxes(OpenRegions):
    """Boxes that remain to be searched, and the worker and power at which to split them."""

    boxes: PowerBoxes


class PowerSearch(BranchAndBound):
    """Best-first search in powers.

    It splits the boxes with the largest gaps per open box of their channel.

    Args:
        batch: N channels.
        prices: prices of the Lagrangian, (L,) or (N, L) each.
        target: gap at which the search stops.
        record: whether to keep the branching tree.
        chunk: number of powers (boxes times workers) bounded at a time; None: :data:`CHUNK`.
        max_open: number of powers in open boxes above which the boxes closest to being settled are
            split first.
    """

    drop_share = 0.5
    open: OpenBoxes

    def __init__(
        self,
        batch: ChannelBatch,
        prices: Prices,
        target: Target,
        *,
        record: bool,
        chunk: int | None = None,
        max_open: int = MAX_OPEN,
    ) -> None:
        super().__init__(batch, prices, target, record=record)
        self.bound = MonotoneBound(batch, prices)
        workers = batch.direct.shape[-1]
        kind = "cpu" if batch.direct.is_cpu else "gpu"
        self.chunk = (chunk or CHUNK[kind]) // workers
        self.max_open = max_open // workers
        #: Bound on the value of workers below their floor, at which a recorded tree starts.
        self.slack = workers * Relaxation(batch, prices).negligible if record else 0.0
        #: Whether to use tangents and dominance cuts, which proofs cannot contain.
        self.tangents = self.bound.concave and not record
        self.steps = 0
        roots = PowerBoxes.roots(batch)
        self.open = self._bound_and_reduce(roots, torch.full_like(self.incumbents.value, torch.inf))
        self.drop_settled()

    def record_leaves(self, regions: OpenRegions) -> None:
        """Record boxes as leaves of the tree."""
        assert isinstance(regions, OpenBoxes)
        self._record_leaves(regions.boxes.node, regions.upper)

    def _record_leaves(self, node: Tensor, upper: Tensor) -> None:
        """Record nodes as leaves with monotone bounds, if there is a recorder."""
        if self.recorder is not None:
            self.recorder.close(node, upper, Node.MONOTONE)

    def choose(self) -> Tensor:
        """Return the open boxes of highest priority, (K,), sorted by channel."""
        channel = self.open.boxes.channel
        gaps = self.open.upper - self.incumbents.value[channel]
        count = len(gaps)
        batch = min(count, max(self.chunk, int(_MIN_SPLIT_SHARE * count)))
        if count > self.max_open:
            batch = min(count, self.chunk)
            chosen = gaps.topk(batch, largest=False).indices
        elif batch < count:
            chosen = self._priority().topk(batch).indices
        else:
            chosen = torch.arange(count, device=gaps.device)
        # Sort by channel: consecutive boxes of one channel share a matrix product.
        chosen = chosen[channel[chosen].argsort(stable=True)]
        if self.steps & (self.steps - 1) == 0:
            self._search_from(chosen)
        self.steps += 1
        return chosen

    def _priority(self) -> Tensor:
        """Priority of the open boxes, (M,).

        If every channel must be proved, those with few open boxes come first, to prove as many as
        possible; otherwise the boxes whose split lowers the mean bound most.
        """
        if self.target.channel_gap is None:
            return self.gap_per_open_region()
        channel = self.open.boxes.channel
        return -torch.bincount(channel)[channel].to(self.dropped)

    def _search_from(self, chosen: Tensor) -> None:
        """Search locally from the upper corner of one chosen box per channel."""
        boxes = self.open.boxes
        channel = boxes.channel[chosen]
        box = torch.full_like(self.dropped, -1, dtype=torch.int64)
        box[channel] = chosen
        box = box[box >= 0]
        self.incumbents.search_from(boxes.channel[box], boxes.high[box])

    def halves(self, chosen: Tensor) -> list[OpenRegions]:
        """The halves of the open boxes ``chosen`` (K,) that are not settled."""
        parts = range(0, len(chosen), self.chunk)
        return [self._bound_halves(chosen[first : first + self.chunk]) for first in parts]

    def _bound_halves(self, chosen: Tensor) -> OpenBoxes:
        """Split and bound one chunk of open boxes."""
        parents = self.open.take(chosen)
        boxes, worker, point = parents.boxes, parents.worker, parents.split_at
        low, high = boxes.halves(worker, point)
        node = boxes.node.repeat(2)
        if self.recorder is not None:
            by_power = torch.full_like(worker, Node.BY_POWER)
            node = self.recorder.split(boxes.node, boxes.channel, by_power, worker, point.log())
        children = PowerBoxes(boxes.channel.repeat(2), low, high, node)
        return self._bound_and_reduce(children, parents.upper.repeat(2))

    def _bound_and_reduce(self, boxes: PowerBoxes, parent: Tensor) -> OpenBoxes:
        """Bound and reduce boxes; return the open ones, with bounds of at most ``parent`` (M,)."""
        self.count += len(boxes.channel)
        bounded = self.bound.on(boxes)
        bounded, _, parent = self._settle(bounded, bounded.upper, parent)
        bounded = self.bound.on(self._reduced(bounded))
        bounded, upper, parent = self._settle(bounded, bounded.upper, parent)
        if self.tangents:
            tangent, corner = bounded.tangent()
            upper = torch.minimum(torch.minimum(upper, tangent), parent)
            bounded, upper, corner = self._settle(bounded, upper, corner)
            self._offer(bounded, corner)
        else:
            self._offer(bounded, bounded.boxes.high)
            self._offer(bounded, bounded.boxes.low)
        worker, point = bounded.loosest(by_tangents=upper < bounded.upper)
        return OpenBoxes(bounded.boxes, upper + self.slack, worker, point)

    def _settle(
        self, bounded: BoundedBoxes, upper: Tensor, column: Tensor
    ) -> tuple[BoundedBoxes, Tensor, Tensor]:
        """Settle boxes within the tolerance; return the others with their rows of ``column``."""
        boxes = bounded.boxes
        is_open = upper > self.threshold(boxes.channel)
        settled = upper.masked_fill(is_open, -torch.inf) + self.slack
        self.drop(boxes.channel, settled)
        self._record_leaves(boxes.node[~is_open], settled[~is_open])
        return bounded.take(is_open), upper[is_open], column[is_open]

    def _reduced(self, bounded: BoundedBoxes) -> PowerBoxes:
        """Cut off the parts of boxes below the threshold, and dominated powers."""
        boxes = bounded.boxes
        threshold = self.threshold(boxes.channel)
        low, high, node = bounded.raised_low(threshold), boxes.high, boxes.node
        raised = low > boxes.low
        settled = torch.where(raised.any(-1), threshold + self.slack, -torch.inf)
        self.drop(boxes.channel, settled)
        if self.recorder is not None:
            node = self._recorded_cuts(boxes, raised, low, settled)
        reduced = PowerBoxes(boxes.channel, low, high, node)
        return self.bound.without_dominated(reduced) if self.tangents else reduced

    def _recorded_cuts(
        self, boxes: PowerBoxes, raised: Tensor, low: Tensor, settled: Tensor
    ) -> Tensor:
        """Record every raised limit as a split whose lower half is a leaf.

        Returns:
            The nodes of the upper halves, (M,).
        """
        assert self.recorder is not None
        node = boxes.node.clone()
        for worker in range(low.shape[-1]):
            rows = raised[:, worker].nonzero()[:, 0]
            workers = torch.full_like(rows, worker)
            halves = self.recorder.split(
                node[rows],
                boxes.channel[rows],
                torch.full_like(rows, Node.BY_POWER),
                workers,
                low[rows, worker].log(),
            )
            self._record_leaves(halves[: len(rows)], settled[rows])
            node[rows] = halves[len(rows) :]
        return node

    def _offer(self, bounded: BoundedBoxes, power: Tensor) -> None:
        """Offer powers (M, L) W in the boxes as incumbents; search locally from improved ones."""
        channel = bounded.boxes.channel
        sinr = bounded.direct * power / bounded.cross.interference(power)
        value = self.batch.worker_values(sinr, power, self.prices.take(channel)).sum(-1)
        improved = self.incumbents.offer(channel, power, value)
        if len(improved):
            self.incumbents.search_from(improved, self.incumbents.power[improved])
