"""Newton ascent on a box, for many small problems at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

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
