"""Maximisation of the Lagrangian of each channel: coordinate search and Newton ascent over powers.

The maximisation over [0, Pmax]^L is not a concave problem: silence may be optimal for a worker, and
the rate terms are convex in places. Two kinds of steps alternate, on all channels at once:

- a *sweep* is coordinate search: it gives each worker in turn its best power on a grid over several
  decades, silence included, with the others fixed. It makes the on/off decisions and leaves poor
  local maxima;
- *Newton* steps in log-power ascend to the local maximum.

The search starts from several points and keeps the best result of each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian.channel_batch import ChannelBatch, gradient_and_hessian
from feduplink.lagrangian.prices import Prices

#: Longest Newton step in ln p, and the fractions of a step that the line search tries.
LONGEST_STEP = 2.0
_STEP_FRACTIONS = (1.0, 0.3, 0.05)
#: Absolute and relative regularisation of curvatures, which vanish in some directions.
_RIDGE, _RELATIVE_RIDGE = 1e-9, 1e-7
#: Rounds of the active set method in a Newton step that bounds cut short.
_ACTIVE_SET_ROUNDS = 3


def newton_ascent(
    value: Callable[[Tensor], Tensor],
    derivatives: Callable[[Tensor], tuple[Tensor, Tensor]],
    power: Tensor,
    lowest: Tensor,
    highest: Tensor,
    *,
    steps: int,
) -> Tensor:
    """Maximise a function of the powers by damped Newton steps in log-power within bounds.

    The value never decreases.

    Args:
        value: the function, (..., N, L) W to (..., N).
        derivatives: its gradient (N, L) and Hessian (N, L, L) in ln p, at powers (N, L) W.
        power: starting points, (N, L), W. Workers with power 0 stay silent.
        lowest: lower bounds, (N, L), W, above 0.
        highest: upper bounds, (N, L), W.
        steps: maximum number of steps.

    Returns:
        Powers, (N, L), W.
    """
    current = value(power)
    transmits = power > 0
    fractions = power.new_tensor(_STEP_FRACTIONS)
    for _ in range(steps):
        gradient, hessian = derivatives(power)
        # Active bounds: coordinates whose gradient points out of the box.
        at_active_bound = ((power >= highest * (1 - 1e-12)) & (gradient > 0)) | (
            (power <= lowest * (1 + 1e-12)) & (gradient < 0)
        )
        up = (highest / power).log().clamp_max(LONGEST_STEP)
        down = (lowest / power).log().clamp_min(-LONGEST_STEP)
        direction = newton_step(-hessian, gradient, transmits & ~at_active_bound, down, up)
        # All fractions at once: for few channels, the number of operations determines the time.
        trials = torch.minimum(
            torch.maximum(power * (fractions[:, None, None] * direction).exp(), lowest), highest
        )
        trials = torch.where(transmits, trials, 0.0)
        values, chosen = value(trials).max(0)
        better = values > current
        best_value = torch.where(better, values, current)
        chosen = chosen[None, :, None].expand(1, *power.shape)
        best = torch.where(better[:, None], trials.gather(0, chosen)[0], power)
        increase = float((best_value - current).max()) if len(power) else 0.0
        power, current = best, best_value
        if increase < 1e-10:
            break
    return power


def newton_step(
    curvature: Tensor, gradient: Tensor, free: Tensor, down: Tensor, up: Tensor
) -> Tensor:
    """Approximate maximiser d of g·d − ½ dᵀ C d subject to down ≤ d ≤ up.

    Args:
        curvature: C, (N, L, L); shifted where it is not positive definite.
        gradient: g, (N, L).
        free: coordinates that may move, (N, L) bool; d = 0 elsewhere.
        down: lower bounds of d, (N, L), at most 0.
        up: upper bounds of d, (N, L), at least 0.

    Returns:
        d, (N, L).
    """
    curvature, step = _solve_regularised(curvature, gradient, free)
    clipped = torch.where(free, torch.minimum(torch.maximum(step, down), up), 0.0)
    # An active bound of one worker changes the best steps of the others.
    rows = (free & (clipped != step)).any(-1).nonzero()[:, 0]
    if len(rows):
        clipped[rows] = _active_set_step(
            curvature[rows], gradient[rows], free[rows], down[rows], up[rows]
        )
    return clipped


def _active_set_step(
    curvature: Tensor, gradient: Tensor, free: Tensor, down: Tensor, up: Tensor
) -> Tensor:
    """The step of :func:`newton_step` by the primal-dual active set method.

    The active set holds the coordinates whose step, at their own curvature, would leave the box
    (Hintermüller, Ito and Kunisch, 2002). The method may not converge within the allowed rounds.
    Its step is therefore used only if the quadratic model increases by more than along a
    coordinate-wise step that is short enough to increase it in every case.
    """

    def model_increase(step: Tensor) -> Tensor:
        return (step * (gradient - (curvature @ step[..., None])[..., 0] / 2)).sum(-1)

    gradient = torch.where(free, gradient, 0.0)
    step, slope = torch.zeros_like(gradient), gradient
    own = curvature.diagonal(dim1=-2, dim2=-1)
    for _ in range(_ACTIVE_SET_ROUNDS):
        target = step + slope / own
        at_limit = free & ((target >= up) | (target <= down))
        bound_step = torch.where(at_limit, torch.where(target >= up, up, down), 0.0)
        residual = gradient - (curvature @ bound_step[..., None])[..., 0]
        step = bound_step + _solve_regularised(curvature, residual, free & ~at_limit)[1]
        slope = gradient - (curvature @ step[..., None])[..., 0]
    step = torch.where(free, torch.minimum(torch.maximum(step, down), up), 0.0)
    coordinate_step = gradient / curvature.abs().sum(-1)
    coordinate_step = torch.minimum(torch.maximum(coordinate_step, down), up)
    return torch.where(
        (model_increase(step) > model_increase(coordinate_step))[:, None], step, coordinate_step
    )


def _solve_regularised(curvature: Tensor, gradient: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Solve C d = g for the free coordinates, d = 0 elsewhere; return the regularised C and d."""
    mask = free.to(gradient)
    system = curvature * mask[..., :, None] * mask[..., None, :]
    diagonal = system.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(_RELATIVE_RIDGE * diagonal.abs() + (1 - mask) + _RIDGE)
    factor, failed = torch.linalg.cholesky_ex(system)
    if bool(failed.any()):
        # Gershgorin: every eigenvalue is at least min_i (C_ii − Σ_{j≠i} |C_ij|).
        off_diagonal_sum = system.abs().sum(-1) - diagonal.abs()
        lowest = (diagonal - off_diagonal_sum).min(-1).values
        diagonal.add_(torch.where(failed > 0, _RIDGE - 1.01 * lowest, 0.0)[:, None])
        factor = torch.linalg.cholesky_ex(system).L
    right_hand_side = (gradient * mask)[..., None]
    return system, torch.cholesky_solve(right_hand_side, factor)[..., 0]


