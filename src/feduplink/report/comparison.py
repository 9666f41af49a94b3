"""Policies side by side: the objective, and how the constraints are met."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from feduplink.optimum import Optimum
from feduplink.problem import Judgement
from feduplink.report.style import MUTED, SHADE, figure, look_of
from feduplink.scenario import Scenario

#: The axes of the constraints end here: what matters happens at 1.
_RATIOS = (0.5, 1.5)


def plot_comparison(
    path: Path,
    judgements: Mapping[str, Judgement],
    scenario: Scenario,
    optimum: Optimum | None = None,
) -> None:
    """Objective, participation and worst constraints by policy; hollow marks: infeasible.

    With an ``optimum``, what it proves nobody can reach is shaded.
    """
    if optimum is not None:
        judgements = {**judgements, "optimum": optimum.solution.judgement}
    names = list(judgements)
    rows = list(judgements.values())
    caption = "Objective, participation and worst constraints of every policy"
    with figure(path, 9.6, 1.3 + 0.32 * len(names), caption) as drawing:
        panels = drawing.subplots(1, 4, sharey=True, width_ratios=(1.5, 1, 1, 1))
        objective, participation, rate, efficiency = panels
        objective.set_yticks(range(len(names)), names)
        objective.set_ylim(len(names) - 0.4, -0.6)
        _mark(objective, names, rows, [row.objective for row in rows])
        if optimum is not None:
            _shade_above(objective, optimum.upper_bound)
        objective.set_xlabel("objective (higher is better)")
        _mark(participation, names, rows, [row.participation for row in rows])
        participation.set_xlabel("participation")
        participation.set_xlim(-0.05, 1.08)
        rate_ratios = [_worst_ratio(row.worker_rate, scenario.rate_thresholds) for row in rows]
        _mark_ratios(rate, names, rows, rate_ratios)
        rate.set_xlabel("worst worker's\nrate / threshold")
        efficiency_ratios = [
            _worst_ratio(row.worker_energy_efficiency, scenario.ee_thresholds) for row in rows
        ]
        _mark_ratios(efficiency, names, rows, efficiency_ratios)
        efficiency.set_xlabel("worst worker's energy\nefficiency / threshold")
        shaded = "; grey: proved out of reach for those" if optimum is not None else ""
        drawing.suptitle(
            "filled marks: every worker meets both constraints (within 1 %)"
            f"{shaded}; hollow marks: not",
            fontsize=8,
            color=MUTED,
        )


def _shade_above(axes: Any, bound: float) -> None:
    """Shade what lies above the bound: proved out of reach."""
    low, high = axes.get_xlim()
    high = max(high, bound + 0.04 * (high - low))
    axes.axvspan(bound, high, color=SHADE, linewidth=0, zorder=0)
    axes.set_xlim(low, high)


def _worst_ratio(expected: Tensor, thresholds: Tensor) -> float:
    """Smallest E_i / threshold_i over the workers that transmit; NaN without any."""
    ratios = expected / thresholds
    ratios = ratios[~ratios.isnan()]
    return float(ratios.min()) if len(ratios) else math.nan


def _mark_ratios(axes: Any, names: list[str], rows: list[Judgement], ratios: list[float]) -> None:
    """Marks against the threshold at 1; a ratio off the axis is written beside its mark."""
    low, high = _RATIOS
    axes.axvline(1.0, color="black", linestyle="--", linewidth=1.0, zorder=1)
    _mark(axes, names, rows, [min(max(ratio, low), high) for ratio in ratios])
    for place, ratio in enumerate(ratios):
        if math.isfinite(ratio) and not low <= ratio <= high:
            inwards = -9 if ratio > high else 9
            axes.annotate(
                f"{ratio:.1f}",
                (high if ratio > high else low, place),
                xytext=(inwards, 0),
                textcoords="offset points",
                ha="right" if ratio > high else "left",
                va="center",
                fontsize=8,
            )
    axes.set_xlim(low - 0.08, high + 0.08)


def _mark(axes: Any, names: list[str], rows: list[Judgement], values: list[float]) -> None:
    for place, (name, row, value) in enumerate(zip(names, rows, values, strict=True)):
        look = look_of(name)
        axes.plot(
            value,
            place,
            marker=look.marker,
            markersize=8,
            color=look.colour,
            markerfacecolor=look.colour if row.feasible else "white",
            linestyle="none",
            zorder=3,
        )
    axes.margins(x=0.12)
