"""Branch and bound over boxes of log-powers and log-SINRs, with the concave relaxation of every
box.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.boxes import Bounds, Boxes, split
from feduplink.optimum.branch_and_bound import BranchAndBound, LeafProof, Target
from feduplink.optimum.concave_relaxation import Relaxation

#: Boxes bounded at a time: enough to hide the overhead of calls, or to fill a GPU.
_BATCH = {"cpu": 4096, "gpu": 2**17}
#: Smallest share of the open boxes that is split in a step: a step copies the others, which must
#: not take longer than the step itself.
_MIN_SPLIT_SHARE = 0.12
#: Share of the target gap within which boxes are dropped.
_DROP_SHARE = 0.6
#: Distance to the best known value within which maximisers of the relaxation are climbed from.
_CLIMB_MARGIN = 0.005


class RelaxationSearch(BranchAndBound):
    """Best-first search: the boxes with the largest gaps, of channels with few open boxes."""

    def __init__(
        self, batch: ChannelBatch, prices: Prices, target: Target, *, record: bool
    ) -> None:
        super().__init__(batch, prices, target, record=record)
        self.tolerance = target.tolerance(_DROP_SHARE, self.incumbents.value)
        self.relaxation = Relaxation(batch, prices, recorded=record)
        self.batch_size = _BATCH["cpu" if batch.direct.is_cpu else "gpu"]
        on_cpu = batch.direct.device.type == "cpu"
        self.threads = torch.get_num_threads() if on_cpu else 1
        self.pool = _pool(self.threads) if self.threads > 1 else None
        self.boxes, self.bounds = self._bound(
            self.relaxation.roots(),
            self.incumbents.power,
            torch.full_like(self.incumbents.power, 0.0 if record else 0.5),
        )
        self._drop()

    @property
    def open_boxes(self) -> tuple[Tensor, Tensor]:
        """Channels and bounds of the boxes that are still to be searched, (M,) each."""
        return self.boxes.channel, self.bounds.upper

    def close_all(self) -> None:
        """Record the open boxes as leaves."""
        self._close(self.boxes, self.bounds)

    def branch(self) -> None:
        """Split the boxes with the largest gaps per open box of their channel.

        These splits lower the mean bound most.
        """
        gaps = self.bounds.upper - self.incumbents.value[self.boxes.channel]
        still_open = torch.bincount(self.boxes.channel, minlength=len(self.dropped))
        scores = gaps / still_open[self.boxes.channel]
        at_least = max(self.threads * self.batch_size // 2, int(_MIN_SPLIT_SHARE * len(scores)))
        chosen = scores.topk(min(at_least, len(scores))).indices
        parents = self.bounds.take(chosen)
        halved = self.boxes.take(chosen)
        nodes = halved.node.repeat(2)
        if self.recorder is not None:
            nodes = self.recorder.split(
                halved.node, halved.channel, parents.split_by, parents.worker, parents.split_at
            )
        children = split(halved, parents, nodes)
        boxes, bounds = self._bound(
            children,
            parents.tangents.at_log_power.exp().repeat(2, 1),
            parents.upper_weight.repeat(2, 1),
            parents.upper.repeat(2),
        )
        rest = torch.ones(len(gaps), dtype=torch.bool, device=gaps.device)
        rest[chosen] = False
        self.boxes = Boxes.concat([self.boxes.take(rest), boxes])
        self.bounds = Bounds.concat([self.bounds.take(rest), bounds])
        self._drop()

    def _bound(
        self, boxes: Boxes, guess: Tensor, weight: Tensor, parent: Tensor | None = None
    ) -> tuple[Boxes, Bounds]:
        """Bound boxes in batches; no child has a looser bound than its parent."""
        threshold = (self.incumbents.value + self.tolerance)[boxes.channel]

        def bounded(start: int) -> tuple[Boxes, Bounds, Tensor]:
            rows = slice(start, start + self.batch_size)
            return self.relaxation.bound(
                boxes.take(rows), guess[rows], weight[rows], threshold[rows]
            )

        starts = range(0, len(boxes.channel), self.batch_size)
        parts = [*(self.pool.map(bounded, starts) if self.pool else map(bounded, starts))]
        cut = torch.cat([part[2] for part in parts])
        settled = threshold.masked_fill(~cut, -torch.inf)
        self.dropped = self.dropped.scatter_reduce(0, boxes.channel, settled, "amax")
        self.count += len(boxes.channel)
        tight = Boxes.concat([part[0] for part in parts])
        result = Bounds.concat([part[1] for part in parts])
        # A recorded bound must be proved at the leaf itself.
        if parent is not None and self.recorder is None:
            result = replace(result, upper=torch.minimum(result.upper, parent))
        self.incumbents.offer_climbed(tight.channel, result.power, _CLIMB_MARGIN)
        return tight, result

    def _drop(self) -> None:
        """Drop boxes within the tolerance of the best known value, and keep their largest bound."""
        threshold = self.incumbents.value + self.tolerance
        close = self.bounds.upper <= threshold[self.boxes.channel]
        self.dropped = self.dropped.scatter_reduce(
            0, self.boxes.channel[close], self.bounds.upper[close], "amax"
        )
        self._close(self.boxes.take(close), self.bounds.take(close))
        self.boxes = self.boxes.take(~close)
        self.bounds = self.bounds.take(~close)

    def _close(self, boxes: Boxes, bounds: Bounds) -> None:
        """Record boxes as leaves of the tree."""
        if self.recorder is None:
            return
        for proof in (LeafProof.MONOTONE, LeafProof.EMPTY):
            proved = bounds.proof == proof
            self.recorder.close(boxes.node[proved], bounds.upper[proved], proof)
        proved = bounds.proof == LeafProof.TANGENT
        self.recorder.close_by_tangents(
            boxes.node[proved], bounds.upper[proved], bounds.tangents.take(proved)
        )


def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that bound one batch of boxes each, with one core per operation."""
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