#: Grid of a sweep: decades below Pmax, and powers per decade.
_GRID_DECADES = 5
_POWERS_PER_DECADE = 4
#: Lowest power of a transmitting worker, relative to Pmax.
_MIN_RELATIVE_POWER = 1e-7
#: Rounds of improvement of a starting point in a search without continuation.
_SINGLE_SEARCH_ROUNDS = 4


def maximise(batch: ChannelBatch, prices: Prices) -> Tensor:
    """Maximise the Lagrangian of each channel from several starting points.

    Args:
        batch: N channels.
        prices: prices of all quantities, (L,) or (N, L).

    Returns:
        Powers, (N, L), W: the best local maximum found per channel.
    """
    return MultiStart(batch, prices, rounds=_SINGLE_SEARCH_ROUNDS).best(prices)


class Maximiser(Protocol):
    """Maximises the Lagrangians of a fixed set of channels at a sequence of prices."""

    def maximise(self, prices: Prices) -> Tensor:
        """Return the best powers found at these prices, (N, L), W."""


class MultiStart:
    """A maximiser that keeps the local maxima of several starting points between prices.

    Dual ascent needs the maximum at a sequence of similar prices. The local maxima at the last
    prices are good starting points for the next, and the second best of them may become the best.
    All are kept and improved.

    Args:
        batch: N channels.
        prices: the first prices.
        rounds: rounds of sweeps and Newton steps from each starting point.

    Attributes:
        maxima: the local maxima at the last prices, (N, L) W each.
    """

    def __init__(self, batch: ChannelBatch, prices: Prices, *, rounds: int = 2) -> None:
        self._batch = batch
        self.maxima = [
            improve(batch, prices, start, rounds=rounds) for start in starting_points(batch, prices)
        ]
        self._next_swept = 0

    def maximise(self, prices: Prices) -> Tensor:
        """Continue from all local maxima at new prices; return the best powers, (N, L), W.

        Sweeps renew the on/off decisions of the best maximum and, in turn, of one of the others.
        """
        self.maxima = [climb(self._batch, prices, maximum, steps=2) for maximum in self.maxima]
        self.maxima[0] = improve(self._batch, prices, self.best(prices))
        self._next_swept = self._next_swept % (len(self.maxima) - 1) + 1
        self.maxima[self._next_swept] = improve(self._batch, prices, self.maxima[self._next_swept])
        return self.best(prices)

    def restart(self, prices: Prices) -> None:
        """Search again from all starting points, and keep the best maximum so far."""
        self.maxima[0] = self.best(prices)
        self.maxima[1:] = [
            improve(self._batch, prices, start, rounds=_SINGLE_SEARCH_ROUNDS)
            for start in starting_points(self._batch, prices)[1:]
        ]

    def best(self, prices: Prices) -> Tensor:
        """Return the best of the stored maxima of each channel at these prices, (N, L), W."""
        best = self.maxima[0]
        value = self._batch.value(best, prices)
        for maximum in self.maxima[1:]:
            other = self._batch.value(maximum, prices)
            better = other > value
            best = torch.where(better[:, None], maximum, best)
            value = torch.where(better, other, value)
        return best


