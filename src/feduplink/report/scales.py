"""Axes on which policies that are nearly alike are still apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from matplotlib.ticker import FixedLocator

#: Objectives nearer to 1 than this are drawn there.
_NEAREST = 1e-7
#: Candidates for ticks, those first that are wanted most.
_TICKS = (
    *(0.0, 0.9, 0.99, 0.999, 0.5, 0.8, 0.95, 0.98, 0.995, 0.998),
    *(0.2, 0.7, 0.6, 0.4, 0.3, 0.1, 0.85, 0.75, 0.97, 0.96, 0.93, 0.94, 0.92, 0.91),
)
#: Least distance of two ticks as a share of the axis.
_TICK_DISTANCE = 0.11


def set_objective_scale(
    axes: Any, which: Literal["x", "y"], values: Iterable[float], margin: float = 0.06
) -> bool:
    """An axis logarithmic in 1 − objective, labelled with the objective.

    It separates 0.9706 from 0.9761 as well as 0.2 from 0.35. For objectives in [0, 1) that differ,
    with at least one above 1/2; otherwise the axis is left alone. Returns whether it was set.
    """
    known = np.array([value for value in values if np.isfinite(value)])
    if not len(known) or known.min() < 0 or not 0.5 < known.max() < 1:
        return False
    low, high = _stretched(known.min()), _stretched(known.max())
    if not low < high:
        return False
    room = margin * (high - low)
    ends = (low - room, high + room)
    getattr(axes, f"set_{which}scale")("function", functions=(_stretched, _shrunk))
    getattr(axes, f"set_{which}lim")(*map(_shrunk, ends))
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(FixedLocator(_ticks(*ends)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(FixedLocator([]))
    return True


def objective_label(stretched: bool) -> str:
    """The label of an axis that :func:`set_objective_scale` did or did not set."""
    return "objective (log scale of 1 − objective)" if stretched else "objective (higher is better)"


def _stretched(objective: Any) -> Any:
    return -np.log10(np.maximum(1 - np.asarray(objective, float), _NEAREST))


def _shrunk(stretched: Any) -> Any:
    return 1 - 10 ** -np.asarray(stretched, float)


def _ticks(low: float, high: float) -> list[float]:
    """The most wanted objectives between two stretched ones that keep their distance."""
    taken: list[float] = []
    for tick in _TICKS:
        at = float(_stretched(tick))
        apart = all(abs(at - _stretched(t)) >= _TICK_DISTANCE * (high - low) for t in taken)
        if low <= at <= high and apart:
            taken.append(tick)
    return sorted(taken)
