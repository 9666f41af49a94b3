"""Newton ascent on a box, for many small problems at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: Longest step in log-power, and the fractions of it that are tried.
_LONGEST_STEP = 2.0
_FRACTIONS = (1.0, 0.5, 0.2, 0.05, 0.01)


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
        direction = _newton_direction(torch.where(pair, -hessian, identity), gradient * free)
        direction = direction.clamp(-_LONGEST_STEP, _LONGEST_STEP) * free
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


def _newton_direction(negative_hessian: Tensor, gradient: Tensor) -> Tensor:
    """Solve (−H + shift) d = g, the shift zero where −H is positive definite; (N, L)."""
    factor, failed = torch.linalg.cholesky_ex(negative_hessian)
    if bool(failed.any()):
        # Gershgorin: no eigenvalue lies under the smallest diagonal entry minus its row's rest.
        diagonal = negative_hessian.diagonal(dim1=-2, dim2=-1)
        rest = negative_hessian.abs().sum(-1) - diagonal.abs()
        lowest = (diagonal - rest).min(-1).values
        shift = torch.where(failed > 0, 1e-9 - 1.01 * lowest, 0.0)
        shifted = negative_hessian + torch.diag_embed(shift[:, None].expand_as(diagonal))
        factor = torch.linalg.cholesky_ex(shifted).L
    return torch.cholesky_solve(gradient[..., None], factor)[..., 0]