def starting_points(batch: ChannelBatch, prices: Prices) -> list[Tensor]:
    """Starting points of :func:`maximise`.

    They are equal received powers at three levels, full power, the single worker with the highest
    value at its best power, and the result of a search over on/off states from that worker.

    Args:
        batch: N channels.
        prices: prices of all quantities, (L,) or (N, L).

    Returns:
        Six tensors of powers, (N, L), W each.
    """
    weakest = (batch.pmax_w * batch.direct).min(-1, keepdim=True).values
    equal_power = weakest / batch.direct
    levels = [torch.minimum(equal_power * level, batch.pmax_w) for level in (1.0, 10.0, 0.1)]
    alone = _best_alone(batch, prices)
    full = batch.pmax_w.expand_as(batch.direct)
    return [*levels, full, alone, _on_off_search(batch, prices, alone > 0)]


def switched_from_each(batch: ChannelBatch, prices: Prices) -> list[Tensor]:
    """Search over on/off states from each worker transmitting alone.

    Args:
        batch: N channels.
        prices: prices of all quantities, (L,) or (N, L).

    Returns:
        L tensors of powers, (N, L), W each.
    """
    single_workers = torch.eye(len(batch.pmax_w), dtype=torch.bool, device=batch.pmax_w.device)
    return [
        _on_off_search(batch, prices, transmits.expand_as(batch.direct))
        for transmits in single_workers
    ]


