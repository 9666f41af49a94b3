"""Maximising the Lagrangian channel by channel: powers, and who stays silent.

The maximum over [0, Pmax]^L is not a concave problem: a worker may be better off silent, and the
rate terms bend upwards. Two kinds of steps alternate, all channels at once:

- a *sweep* goes through the workers and gives each its best power with the others fixed, among
  silence and a grid over several decades: it makes the on/off decisions and leaves bad hills;
- *Newton* steps in log-power climb to the top of the hill.

Several starting points, the best kept for each channel.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from feduplink.lagrangian.ascent import newton_ascent
from feduplink.lagrangian.prices import Prices
from feduplink.lagrangian.terms import Cell, gradient_and_hessian

#: Powers under Pmax that a sweep looks at, in decades, and how many of them a decade.
_DECADES = 5
_PER_DECADE = 4
#: The log-power of a worker on the air stays above this times Pmax.
_LOWEST = 1e-7


def maximise(cell: Cell, prices: Prices, *, rounds: int = 4) -> Tensor:
    """Powers that maximise the Lagrangian of each channel from several starts, (N, L) W."""
    return HillTops(cell, prices, rounds=rounds).best(prices)


class Maximiser(Protocol):
    """Finds the powers that maximise the Lagrangian of a set of channels, price after price."""

    def follow(self, prices: Prices) -> Tensor:
        """The best powers at these prices, (N, L) W."""

    def restart(self, prices: Prices) -> None:
        """Search more widely at these prices."""


class HillTops:
    """The hill tops found so far for a set of channels, kept while the prices move.

    Dual ascent asks for the maximum at many prices in a row, each close to the last. The tops
    of the last prices are then nearly those of the next, and one that is second best now may be
    best then; so all are kept and re-climbed.
    """

    def __init__(self, cell: Cell, prices: Prices, *, rounds: int = 2) -> None:
        self._cell = cell
        self._tops = [
            improve(cell, prices, start, rounds=rounds) for start in starting_points(cell, prices)
        ]
        self._turn = 0

    def follow(self, prices: Prices) -> Tensor:
        """Climb all tops at new prices; returns the best powers of each channel, (N, L) W.

        The best is also swept for better on/off decisions, and so is, in turn, one of the rest.
        """
        self._tops = [climb(self._cell, prices, top, steps=2) for top in self._tops]
        self._tops[0] = improve(self._cell, prices, self.best(prices))
        self._turn = self._turn % (len(self._tops) - 1) + 1
        self._tops[self._turn] = improve(self._cell, prices, self._tops[self._turn])
        return self.best(prices)

    def restart(self, prices: Prices, *, rounds: int = 4) -> None:
        """Search again from all starting points; the best tops so far stay in the race."""
        self._tops[0] = self.best(prices)
        self._tops[1:] = [
            improve(self._cell, prices, start, rounds=rounds)
            for start in starting_points(self._cell, prices)[1:]
        ]

    def best(self, prices: Prices) -> Tensor:
        """The best known powers of each channel at these prices, (N, L) W."""
        best = self._tops[0]
        value = self._cell.value(best, prices)
        for top in self._tops[1:]:
            top_value = self._cell.value(top, prices)
            better = top_value > value
            best = torch.where(better[:, None], top, best)
            value = torch.where(better, top_value, value)
        return best


def starting_points(cell: Cell, prices: Prices) -> list[Tensor]:
    """Where :func:`maximise` starts, (N, L) W each.

    Everyone received alike at three levels, everyone at full power, and only the worker on the
    air that is worth most alone.
    """
    weakest = (cell.pmax_w * cell.direct).min(-1, keepdim=True).values
    alike = weakest / cell.direct
    levels = [torch.minimum(alike * level, cell.pmax_w) for level in (1.0, 10.0, 0.1)]
    return [*levels, cell.pmax_w.expand_as(cell.direct), _best_alone(cell, prices)]


def _best_alone(cell: Cell, prices: Prices) -> Tensor:
    """Only the worker on the air that is worth most without the others, at its best power."""
    grid = _relative_grid(cell.direct)
    power = (cell.pmax_w * grid[:, None, None]).expand(-1, *cell.direct.shape)
    worth, best = cell.worker_values(cell.direct * power, power, prices).max(0)
    worker = worth.argmax(-1, keepdim=True)
    chosen = cell.pmax_w[worker] * grid[best.gather(1, worker)]
    return torch.zeros_like(cell.direct).scatter(1, worker, chosen)


def _relative_grid(like: Tensor) -> Tensor:
    """Powers of a sweep relative to Pmax, silence first."""
    exponents = -torch.arange(_DECADES * _PER_DECADE + 1).to(like) / _PER_DECADE
    return torch.cat((like.new_zeros(1), 10**exponents))


def improve(cell: Cell, prices: Prices, power: Tensor, *, rounds: int = 1) -> Tensor:
    """Alternate sweeps and Newton steps from ``power``; the Lagrangian never falls."""
    for _ in range(rounds):
        power = sweep(cell, prices, power)
        power = climb(cell, prices, power, steps=4)
    return power


def sweep(cell: Cell, prices: Prices, power: Tensor) -> Tensor:
    """Give each worker in turn its best power on a grid, the others fixed; silence included."""
    grid = _relative_grid(power)
    power = power.clone()
    interference = cell.interference(power)
    for i in range(power.shape[-1]):
        column = cell.cross[:, :, i]
        others = interference - column * power[:, i, None]
        levels = (cell.pmax_w[i] * grid).expand(len(power), -1)
        candidates = torch.cat((power[:, i, None], levels), dim=1)
        trial = power[:, None, :].repeat(1, candidates.shape[1], 1)
        trial[:, :, i] = candidates
        sinr = (
            cell.direct[:, None]
            * trial
            / (others[:, None] + column[:, None] * candidates[..., None])
        )
        values = cell.worker_values(sinr, trial, prices).sum(-1)
        chosen = candidates.gather(1, values.argmax(1, keepdim=True))[:, 0]
        power[:, i] = chosen
        interference = others + column * chosen[:, None]
    return power


def climb(cell: Cell, prices: Prices, power: Tensor, *, steps: int) -> Tensor:
    """Newton ascent in log-power for the workers on the air; who is silent stays so."""
    return newton_ascent(
        lambda p: cell.value(p, prices),
        lambda p: gradient_and_hessian(cell, p, prices),
        power,
        (cell.pmax_w * _LOWEST).expand_as(power),
        cell.pmax_w.expand_as(power),
        steps=steps,
    )
