"""Regions of the branch-and-bound searches: boxes of log-powers and log-SINRs, and of powers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
from feduplink.optimum.branch_and_bound import Tangents
from feduplink.tensor_record import TensorRecord

#: Ways to split a box: by the log-SINR or the log-power of a worker, or by whether it is silent.
SINR, POWER, REST = 0, 1, 2
#: Boxes of one channel in a row, on average, from which on they share a matrix product: where it
#: takes longer to begin one, more of them.
_SHORTEST_RUN = {"cpu": 16, "cuda": 4096}


@dataclass(frozen=True)
class Boxes(TensorRecord):
    """Regions of the search: M boxes, each of one channel.

    Attributes:
        channel: index of the channel, (M,).
        t_low, t_high: limits of ln p for a worker on the air, (M, L).
        s_low, s_high: limits of ln SINR for a worker on the air, (M, L).
        may_rest: the worker may also be silent, (M, L) bool.
        silent: the worker is silent, (M, L) bool.
        node: the box's row in the recorded tree, (M,); −1 if nothing is recorded.
    """

    channel: Tensor
    t_low: Tensor
    t_high: Tensor
    s_low: Tensor
    s_high: Tensor
    may_rest: Tensor
    silent: Tensor
    node: Tensor


@dataclass(frozen=True)
class Bounds(TensorRecord):
    """What the relaxation says of each box.

    Attributes:
        upper: upper bound on the Lagrangian, (M,); −∞ for an empty box.
        power: where the relaxation is largest, (M, L) W; 0 for a worker better off silent.
        worker: which worker's relaxation is loosest there, (M,).
        how: what of it to split: :data:`SINR`, :data:`POWER`, or :data:`REST`, (M,).
        split_at: where, (M,).
        proof: ``MONOTONE``, ``TANGENT`` or ``EMPTY``, (M,) int8.
        tangents: the linearisation that was taken.
        upper_weight: of McCormick's planes, what suits the halves of the box, (M, L).
    """

    upper: Tensor
    power: Tensor
    worker: Tensor
    how: Tensor
    split_at: Tensor
    proof: Tensor
    tangents: Tangents
    upper_weight: Tensor


def split(boxes: Boxes, bounds: Bounds, nodes: Tensor) -> Boxes:
    """The lower halves of all boxes, then the upper ones, (2 M,), with their ``nodes``."""
    rows = torch.arange(len(boxes.channel), device=boxes.channel.device)
    where = (rows, bounds.worker)

    def changed(values: Tensor, new: Tensor, apply: Tensor) -> Tensor:
        values = values.clone()
        values[where] = torch.where(apply, new, values[where])
        return values

    by_power, by_sinr, by_rest = (bounds.how == way for way in (POWER, SINR, REST))
    never, always = torch.zeros_like(by_rest), torch.ones_like(by_rest)
    lower = Boxes(
        boxes.channel,
        boxes.t_low,
        changed(boxes.t_high, bounds.split_at, by_power),
        boxes.s_low,
        changed(boxes.s_high, bounds.split_at, by_sinr),
        changed(boxes.may_rest, never, by_rest),
        changed(boxes.silent, always, by_rest),
        nodes[: len(rows)],
    )
    upper = Boxes(
        boxes.channel,
        changed(boxes.t_low, bounds.split_at, by_power),
        boxes.t_high,
        changed(boxes.s_low, bounds.split_at, by_sinr),
        boxes.s_high,
        # Silence is in the lower half already.
        changed(boxes.may_rest, never, always),
        boxes.silent,
        nodes[len(rows) :],
    )
    return Boxes.concat([lower, upper])


@dataclass(frozen=True)
class PowerBoxes(TensorRecord):
    """Regions of the search: M boxes of powers, each of one channel.

    Attributes:
        channel: index of the channel, (M,).
        low, high: limits of the powers, (M, L) W. From 0 on: the worker may also be silent. Both 0:
            it is.
        node: the box's row in the recorded tree, (M,); 0 if nothing is recorded.
    """

    channel: Tensor
    low: Tensor
    high: Tensor
    node: Tensor

    @staticmethod
    def roots(batch: ChannelBatch) -> PowerBoxes:
        """One box per channel: everyone silent or at any power."""
        high = batch.pmax_w.expand_as(batch.direct).clone()
        channel = torch.arange(len(high), device=high.device)
        return PowerBoxes(channel, torch.zeros_like(high), high, channel.clone())

    def halves(self, worker: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
        """``low`` and ``high`` of the lower halves, then of the upper ones, (2 M, L) W each."""
        rows = torch.arange(len(worker), device=worker.device)
        high, low = self.high.clone(), self.low.clone()
        high[rows, worker] = point
        low[rows, worker] = point
        return torch.cat((self.low, low)), torch.cat((high, self.high))


class CrossGains:
    """Products with the cross gains of every box's channel.

    Boxes of one channel that follow each other share one matrix product; where channels change all
    the time, each box has its own copy of the gains.
    """

    def __init__(self, cross: Tensor, channel: Tensor) -> None:
        runs, counts = torch.unique_consecutive(channel, return_counts=True)
        self._own = len(runs) * _SHORTEST_RUN[channel.device.type] > len(channel)
        if self._own:
            self._gains = cross[channel]
        else:
            self._counts = counts.tolist()
            self._runs = [cross[run] for run in runs.tolist()]

    def at_worker(self, values: Tensor) -> Tensor:
        """Σ_j β_ij v_j, what worker i receives, (M, L)."""
        if self._own:
            return (self._gains @ values[..., None])[..., 0]
        return self._products(values, [gains.T for gains in self._runs])

    def from_worker(self, values: Tensor) -> Tensor:
        """Σ_i β_ij v_i, what worker j causes, (M, L)."""
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
