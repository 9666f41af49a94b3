"""A certificate: no policy that meets the constraints on these channels does better than this.

Weak duality bounds every such policy by the mean over the channels of the largest Lagrangian, for
any multipliers. Branch and bound finds that largest value from above, channel by channel: boxes of
log-powers and log-SINRs are bounded (``relaxation``), split where their bound is loosest, and
dropped once they cannot hold anything better than what is known. It can be stopped at any time,
and what it says then is true.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, MultiStart, Prices, climb
from feduplink.observing import Observer, Tracker, track
from feduplink.optimum.boxes import Bounds, Boxes, split
from feduplink.optimum.branching_tree import (
    EMPTY,
    MONOTONE,
    TANGENT,
    BranchingTree,
    TreeRecorder,
)
from feduplink.optimum.relaxation import Relaxation

#: Boxes bounded at a time.
_BATCH = 2048


@dataclass(frozen=True, repr=False)
class Certificate:
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


def certify(
    batch: ChannelBatch,
    prices: Prices,
    *,
    budget_s: float,
    target_gap: float = 1e-3,
    record: bool = False,
    observers: Sequence[Observer] = (),
) -> Certificate:
    """Bound the largest Lagrangian of every channel from both sides.

    Stops when the mean gap is at most ``target_gap`` or after ``budget_s`` seconds. The
    ``observers`` are told of every :class:`Certificate` on the way. To ``record`` the search keeps
    its tree, for others to check; a bound is then proved at the leaves alone, and may be a little
    looser for it.
    """
    with track("certificate", budget_s, "s", observers) as tracker:
        return _Search(batch, prices, target_gap, record=record).run(budget_s, tracker)


class _Search:
    def __init__(
        self, batch: ChannelBatch, prices: Prices, target_gap: float, *, record: bool
    ) -> None:
        self.started = time.monotonic()
        self.batch = batch
        self.prices = prices
        self.target_gap = target_gap
        self.power = MultiStart(batch, prices, rounds=4).best(prices)
        self.lower = batch.value(self.power, prices)
        #: Largest bound among the boxes that were dropped, by channel.
        self.dropped = self.lower.clone()
        self.relaxation = Relaxation(batch, prices)
        self.recorder = TreeRecorder(*batch.direct.shape) if record else None
        roots = self.relaxation.roots()
        self.count = 0
        self.boxes, self.bounds = self._bound(roots, self.power)

    def run(self, budget_s: float, tracker: Tracker) -> Certificate:
        while True:
            certificate = self._certificate()
            figures = {"gap": certificate.gap, "boxes": certificate.boxes}
            tracker.advance(certificate.seconds, figures, certificate)
            if (
                certificate.gap <= self.target_gap
                or certificate.seconds >= budget_s
                or len(self.boxes.channel) == 0
            ):
                return self._closed(certificate)
            self._branch()

    def _certificate(self) -> Certificate:
        upper = torch.maximum(self.dropped, self.lower)
        upper = upper.scatter_reduce(0, self.boxes.channel, self.bounds.upper, "amax")
        elapsed = time.monotonic() - self.started
        return Certificate(self.lower, upper, self.power, self.count, elapsed)

    def _branch(self) -> None:
        """Split the boxes with the largest gaps, first those of channels with few open boxes.

        There a split brings the mean bound down most.
        """
        gaps = self.bounds.upper - self.lower[self.boxes.channel]
        still_open = torch.bincount(self.boxes.channel, minlength=len(self.lower))
        scores = gaps / still_open[self.boxes.channel]
        chosen = scores.topk(min(_BATCH // 2, len(scores))).indices
        parents = self.bounds.take(chosen)
        halved = self.boxes.take(chosen)
        nodes = halved.node.repeat(2)
        if self.recorder is not None:
            nodes = self.recorder.split(
                halved.node, halved.channel, parents.how, parents.worker, parents.split_at
            )
        children = split(halved, parents, nodes)
        boxes, bounds = self._bound(children, parents.power.repeat(2, 1), parents.upper.repeat(2))
        rest = torch.ones(len(gaps), dtype=torch.bool, device=gaps.device)
        rest[chosen] = False
        self.boxes = Boxes.concat([self.boxes.take(rest), boxes])
        self.bounds = Bounds.concat([self.bounds.take(rest), bounds])
        self._drop()

    def _bound(
        self, boxes: Boxes, guess: Tensor, parent: Tensor | None = None
    ) -> tuple[Boxes, Bounds]:
        """Bound boxes in batches; a child is never bounded worse than its parent."""
        boxes_done, bounds_done = [], []
        for start in range(0, len(boxes.channel), _BATCH):
            rows = torch.arange(start, min(start + _BATCH, len(boxes.channel)))
            tight, bounds = self.relaxation.bound(boxes.take(rows), guess[rows])
            boxes_done.append(tight)
            bounds_done.append(bounds)
        self.count += len(boxes.channel)
        tight, result = Boxes.concat(boxes_done), Bounds.concat(bounds_done)
        # A recorded bound must be proved at the leaf itself.
        if parent is not None and self.recorder is None:
            result = replace(result, upper=torch.minimum(result.upper, parent))
        self._try(tight.channel, result.power)
        return tight, result

    def _try(self, channel: Tensor, power: Tensor) -> None:
        """A maximiser of a relaxation may be, after a short climb, a better allocation."""
        batch = self.batch.take(channel)
        promising = batch.value(power, self.prices) > self.lower[channel] - 0.02
        if not bool(promising.any()):
            return
        channel, batch = channel[promising], batch.take(promising)
        power = climb(batch, self.prices, power[promising], steps=3)
        value = batch.value(power, self.prices)
        best = self.lower.scatter_reduce(0, channel, value, "amax")
        winners = (value >= best[channel]) & (value > self.lower[channel])
        self.power[channel[winners]] = power[winners]
        self.lower = self.batch.value(self.power, self.prices)

    def _drop(self) -> None:
        """Forget boxes that cannot matter for the target; remember the largest bound of them."""
        tolerance = self.target_gap / 4
        close = self.bounds.upper <= self.lower[self.boxes.channel] + tolerance
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
        for proof in (MONOTONE, EMPTY):
            proved = bounds.proof == proof
            self.recorder.close(boxes.node[proved], bounds.upper[proved], proof)
        proved = bounds.proof == TANGENT
        self.recorder.close_by_tangents(
            boxes.node[proved], bounds.upper[proved], bounds.tangents.take(proved)
        )

    def _closed(self, certificate: Certificate) -> Certificate:
        """With the tree, if it was recorded, whose open boxes become leaves."""
        if self.recorder is None:
            return certificate
        self._close(self.boxes, self.bounds)
        return replace(certificate, tree=self.recorder.tree())
