"""Newton ascent on a box, for many small problems at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: Longest step in log-power, and the fractions of it that are tried.
_LONGEST_STEP = 2.0
_FRACTIONS = (1.0, 0.3, 0.05)
#: Sweeps of the coordinate ascent for steps that limits stop.
_SWEEPS = 6


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

    ``value`` gives (N,) and ``derivatives`` the gradient and Hessian in ln p. Workers at power 0
    stay there. The value never falls.
    """
    reached = value(power)
    on_air = power > 0
    identity = torch.eye(power.shape[-1], dtype=power.dtype, device=power.device)
    for _ in range(steps):
        gradient, hessian = derivatives(power)
        # At a limit, and pushing on: leave it there.
        stuck = ((power >= highest * (1 - 1e-12)) & (gradient > 0)) | (
            (power <= lowest * (1 + 1e-12)) & (gradient < 0)
        )
        free = on_air & ~stuck
        pair = free[..., :, None] & free[..., None, :]
        curvature = torch.where(pair, -hessian, identity)
        curvature, direction = _newton_direction(curvature, gradient * free)
        up = torch.where(free, (highest / power).log(), 0.0).clamp_max(_LONGEST_STEP)
        down = torch.where(free, (lowest / power).log(), 0.0).clamp_min(-_LONGEST_STEP)
        direction = torch.where(free, direction, 0.0)
        # A limit that stops one worker changes where the others should go.
        stopped = ((direction > up) | (direction < down)).any(-1)
        if bool(stopped.any()):
            direction[stopped] = _boxed_direction(
                curvature[stopped], gradient[stopped], down[stopped], up[stopped]
            )
        best, best_value = power, reached
        for fraction in _FRACTIONS:
            trial = torch.minimum(
                torch.maximum(power * (fraction * direction).exp(), lowest), highest
            )
            trial = torch.where(on_air, trial, 0.0)
            trial_value = value(trial)
            better = trial_value > best_value
            best = torch.where(better[:, None], trial, best)
            best_value = torch.where(better, trial_value, best_value)
        gained = float((best_value - reached).max()) if len(power) else 0.0
        power, reached = best, best_value
        if gained < 1e-10:
            break
    return power


def _newton_direction(curvature: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Solve C d = g; also returns C, (N, L, L), shifted to be positive definite where it is not."""
    factor, failed = torch.linalg.cholesky_ex(curvature)
    if bool(failed.any()):
        # Gershgorin: no eigenvalue lies under the smallest diagonal entry minus its row's rest.
        diagonal = curvature.diagonal(dim1=-2, dim2=-1)
        rest = curvature.abs().sum(-1) - diagonal.abs()
        lowest = (diagonal - rest).min(-1).values
        shift = torch.where(failed > 0, 1e-9 - 1.01 * lowest, 0.0)
        curvature = curvature + torch.diag_embed(shift[:, None].expand_as(diagonal))
        factor = torch.linalg.cholesky_ex(curvature).L
    return curvature, torch.cholesky_solve(gradient[..., None], factor)[..., 0]


def _boxed_direction(curvature: Tensor, gradient: Tensor, down: Tensor, up: Tensor) -> Tensor:
    """About the largest g·d − ½ dᵀ C d with down ≤ d ≤ up, one coordinate after the other."""
    direction = torch.zeros_like(gradient)
    rest = gradient.clone()  # g − C d
    for _ in range(_SWEEPS):
        for i in range(gradient.shape[-1]):
            best = direction[:, i] + rest[:, i] / curvature[:, i, i]
            moved = torch.minimum(torch.maximum(best, down[:, i]), up[:, i])
            rest = rest - curvature[:, :, i] * (moved - direction[:, i])[:, None]
            direction[:, i] = moved
    return direction
