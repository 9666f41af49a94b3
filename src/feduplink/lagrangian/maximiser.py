"""Maximisation of the Lagrangian channel by channel: coordinate search and Newton ascent over the
powers.

The maximum over [0, Pmax]^L is not a concave problem: a worker may be better off silent, and the
rate terms bend upwards. Two kinds of steps alternate, all channels at once:

- a *sweep* goes through the workers and gives each its best power with the others fixed, among
  silence and a grid over several decades: it makes the on/off decisions and leaves poor local
  maxima;
- *Newton* steps in log-power climb to the local maximum.

Several starting points, the best kept for each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian.channel_batch import ChannelBatch, gradient_and_hessian
from feduplink.lagrangian.prices import Prices

#: Longest step in log-power, and the fractions of it that are tried.
LONGEST_STEP = 2.0
_FRACTIONS = (1.0, 0.3, 0.05)
#: Added to curvatures, absolutely and relatively: in some directions there is none.
_RIDGE, _RELATIVE_RIDGE = 1e-9, 1e-7
#: Rounds of guessing who is at a limit, for steps that limits stop.
_ACTIVE_SETS = 3


def newton_ascent(
    value: Callable[[Tensor], Tensor],
    derivatives: Callable[[Tensor], tuple[Tensor, Tensor]],
    power: Tensor,
    lowest: Tensor,
    highest: Tensor,
    *,
    steps: int,
) -> Tensor:
    """Climb in log-power from ``power``, (N, L) W, within [lowest, highest].

    ``value`` gives (..., N) of powers (..., N, L), ``derivatives`` the gradient and Hessian in
    ln p. Workers at power 0 stay there. The value never falls.
    """
    reached = value(power)
    on_air = power > 0
    fractions = power.new_tensor(_FRACTIONS)
    for _ in range(steps):
        gradient, hessian = derivatives(power)
        # At a limit, and pushing on: leave it there.
        stuck = ((power >= highest * (1 - 1e-12)) & (gradient > 0)) | (
            (power <= lowest * (1 + 1e-12)) & (gradient < 0)
        )
        up = (highest / power).log().clamp_max(LONGEST_STEP)
        down = (lowest / power).log().clamp_min(-LONGEST_STEP)
        direction = newton_step(-hessian, gradient, on_air & ~stuck, down, up)
        # All fractions at once: for few channels, the number of operations is what takes time.
        trials = torch.minimum(
            torch.maximum(power * (fractions[:, None, None] * direction).exp(), lowest), highest
        )
        trials = torch.where(on_air, trials, 0.0)
        values, chosen = value(trials).max(0)
        better = values > reached
        best_value = torch.where(better, values, reached)
        chosen = chosen[None, :, None].expand(1, *power.shape)
        best = torch.where(better[:, None], trials.gather(0, chosen)[0], power)
        gained = float((best_value - reached).max()) if len(power) else 0.0
        power, reached = best, best_value
        if gained < 1e-10:
            break
    return power


def newton_step(
    curvature: Tensor, gradient: Tensor, free: Tensor, down: Tensor, up: Tensor
) -> Tensor:
    """About the d with the largest g·d − ½ dᵀ C d and down ≤ d ≤ up; 0 where not free, (N, L).

    C, (N, L, L), is shifted where it is not positive definite.
    """
    curvature, step = _solved(curvature, gradient, free)
    clipped = torch.where(free, torch.minimum(torch.maximum(step, down), up), 0.0)
    # A limit that stops one worker changes where the others should go.
    rows = (free & (clipped != step)).any(-1).nonzero()[:, 0]
    if len(rows):
        clipped[rows] = _step_around_limits(
            curvature[rows], gradient[rows], free[rows], down[rows], up[rows]
        )
    return clipped


def _step_around_limits(
    curvature: Tensor, gradient: Tensor, free: Tensor, down: Tensor, up: Tensor
) -> Tensor:
    """The same by active sets: who is at a limit is held there, the others are solved for.

    At a limit is who would be beyond it, at its own curvature, by what the model still rises
    there (the primal-dual active set method of Hintermüller, Ito and Kunisch, 2002). It may not
    have ended after a few rounds; so the step counts only if the model rises by more than in a
    step that each coordinate takes by itself, short enough to rise in any case.
    """

    def rise(step: Tensor) -> Tensor:
        return (step * (gradient - (curvature @ step[..., None])[..., 0] / 2)).sum(-1)

    gradient = torch.where(free, gradient, 0.0)
    step, slope = torch.zeros_like(gradient), gradient
    own = curvature.diagonal(dim1=-2, dim2=-1)
    for _ in range(_ACTIVE_SETS):
        target = step + slope / own
        at_limit = free & ((target >= up) | (target <= down))
        held = torch.where(at_limit, torch.where(target >= up, up, down), 0.0)
        left = gradient - (curvature @ held[..., None])[..., 0]
        step = held + _solved(curvature, left, free & ~at_limit)[1]
        slope = gradient - (curvature @ step[..., None])[..., 0]
    step = torch.where(free, torch.minimum(torch.maximum(step, down), up), 0.0)
    by_itself = gradient / curvature.abs().sum(-1)
    by_itself = torch.minimum(torch.maximum(by_itself, down), up)
    return torch.where((rise(step) > rise(by_itself))[:, None], step, by_itself)


def _solved(curvature: Tensor, gradient: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Solve C d = g for the free coordinates, d = 0 elsewhere; also the C that was solved with."""
    mask = free.to(gradient)
    system = curvature * mask[..., :, None] * mask[..., None, :]
    diagonal = system.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(_RELATIVE_RIDGE * diagonal.abs() + (1 - mask) + _RIDGE)
    factor, failed = torch.linalg.cholesky_ex(system)
    if bool(failed.any()):
        # Gershgorin: no eigenvalue lies under the smallest diagonal entry minus its row's rest.
        rest = system.abs().sum(-1) - diagonal.abs()
        lowest = (diagonal - rest).min(-1).values
        diagonal.add_(torch.where(failed > 0, _RIDGE - 1.01 * lowest, 0.0)[:, None])
        factor = torch.linalg.cholesky_ex(system).L
    wanted = (gradient * mask)[..., None]
    return system, torch.cholesky_solve(wanted, factor)[..., 0]


