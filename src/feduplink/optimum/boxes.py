"""Regions of the branch-and-bound searches: boxes of log-powers and log-SINRs, and of powers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian import ChannelBatch
from feduplink.optimum.branch_and_bound import OpenRegions, Regions, Tangents
from feduplink.proofs.format import Node

#: Minimum mean number of consecutive boxes of one channel for a shared matrix product. It is larger
#: on a GPU, where launching an operation takes longer.
_MIN_RUN_LENGTH = {"cpu": 16, "gpu": 4096}


@dataclass(frozen=True)
class Boxes(Regions):
    """M boxes of log-powers and log-SINRs, each of one channel.

    Attributes:
        t_low, t_high: limits of ln p of a transmitting worker, (M, L), p in W.
        s_low, s_high: limits of ln SINR of a transmitting worker, (M, L).
        may_be_silent: whether the worker may also be silent, (M, L) bool.
        silent: whether the worker is silent, (M, L) bool.
        node: row of the box in the recorded tree, (M,); undefined without a recording.
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
    """Bounds of the concave relaxation over M boxes, and how to split the boxes.

    Attributes:
        split_by: :class:`Node` of the split, (M,).
        power: maximiser of the relaxation, (M, L), W; 0 for workers with a negative value there.
        proof: :class:`Node` of the bound, (M,) int8.
        tangents: the linearisations.
        upper_weight: weights of McCormick's planes for the halves of the box, (M, L).
    """

    boxes: Boxes
    split_by: Tensor
    power: Tensor
    proof: Tensor
    tangents: Tangents
    upper_weight: Tensor


def split(bounds: Bounds, nodes: Tensor) -> Boxes:
    """Split M boxes in two.

    Args:
        bounds: the boxes with the split of each.
        nodes: rows of the halves in the recorded tree, (2 M,).

    Returns:
        2 M boxes: the lower halves, then the upper halves.
    """
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
    none, every = torch.zeros_like(by_silence), torch.ones_like(by_silence)
    lower = replace(
        boxes,
        t_high=changed(boxes.t_high, bounds.split_at, by_power),
        s_high=changed(boxes.s_high, bounds.split_at, by_sinr),
        may_be_silent=changed(boxes.may_be_silent, none, by_silence),
        silent=changed(boxes.silent, every, by_silence),
        node=nodes[: len(rows)],
    )
    upper = replace(
        boxes,
        t_low=changed(boxes.t_low, bounds.split_at, by_power),
        s_low=changed(boxes.s_low, bounds.split_at, by_sinr),
        # Silence belongs to the lower half only.
        may_be_silent=changed(boxes.may_be_silent, none, every),
        node=nodes[len(rows) :],
    )
    return Boxes.concat([lower, upper])


@dataclass(frozen=True)
class PowerBoxes(Regions):
    """M boxes of powers, each of one channel.

    Attributes:
        low, high: limits of the powers, (M, L), W. A worker with ``low`` = 0 may be silent, a
            worker with ``high`` = 0 is silent.
        node: row of the box in the recorded tree, (M,); undefined without a recording.
    """

    low: Tensor
    high: Tensor
    node: Tensor

    @staticmethod
    def roots(batch: ChannelBatch) -> PowerBoxes:
        """One box [0, Pmax]^L per channel."""
        high = batch.pmax_w.expand_as(batch.direct).clone()
        channel = torch.arange(len(high), device=high.device)
        return PowerBoxes(channel, torch.zeros_like(high), high, channel.clone())

    def halves(self, worker: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
        """Split every box at a power of one worker.

        Args:
            worker: the worker, (M,).
            point: the power, (M,), W.

        Returns:
            ``low`` and ``high`` of the lower halves, then of the upper halves, (2 M, L) each, W.
        """
        rows = torch.arange(len(worker), device=worker.device)
        high, low = self.high.clone(), self.low.clone()
        high[rows, worker] = point
        low[rows, worker] = point
        return torch.cat((self.low, low)), torch.cat((high, self.high))


class CrossGains:
    """Products with the cross gains β of every box's channel.

    Consecutive boxes of one channel share one matrix product, which is faster than a product per
    box. If channels alternate, every box has its own copy of the gains.

    Args:
        cross: β of all channels, (N, L, L), 1/W.
        channel: channel of every box, (M,).
    """

    def __init__(self, cross: Tensor, channel: Tensor) -> None:
        runs, counts = torch.unique_consecutive(channel, return_counts=True)
        shortest = _MIN_RUN_LENGTH["cpu" if channel.is_cpu else "gpu"]
        self._copied = len(runs) * shortest > len(channel)
        if self._copied:
            self._gains = cross[channel]
        else:
            self._counts = counts.tolist()
            self._runs = [cross[run] for run in runs.tolist()]

    def interference(self, power: Tensor) -> Tensor:
        """Noise plus interference 1 + Σ_j β_ij p_j at receiver i, (M, L), for powers (M, L) W."""
        if self._copied:
            return link.interference(self._gains, power)
        return 1 + self._products(power, [gains.T for gains in self._runs])

    def from_worker(self, values: Tensor) -> Tensor:
        """Sum Σ_i β_ij v_i over the receivers of worker j, (M, L), for values (M, L)."""
        if self._copied:
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
