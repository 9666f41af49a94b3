"""Branch and bound over boxes of log-powers and log-SINRs by the concave relaxation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.boxes import Bounds, Boxes, split
from feduplink.optimum.branch_and_bound import BranchAndBound, OpenRegions, Target
from feduplink.optimum.concave_relaxation import Relaxation
from feduplink.proofs.format import Node

#: Boxes per batch: enough to hide the overhead of calls, or to fill a GPU.
_BATCH_SIZE = {"cpu": 4096, "gpu": 2**17}
#: Minimum share of the open boxes that is split per step. A step copies the other boxes, which must
#: not take longer than the step itself.
_MIN_SPLIT_SHARE = 0.12
#: Distance to the best known value within which the relaxation's maximiser starts a local ascent.
_ASCENT_MARGIN = 0.005


class RelaxationSearch(BranchAndBound):
    """Best-first search in log-powers.

    It splits the boxes with the largest gaps per open box of their channel. Arguments and
    attributes as for :class:`~feduplink.optimum.branch_and_bound.BranchAndBound`.
    """

    drop_share = 0.6
    open: Bounds

    def __init__(
        self, batch: ChannelBatch, prices: Prices, target: Target, *, record: bool
    ) -> None:
        super().__init__(batch, prices, target, record=record)
        self.relaxation = Relaxation(batch, prices, recorded=record)
        self.batch_size = _BATCH_SIZE["cpu" if batch.direct.is_cpu else "gpu"]
        self.threads = torch.get_num_threads() if batch.direct.is_cpu else 1
        self.pool = _pool(self.threads) if self.threads > 1 else None
        weight = torch.full_like(self.incumbents.power, 0.0 if record else 0.5)
        self.open = self._bound(self.relaxation.roots(), self.incumbents.power, weight)
        self.drop_settled()

    def choose(self) -> Tensor:
        """Return the boxes with the largest gaps per open box of their channel, (K,)."""
        scores = self.gap_per_open_region()
        at_least = max(self.threads * self.batch_size // 2, int(_MIN_SPLIT_SHARE * len(scores)))
        return scores.topk(min(at_least, len(scores))).indices

    def halves(self, chosen: Tensor) -> list[OpenRegions]:
        """Split the open boxes ``chosen`` (K,) and bound their halves."""
        parents = self.open.take(chosen)
        boxes = parents.boxes
        nodes = boxes.node.repeat(2)
        if self.recorder is not None:
            nodes = self.recorder.split(
                boxes.node, boxes.channel, parents.split_by, parents.worker, parents.split_at
            )
        bounds = self._bound(
            split(parents, nodes),
            parents.tangents.at_log_power.exp().repeat(2, 1),
            parents.upper_weight.repeat(2, 1),
            parents.upper.repeat(2),
        )
        return [bounds]

    def _bound(
        self, boxes: Boxes, guess: Tensor, weight: Tensor, parent: Tensor | None = None
    ) -> Bounds:
        """Bound boxes in batches; bounds of halves are at most those of their ``parent`` (M,)."""
        threshold = self.threshold(boxes.channel)

        def bounded(start: int) -> tuple[Bounds, Tensor]:
            rows = slice(start, start + self.batch_size)
            return self.relaxation.bound(
                boxes.take(rows), guess[rows], weight[rows], threshold[rows]
            )

        starts = range(0, len(boxes.channel), self.batch_size)
        parts = self.pool.map(bounded, starts) if self.pool else map(bounded, starts)
        bounds, cut = zip(*parts, strict=True)
        self.drop(boxes.channel, threshold.masked_fill(~torch.cat(cut), -torch.inf))
        self.count += len(boxes.channel)
        result = Bounds.concat(bounds)
        # A recorded bound must be proved at the leaf itself.
        if parent is not None and self.recorder is None:
            result = replace(result, upper=torch.minimum(result.upper, parent))
        self.incumbents.offer_climbed(result.boxes.channel, result.power, _ASCENT_MARGIN)
        return result

    def record_leaves(self, regions: OpenRegions) -> None:
        """Record boxes as leaves of the tree."""
        assert self.recorder is not None
        assert isinstance(regions, Bounds)
        for proof in (Node.MONOTONE, Node.TANGENT, Node.EMPTY):
            proved = regions.take(regions.proof == proof)
            if proof is Node.TANGENT:
                self.recorder.close_by_tangents(proved.boxes.node, proved.upper, proved.tangents)
            else:
                self.recorder.close(proved.boxes.node, proved.upper, proof)


def _pool(threads: int) -> ThreadPoolExecutor:
    """Thread pool in which each thread bounds one batch of boxes, with one core per operation."""
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