#: Powers under Pmax that a sweep looks at, in decades, and how many of them per decade.
_DECADES = 5
_PER_DECADE = 4
#: The log-power of a worker on the air stays above this times Pmax.
_LOWEST = 1e-7
#: Rounds of improvement of a starting point where the search is not to be continued.
_WIDE_SEARCH = 4


def maximise(batch: ChannelBatch, prices: Prices) -> Tensor:
    """Powers that maximise the Lagrangian of each channel from several starts, (N, L) W."""
    return MultiStart(batch, prices, rounds=_WIDE_SEARCH).best(prices)


class Maximiser(Protocol):
    """Finds the powers that maximise the Lagrangian of a set of channels, price after price."""

    def maximise(self, prices: Prices) -> Tensor:
        """The best powers at these prices, (N, L) W."""


class MultiStart:
    """A maximiser with several starting points, whose local maxima it keeps while prices move.

    Dual ascent asks for the maximum at many prices in a row, each close to the last. The local
    maxima at the last prices are then nearly those at the next, and one that is second best now may
    be best then; so all are kept and climbed again.

    Attributes:
        maxima: the local maxima at the last prices, (N, L) W each.
    """

    def __init__(self, batch: ChannelBatch, prices: Prices, *, rounds: int = 2) -> None:
        self._batch = batch
        self.maxima = [
            improve(batch, prices, start, rounds=rounds) for start in starting_points(batch, prices)
        ]
        self._turn = 0

    def maximise(self, prices: Prices) -> Tensor:
        """Climb from all local maxima at new prices; the best powers per channel, (N, L) W.

        The best is also swept for better on/off decisions, and so is, in turn, one of the rest.
        """
        self.maxima = [climb(self._batch, prices, maximum, steps=2) for maximum in self.maxima]
        self.maxima[0] = improve(self._batch, prices, self.best(prices))
        self._turn = self._turn % (len(self.maxima) - 1) + 1
        self.maxima[self._turn] = improve(self._batch, prices, self.maxima[self._turn])
        return self.best(prices)

    def restart(self, prices: Prices) -> None:
        """Search again from all starting points; the best maxima so far are kept as well."""
        self.maxima[0] = self.best(prices)
        self.maxima[1:] = [
            improve(self._batch, prices, start, rounds=_WIDE_SEARCH)
            for start in starting_points(self._batch, prices)[1:]
        ]

    def best(self, prices: Prices) -> Tensor:
        """The best known powers of each channel at these prices, (N, L) W."""
        best = self.maxima[0]
        value = self._batch.value(best, prices)
        for maximum in self.maxima[1:]:
            other = self._batch.value(maximum, prices)
            better = other > value
            best = torch.where(better[:, None], maximum, best)
            value = torch.where(better, other, value)
        return best


def starting_points(batch: ChannelBatch, prices: Prices) -> list[Tensor]:
    """Where :func:`maximise` starts, (N, L) W each.

    Everyone received alike at three levels, everyone at full power, only the worker on the air that
    is worth most alone, and the best senders at full power that switching finds.
    """
    weakest = (batch.pmax_w * batch.direct).min(-1, keepdim=True).values
    alike = weakest / batch.direct
    levels = [torch.minimum(alike * level, batch.pmax_w) for level in (1.0, 10.0, 0.1)]
    alone = _best_alone(batch, prices)
    full = batch.pmax_w.expand_as(batch.direct)
    return [*levels, full, alone, _switched(batch, prices, alone > 0)]


