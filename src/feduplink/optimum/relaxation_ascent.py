"""The largest values of the concave relaxations of many boxes, by Newton's method.

The bound is good if it is linearised near there, and sound wherever it is. Value, slopes
and curvature come from one evaluation per step: a step that was too long is tried again shorter,
next time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.lagrangian.ascent import LONGEST_STEP, newton_step
from feduplink.optimum.relaxed_boxes import Linearised, RelaxedBoxes

#: The share of a step that is tried after one too long.
_SHORTER = 0.25
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
    """A step of ln p within the box, (M, L)."""
    down = (relaxed.t_low - at.log_power).clamp_min(-LONGEST_STEP)
    up = (relaxed.t_high - at.log_power).clamp_max(LONGEST_STEP)
    gradient = at.gradient
    stuck = ((up <= _AT_LIMIT) & (gradient > 0)) | ((down >= -_AT_LIMIT) & (gradient < 0))
    return newton_step(-hessian, gradient, relaxed.heard & ~stuck, down, up)
