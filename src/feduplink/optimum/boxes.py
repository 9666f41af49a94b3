"""Regions of the branch-and-bound searches: boxes of log-powers and log-SINRs, and of powers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian import ChannelBatch
from feduplink.optimum.branch_and_bound import OpenRegions, Regions, Tangents
from feduplink.proofs.format import Node

#: Mean number of consecutive boxes of one channel from which on they share a matrix product.
#: Launching one takes longer on a GPU.
_MIN_RUN = {"cpu": 16, "gpu": 4096}


@dataclass(frozen=True)
class Boxes(Regions):
    """M boxes of log-powers and log-SINRs, each of one channel.

    Attributes:
        t_low, t_high: limits of ln p for a worker that transmits, (M, L).
        s_low, s_high: limits of ln SINR for a worker that transmits, (M, L).
        may_be_silent: whether the worker may also be silent, (M, L) bool.
        silent: whether the worker is silent, (M, L) bool.
        node: row of the box in the recorded tree, (M,); meaningless if nothing is recorded.
    """

    t_low: Tensor
    t_high: Tensor
    s_low: Tensor
    s_high: Tensor
    may_be_silent: Tensor
    silent: Tensor
    node: Tensor


@dataclass(frozen=True)
class Bounds(OpenRegions):
    """Bounds of the concave relaxation over M boxes, and how to split these by ln SINR or ln p.

    Attributes:
        split_by: :class:`Node` of the box, (M,).
        power: maximiser of the relaxation, (M, L) W; 0 for a worker of negative value there.
        proof: :class:`Node` of the bound, (M,) int8.
        tangents: the linearisation.
        upper_weight: weights of McCormick's planes for the halves of the box, (M, L).
    """

    boxes: Boxes
    split_by: Tensor
    power: Tensor
    proof: Tensor
    tangents: Tangents
    upper_weight: Tensor


def split(bounds: Bounds, nodes: Tensor) -> Boxes:
    """Split M boxes; return the lower halves, then the upper ones, with their ``nodes`` (2 M,)."""
    boxes = bounds.boxes
    rows = torch.arange(len(boxes.channel), device=boxes.channel.device)
    where = (rows, bounds.worker)

    def changed(values: Tensor, new: Tensor, apply: Tensor) -> Tensor:
        values = values.clone()
        values[where] = torch.where(apply, new, values[where])
        return values

    by_power, by_sinr, by_silence = (
        bounds.split_by == kind for kind in (Node.BY_POWER, Node.BY_SINR, Node.BY_SILENCE)
    )
    never, always = torch.zeros_like(by_silence), torch.ones_like(by_silence)
    lower = replace(
        boxes,
        t_high=changed(boxes.t_high, bounds.split_at, by_power),
        s_high=changed(boxes.s_high, bounds.split_at, by_sinr),
        may_be_silent=changed(boxes.may_be_silent, never, by_silence),
        silent=changed(boxes.silent, always, by_silence),
        node=nodes[: len(rows)],
    )
    upper = replace(
        boxes,
        t_low=changed(boxes.t_low, bounds.split_at, by_power),
        s_low=changed(boxes.s_low, bounds.split_at, by_sinr),
        # The lower half contains silence.
        may_be_silent=changed(boxes.may_be_silent, never, always),
        node=nodes[len(rows) :],
    )
    return Boxes.concat([lower, upper])


@dataclass(frozen=True)
class PowerBoxes(Regions):
    """M boxes of powers, each of one channel.

    Attributes:
        low, high: limits of the powers, (M, L) W. A worker with ``low`` = 0 may be silent, one with
            ``high`` = 0 is.
        node: row of the box in the recorded tree, (M,); meaningless if nothing is recorded.
    """

    low: Tensor
    high: Tensor
    node: Tensor

    @staticmethod
    def roots(batch: ChannelBatch) -> PowerBoxes:
        """One box per channel: all powers in [0, Pmax]^L."""
        high = batch.pmax_w.expand_as(batch.direct).clone()
        channel = torch.arange(len(high), device=high.device)
        return PowerBoxes(channel, torch.zeros_like(high), high, channel.clone())

    def halves(self, worker: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
        """Split at powers (M,) W of workers (M,).

        Returns ``low`` and ``high`` of the lower halves, then of the upper ones, (2 M, L) W each.
        """
        rows = torch.arange(len(worker), device=worker.device)
        high, low = self.high.clone(), self.low.clone()
        high[rows, worker] = point
        low[rows, worker] = point
        return torch.cat((self.low, low)), torch.cat((high, self.high))


class CrossGains:
    """Products with the cross gains β of every box's channel.

    Consecutive boxes of one channel share one matrix product, which takes a fraction of the time of
    a product per box. Where channels alternate, each box has its own copy of the gains.
    """

    def __init__(self, cross: Tensor, channel: Tensor) -> None:
        runs, counts = torch.unique_consecutive(channel, return_counts=True)
        shortest = _MIN_RUN["cpu" if channel.is_cpu else "gpu"]
        self._own = len(runs) * shortest > len(channel)
        if self._own:
            self._gains = cross[channel]
        else:
            self._counts = counts.tolist()
            self._runs = [cross[run] for run in runs.tolist()]

    def interference(self, power: Tensor) -> Tensor:
        """Return 1 + Σ_j β_ij p_j, the noise and interference at worker i, (M, L)."""
        if self._own:
            return link.interference(self._gains, power)
        return 1 + self._products(power, [gains.T for gains in self._runs])

    def from_worker(self, values: Tensor) -> Tensor:
        """Return Σ_i β_ij v_i, the interference that worker j causes, (M, L)."""
        if self._own:
            return (values[:, None, :] @ self._gains)[:, 0]
        return self._products(values, self._runs)

    def _products(self, values: Tensor, gains: list[Tensor]) -> Tensor:
        result = torch.empty_like(values)
        first = 0
        for count, matrix in zip(self._counts, gains, strict=True):
            rows = slice(first, first + count)
            torch.mm(values[rows], matrix, out=result[rows])
            first += count
        return result
