"""Boxes of powers, and what their workers receive from each other."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch

#: Boxes of one channel in a row, on average, from which on they share a matrix product: where it
#: takes longer to begin one, more of them.
_SHORTEST_RUN = {"cpu": 16, "cuda": 4096}


@dataclass(frozen=True)
class PowerBoxes:
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

    def take(self, index: Tensor | slice) -> PowerBoxes:
        """Some of the boxes, by index, mask or slice."""
        return PowerBoxes(*(getattr(self, f.name)[index] for f in fields(self)))

    @staticmethod
    def concat(parts: list[PowerBoxes]) -> PowerBoxes:
        """All boxes of several batches."""
        return PowerBoxes(
            *(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(PowerBoxes))
        )

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
