"""The best powers known on every channel, while a search looks for better ones."""

from __future__ import annotations

from collections.abc import Iterator

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

#: Channels climbed on at a time, from one start or several: few of them take as long as many.
_ROWS = {"cpu": 1024, "cuda": 2**16}


class Incumbents:
    """The best known allocation of every channel at given prices, and its value.

    Attributes:
        power: (N, L) W.
        value: the Lagrangian there, (N,).
    """

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        self._batch, self._prices = batch, prices
        self.power = torch.zeros_like(batch.direct)
        self.value = batch.value(self.power, prices)
        every = torch.arange(len(self.value), device=self.value.device)
        together = max(1, _ROWS[every.device.type] // max(1, len(every)))
        for starts in _in_groups(starting_points(batch, prices), together):
            self.search_from(every.repeat(len(starts)), torch.cat(starts), rounds=4)
        best, value = self.power, torch.full_like(self.value, -torch.inf)
        for power in switched_from_each(batch, prices):
            reached = batch.value(power, prices)
            best = torch.where((reached > value)[:, None], power, best)
            value = torch.maximum(value, reached)
        self.search_from(every, best)

    def offer(self, channel: Tensor, power: Tensor, value: Tensor) -> Tensor:
        """Keep those of the allocations (M, L) W, with their values, that are better.

        Returns the channels on which one was, some perhaps more than once.
        """
        best = self.value.scatter_reduce(0, channel, value, "amax")
        winners = (value >= best[channel]) & (value > self.value[channel])
        improved = channel[winners]
        self.power[improved] = power[winners]
        # Of two equally good ones either may have been kept, and its own value goes with it.
        self.value[improved] = self._batch.take(improved).value(
            self.power[improved], self._prices.take(improved)
        )
        return improved

    def offer_climbed(self, channel: Tensor, power: Tensor, margin: float) -> None:
        """Climb from the best allocation of every channel, if within ``margin`` of the best known.

        The others would mostly lead to the same maximum.
        """
        batch, prices = self._batch.take(channel), self._prices.take(channel)
        value = batch.value(power, prices)
        best = torch.full_like(self.value, -torch.inf).scatter_reduce(0, channel, value, "amax")
        promising = (value >= best[channel]) & (value > self.value[channel] - margin)
        if not bool(promising.any()):
            return
        batch, prices = batch.take(promising), prices.take(promising)
        power = climb(batch, prices, power[promising], steps=3)
        self.offer(channel[promising], power, batch.value(power, prices))

    def search_from(self, channel: Tensor, power: Tensor, *, rounds: int = 2) -> None:
        """Search locally from allocations (M, L) W of some channels, silence included."""
        batch, prices = self._batch.take(channel), self._prices.take(channel)
        power = improve(batch, prices, power, rounds=rounds)
        self.offer(channel, power, batch.value(power, prices))


def _in_groups(starts: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    return (starts[first : first + size] for first in range(0, len(starts), size))
