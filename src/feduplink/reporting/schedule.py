"""Plots of schedules: the front between time and energy, and the timeline of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from feduplink.federated import UplinkRecord
from feduplink.link import Schedule
from feduplink.reporting.style import MUTED, SHADE, StyledFigure, figure, looks_of

#: Rounds by policy and price of energy κ, s/J.
Costs = Mapping[str, Mapping[float | None, UplinkRecord]]
#: Name of the schedule of the timeline; κ is written beside its points of the front.
_SCHEDULE = "schedule"
_LEGEND_COLUMNS = 6


def plot_front(costs: Costs, bounds: Mapping[float, float], caption: str = "") -> StyledFigure:
    """Plot the mean time and energy of a round: a point per policy and κ, joined by a line.

    Args:
        costs: rounds by name and κ.
        bounds: lower bound on mean time + κ · energy, in seconds, by κ; the excluded area is
            shaded.
        caption: alternative text of the figure.
    """
    with figure(6.4, 4.6, caption) as drawing:
        draw_front(drawing.subplots(), costs, bounds)
        drawing.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)
        return drawing


def draw_front(axes: Any, costs: Costs, bounds: Mapping[float, float]) -> None:
    """Plot the same into given axes, without a legend."""
    for name, look in looks_of(costs).items():
        rows = costs[name].values()
        times = [float(row.airtime_s.mean()) for row in rows]
        energies = [float(row.energy_j.mean()) for row in rows]
        axes.plot(times, energies, look.line, color=look.colour, marker=look.marker, label=name)
        if name == _SCHEDULE:
            for kappa, *place in zip(costs[name], times, energies, strict=True):
                axes.annotate(
                    f"κ = {kappa:g}",
                    place,
                    xytext=(5, 4),
                    textcoords="offset points",
                    fontsize=7,
                    color=MUTED,
                )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    if bounds:
        _shade_excluded(axes, bounds)
    axes.set_xlabel("mean time of a round, s")
    axes.set_ylabel("mean energy of a round, J")


def _shade_excluded(axes: Any, bounds: Mapping[float, float]) -> None:
    """Shade the area below any of the lines time + κ · energy = bound."""
    times = np.linspace(0, axes.get_xlim()[1], 400)
    highest = axes.get_ylim()[1]
    least = np.zeros_like(times)
    for kappa, bound in bounds.items():
        line = (bound - times) / kappa if kappa > 0 else np.where(times < bound, highest, 0.0)
        least = np.maximum(least, np.minimum(line, highest))
    axes.fill_between(times, least, color=SHADE, linewidth=0, label="nobody, proved", zorder=0)


def plot_timeline(schedule: Schedule, pmax_w: float, caption: str = "") -> StyledFigure:
    """Plot the powers of the workers over one round: phases (K,) and powers (K, L)."""
    durations, power = schedule.durations_s, schedule.power
    starts = durations.cumsum(0) - durations
    workers = power.shape[-1]
    with figure(6.4, 0.6 + 0.42 * workers, caption) as drawing:
        axes = drawing.subplots()
        look = looks_of([_SCHEDULE])[_SCHEDULE]
        for phase in torch.nonzero(durations > 0)[:, 0].tolist():
            start, length = float(starts[phase]), float(durations[phase])
            axes.axvline(start, color=MUTED, linewidth=0.4, zorder=0)
            for worker in torch.nonzero(power[phase] > 0)[:, 0].tolist():
                height = -0.85 * _shown(float(power[phase, worker]) / pmax_w)
                bottom = worker + 0.425
                axes.bar(start, height, length, bottom, align="edge", color=look.colour)
        axes.set_yticks(range(workers), [f"worker {worker}" for worker in range(workers)])
        axes.set_ylim(workers - 0.4, -0.6)
        axes.grid(visible=False)
        axes.set_xlim(0, float(durations.sum()))
        axes.set_xlabel("seconds; height: power, from a thousandth of the largest up, logarithmic")
        return drawing


def _shown(relative: float) -> float:
    """Height of a bar: 1 at Pmax, and 0.1 at a thousandth of Pmax and below."""
    return max(0.1, 1 + 0.3 * float(np.log10(relative)))