def _on_off_search(batch: ChannelBatch, prices: Prices, transmits: Tensor) -> Tensor:
    """Local search over on/off states: switch one or two workers while the Lagrangian increases.

    A worker that is on transmits at Pmax or, if power has a price, at the best power without
    interference. Pairs are switched because mutually exclusive workers block single switches: the
    active worker prevents a better one from starting.
    """
    power = batch.pmax_w.expand_as(batch.direct)
    if prices.power_cost is not None:
        best = prices.rate / prices.power_cost - 1 / batch.direct
        power = torch.minimum(best.clamp_min(_MIN_RELATIVE_POWER * batch.pmax_w), power)
    workers = power.shape[-1]
    first, second = torch.triu_indices(workers, workers, device=power.device)
    switches = torch.zeros(len(first), workers, dtype=torch.bool, device=power.device)
    rows = torch.arange(len(first), device=power.device)
    switches[rows, first] = True
    switches[rows, second] = True
    value = batch.value(torch.where(transmits, power, 0.0), prices)
    for _ in range(workers):
        # Trials are the leading dimension, so that prices (N, L) broadcast over them.
        trials = torch.where(transmits ^ switches[:, None], power, 0.0)
        interference = link.interference_of_each(batch.cross, trials.transpose(0, 1))
        sinr = batch.direct * trials / interference.transpose(0, 1)
        best, chosen = batch.worker_values(sinr, trials, prices).sum(-1).max(0)
        better = best > value
        if not bool(better.any()):
            break
        transmits = torch.where(better[:, None], transmits ^ switches[chosen], transmits)
        value = torch.where(better, best, value)
    return torch.where(transmits, power, 0.0)


def _best_alone(batch: ChannelBatch, prices: Prices) -> Tensor:
    """Only the worker with the highest value without interference, at its best power, (N, L) W."""
    grid = _relative_grid(batch.direct)
    power = (batch.pmax_w * grid[:, None, None]).expand(-1, *batch.direct.shape)
    values, best = batch.worker_values(batch.direct * power, power, prices).max(0)
    worker = values.argmax(-1, keepdim=True)
    chosen = batch.pmax_w[worker] * grid[best.gather(1, worker)]
    return torch.zeros_like(batch.direct).scatter(1, worker, chosen)


def _relative_grid(like: Tensor) -> Tensor:
    """Candidate powers of a sweep relative to Pmax, 0 first."""
    exponents = -torch.arange(_GRID_DECADES * _POWERS_PER_DECADE + 1).to(like) / _POWERS_PER_DECADE
    return torch.cat((like.new_zeros(1), 10**exponents))


def improve(batch: ChannelBatch, prices: Prices, power: Tensor, *, rounds: int = 1) -> Tensor:
    """Alternate sweeps and Newton steps; the Lagrangian never decreases.

    Args:
        batch: N channels.
        prices: prices of all quantities, (L,) or (N, L).
        power: starting points, (N, L), W.
        rounds: number of alternations.

    Returns:
        Powers, (N, L), W.
    """
    for _ in range(rounds):
        power = sweep(batch, prices, power)
        power = climb(batch, prices, power, steps=4)
    return power


def sweep(batch: ChannelBatch, prices: Prices, power: Tensor) -> Tensor:
    """Give each worker in turn its best power on a grid, with the others fixed.

    Args:
        batch: N channels.
        prices: prices of all quantities, (L,) or (N, L).
        power: starting points, (N, L), W. The present power and silence are among the candidates.

    Returns:
        Powers, (N, L), W.
    """
    grid = _relative_grid(power)
    power = power.clone()
    # Updated incrementally: recomputing it per worker and candidate takes L more products with β.
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
    """Ascend the Lagrangian by Newton steps in log-power; silent workers stay silent.

    Args:
        batch: N channels.
        prices: prices of all quantities, (L,) or (N, L).
        power: starting points, (N, L), W.
        steps: maximum number of Newton steps.

    Returns:
        Powers, (N, L), W.
    """
    return newton_ascent(
        lambda p: batch.value(p, prices),
        lambda p: gradient_and_hessian(batch, p, prices),
        power,
        (batch.pmax_w * _MIN_RELATIVE_POWER).expand_as(power),
        batch.pmax_w.expand_as(power),
        steps=steps,
    )