def switched_from_each(batch: ChannelBatch, prices: Prices) -> list[Tensor]:
    """Senders that switching finds from each worker alone, (N, L) W each."""
    everyone = torch.eye(len(batch.pmax_w), dtype=torch.bool, device=batch.pmax_w.device)
    return [_switched(batch, prices, on_air.expand_as(batch.direct)) for on_air in everyone]


def _switched(batch: ChannelBatch, prices: Prices, on_air: Tensor) -> Tensor:
    """Workers at one power or silent, switched while it pays: one of them, or two at once.

    The power is Pmax or, where power costs, what would be best alone. Where workers exclude each
    other, the best senders are not found by one worker's moves: who is on the air keeps a better
    one off it.
    """
    power = batch.pmax_w.expand_as(batch.direct)
    if prices.power_cost is not None:
        best = prices.rate / prices.power_cost - 1 / batch.direct
        power = torch.minimum(best.clamp_min(_LOWEST * batch.pmax_w), power)
    workers = power.shape[-1]
    first, second = torch.triu_indices(workers, workers, device=power.device)
    switches = torch.zeros(len(first), workers, dtype=torch.bool, device=power.device)
    rows = torch.arange(len(first), device=power.device)
    switches[rows, first] = True
    switches[rows, second] = True
    value = batch.value(torch.where(on_air, power, 0.0), prices)
    for _ in range(workers):
        # Trials come first, so that prices per channel, (N, L), are those of their channels.
        trials = torch.where(on_air ^ switches[:, None], power, 0.0)
        interference = link.interference_of_each(batch.cross, trials.transpose(0, 1))
        sinr = batch.direct * trials / interference.transpose(0, 1)
        best, chosen = batch.worker_values(sinr, trials, prices).sum(-1).max(0)
        better = best > value
        if not bool(better.any()):
            break
        on_air = torch.where(better[:, None], on_air ^ switches[chosen], on_air)
        value = torch.where(better, best, value)
    return torch.where(on_air, power, 0.0)


def _best_alone(batch: ChannelBatch, prices: Prices) -> Tensor:
    """Only the worker on the air that is worth most without the others, at its best power."""
    grid = _relative_grid(batch.direct)
    power = (batch.pmax_w * grid[:, None, None]).expand(-1, *batch.direct.shape)
    values, best = batch.worker_values(batch.direct * power, power, prices).max(0)
    worker = values.argmax(-1, keepdim=True)
    chosen = batch.pmax_w[worker] * grid[best.gather(1, worker)]
    return torch.zeros_like(batch.direct).scatter(1, worker, chosen)


def _relative_grid(like: Tensor) -> Tensor:
    """Powers of a sweep relative to Pmax, silence first."""
    exponents = -torch.arange(_DECADES * _PER_DECADE + 1).to(like) / _PER_DECADE
    return torch.cat((like.new_zeros(1), 10**exponents))


def improve(batch: ChannelBatch, prices: Prices, power: Tensor, *, rounds: int = 1) -> Tensor:
    """Alternate sweeps and Newton steps from ``power``; the Lagrangian never falls."""
    for _ in range(rounds):
        power = sweep(batch, prices, power)
        power = climb(batch, prices, power, steps=4)
    return power


def sweep(batch: ChannelBatch, prices: Prices, power: Tensor) -> Tensor:
    """Give each worker in turn its best power on a grid, the others fixed; silence included."""
    grid = _relative_grid(power)
    power = power.clone()
    # Kept up to date, not computed anew for every worker and candidate: that would take L products
    # with β more.
    interference = batch.interference(power)
    for i in range(power.shape[-1]):
        column = batch.cross[:, :, i]
        others = interference - column * power[:, i, None]
        levels = (batch.pmax_w[i] * grid)[:, None].expand(-1, len(power))
        candidates = torch.cat((power[None, :, i], levels))
        trial = power.repeat(len(candidates), 1, 1)
        trial[:, :, i] = candidates
        sinr = batch.direct * trial / (others + column * candidates[..., None])
        values = batch.worker_values(sinr, trial, prices).sum(-1)
        chosen = candidates.gather(0, values.argmax(0, keepdim=True))[0]
        power[:, i] = chosen
        interference = others + column * chosen[:, None]
    return power


def climb(batch: ChannelBatch, prices: Prices, power: Tensor, *, steps: int) -> Tensor:
    """Newton ascent in log-power for the workers on the air; who is silent stays so."""
    return newton_ascent(
        lambda p: batch.value(p, prices),
        lambda p: gradient_and_hessian(batch, p, prices),
        power,
        (batch.pmax_w * _LOWEST).expand_as(power),
        batch.pmax_w.expand_as(power),
        steps=steps,
    )
