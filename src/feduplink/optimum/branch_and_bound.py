"""What every branch and bound over the channels of a batch has in common.

Regions of powers are bounded, split where their bound is loosest, and dropped once they cannot
hold anything that matters. It can be stopped at any time, and what it says then is true.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.branching_tree import BranchingTree, TreeRecorder
from feduplink.optimum.incumbents import Incumbents
from feduplink.progress import Tracker

#: Which share of the gap that is aimed at the search may use up in any case.
_LEFT_TO_SEARCH = 0.25


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

    def to(self, device: torch.device) -> Certificate:
        """The same on another device."""
        return replace(
            self,
            lower=self.lower.to(device),
            upper=self.upper.to(device),
            power=self.power.to(device),
        )

    @property
    def gap(self) -> float:
        """Mean over the channels of upper − lower."""
        return float((self.upper - self.lower).mean())


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

    def run(self, budget_s: float, tracker: Tracker) -> Certificate:
        """Search until the target is met or ``budget_s`` seconds have passed."""
        while True:
            certificate = self.certificate()
            figures = {"gap": certificate.gap, "boxes": certificate.boxes}
            tracker.advance(certificate.seconds, figures, certificate)
            if (
                self.target.met_by(certificate)
                or certificate.seconds >= budget_s
                or len(self.open_boxes[0]) == 0
            ):
                break
            self.branch()
        if self.recorder is None:
            return certificate
        self.close_all()
        return replace(certificate, tree=self.recorder.tree())

    def certificate(self) -> Certificate:
        """What is proved so far."""
        lower, power = self.incumbents.value.clone(), self.incumbents.power.clone()
        upper = torch.maximum(self.dropped, lower)
        upper = upper.scatter_reduce(0, *self.open_boxes, "amax")
        elapsed = time.monotonic() - self.started
        return Certificate(lower, upper, power, self.count, elapsed)
