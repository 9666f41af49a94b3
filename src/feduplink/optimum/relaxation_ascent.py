"""The largest values of the concave relaxations of many boxes, by Newton's method.

The bound is good if it is linearised near there, and sound wherever it is. Value, slopes
and curvature come from one evaluation per step: a step that was too long is tried again shorter,
next time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.optimum.relaxed_boxes import Linearised, RelaxedBoxes

#: Longest step in log-power, and the share of a step that is tried after one too long.
_LONGEST_STEP = 2.0
_SHORTER = 0.25
#: Added to curvatures, absolutely and relatively: the relaxation is linear in some directions.
_RIDGE, _RELATIVE_RIDGE = 1e-9, 1e-7
#: Log-powers this close to a limit are at it.
_AT_LIMIT = 1e-12


def ascend(relaxed: RelaxedBoxes, guess: Tensor, steps: int) -> Linearised:
    """The linearisation at the highest point found in some steps from ``guess``, (M, L) W."""
    highest, hessian = relaxed.expand(relaxed.inside(guess))
    direction = _direction(relaxed, highest, hessian)
    for left in reversed(range(steps)):
        trial, hessian = relaxed.expand(relaxed.powers(highest.log_power + direction))
        better = trial.value > highest.value
        highest = highest.replaced_where(better, trial)
        if left:
            onwards = _direction(relaxed, trial, hessian)
            direction = torch.where(better[:, None], onwards, _SHORTER * direction)
    return highest


def _direction(relaxed: RelaxedBoxes, at: Linearised, hessian: Tensor) -> Tensor:
    """About the largest rise of the quadratic model within the box, a step of ln p, (M, L)."""
    down = (relaxed.t_low - at.log_power).clamp_min(-_LONGEST_STEP)
    up = (relaxed.t_high - at.log_power).clamp_max(_LONGEST_STEP)
    gradient = at.gradient
    stuck = ((up <= _AT_LIMIT) & (gradient > 0)) | ((down >= -_AT_LIMIT) & (gradient < 0))
    free = (relaxed.heard & ~stuck).to(gradient)
    curvature = -hessian
    step = _newton_step(curvature, gradient, free)
    clipped = torch.minimum(torch.maximum(step, down), up) * free
    # A limit that stops one worker changes where the others should go.
    stopped = (clipped != step) & (free > 0)
    rows = stopped.any(-1).nonzero()[:, 0]
    if len(rows) == 0:
        return clipped
    held = clipped[rows] * stopped[rows]
    curvature, down, up = curvature[rows], down[rows], up[rows]
    still_free = free[rows] * (~stopped[rows]).to(free)
    left = gradient[rows] - (curvature @ held[..., None])[..., 0]
    others = _newton_step(curvature, left, still_free)
    clipped[rows] = held + torch.minimum(torch.maximum(others, down), up) * still_free
    return clipped


def _newton_step(curvature: Tensor, gradient: Tensor, free: Tensor) -> Tensor:
    """Solve C d = g for the free coordinates (M, L), 0 elsewhere; C ≥ 0 but for rounding."""
    system = curvature * free[..., :, None] * free[..., None, :]
    diagonal = system.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(_RELATIVE_RIDGE * diagonal.abs() + (1 - free) + _RIDGE)
    factor, failed = torch.linalg.cholesky_ex(system)
    wanted = gradient * free
    step = torch.cholesky_solve(wanted[..., None], factor)[..., 0]
    # Uphill at least, where rounding has spoilt the factor.
    return torch.where((failed > 0)[:, None], _LONGEST_STEP * wanted.sign(), step)
