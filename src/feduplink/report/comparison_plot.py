"""Policies side by side: the objective, and how the constraints are met."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from feduplink.comparison_table import OPTIMUM
from feduplink.judgement import Judgement, Reached
from feduplink.optimum import Optimum
from feduplink.report.scales import objective_label, set_objective_scale
from feduplink.report.style import (
    MUTED,
    SHADE,
    StyledFigure,
    feasibility_note,
    figure,
    looks_of,
    marker_style,
)

#: The axes of the constraints end here: what matters happens at 1.
_RATIOS = (0.5, 1.5)
#: On both sides of the objectives, as a share of their range.
_MARGIN = 0.12


def plot_comparison(
    judgements: Mapping[str, Judgement],
    optimum: Optimum | None = None,
) -> StyledFigure:
    """Objective, participation and worst constraints by policy, with the objectives' values.

    With an ``optimum``, what it proves nobody can reach is shaded.
    """
    if optimum is not None:
        judgements = {**judgements, OPTIMUM: optimum.solution.judgement}
    names = list(judgements)
    rows = list(judgements.values())
    caption = "Objective, participation and worst constraints of every policy"
    width = 6.2 + 2.15 * len(rows[0].reached)
    with figure(width, 1.5 + 0.32 * len(names), caption) as drawing:
        constraints = [reached.constraint for reached in rows[0].reached.values()]
        ratios = (1.9, 1, *[1] * len(constraints))
        panels = drawing.subplots(1, len(ratios), sharey=True, width_ratios=ratios)
        objective, participation, *others = panels
        objective.set_yticks(range(len(names)), names)
        objective.set_ylim(len(names) - 0.4, -0.6)
        _plot_objectives(objective, names, rows, optimum)
        _mark(participation, names, rows, [row.participation for row in rows])
        participation.set_xlabel("participation")
        participation.set_xlim(-0.05, 1.08)
        beyond = False
        for axes, constraint in zip(others, constraints, strict=True):
            shares = [_worst_ratio(row.reached[constraint.name]) for row in rows]
            beyond |= _mark_ratios(axes, names, rows, shares)
            limit = "limit" if constraint.at_most else "threshold"
            axes.set_xlabel(f"worst worker's\n{constraint.measure.label} / {limit}")
        notes = []
        if optimum is not None:
            notes.append("grey: proved out of reach for policies that meet the constraints")
        if beyond:
            notes.append("arrow: beyond the axis, at the ratio written")
        verdicts = [_feasible(name, row) for name, row in judgements.items()]
        lines = [feasibility_note(verdicts), "; ".join(notes)]
        drawing.suptitle("\n".join(filter(None, lines)), fontsize=8, color=MUTED)
    return drawing


def _feasible(name: str, row: Judgement) -> bool | None:
    """Whether the constraints are met; the optimum's are, on these channels, which it is of."""
    return True if name == OPTIMUM else row.feasible


def _plot_objectives(
    axes: Any, names: list[str], rows: list[Judgement], optimum: Optimum | None
) -> None:
    """Marks with their values; shaded what the optimum proves to be out of reach."""
    values = [row.objective for row in rows]
    bound = math.nan if optimum is None else optimum.upper_bound
    _mark(axes, names, rows, values)
    stretched = set_objective_scale(axes, "x", [*values, bound], _MARGIN)
    axes.set_xlabel(objective_label(stretched))
    if not stretched:
        known = [value for value in (*values, bound) if math.isfinite(value)]
        room = _MARGIN * (max(known) - min(known)) or _MARGIN
        axes.set_xlim(min(known) - room, max(known) + room)
    if optimum is not None:
        axes.axvspan(bound, axes.get_xlim()[1], color=SHADE, linewidth=0, zorder=0)
    to_share = axes.transData + axes.transAxes.inverted()
    for place, value in enumerate(values):
        right = to_share.transform((value, place))[0] < 0.5
        axes.annotate(
            f"{value:.4f}",
            (value, place),
            xytext=(8 if right else -8, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize=8,
        )


def _worst_ratio(reached: Reached) -> float:
    """E_i / limit_i of the worker that is nearest to its limit or farthest beyond it.

    NaN if no worker has a limit.
    """
    ratios = (reached.expected / reached.constraint.limit)[reached.constraint.active]
    ratios = ratios[~ratios.isnan()]
    if len(ratios) == 0:
        return math.nan
    return float(ratios.max() if reached.constraint.at_most else ratios.min())


def _mark_ratios(axes: Any, names: list[str], rows: list[Judgement], ratios: list[float]) -> bool:
    """Marks against the threshold at 1; returns whether a ratio is off the axis.

    Such a ratio is written beside its mark, with an arrow.
    """
    low, high = _RATIOS
    axes.axvline(1.0, color="black", linestyle="--", linewidth=1.0, zorder=1)
    _mark(axes, names, rows, [min(max(ratio, low), high) for ratio in ratios])
    beyond = False
    for place, ratio in enumerate(ratios):
        if math.isfinite(ratio) and not low <= ratio <= high:
            beyond = True
            above = ratio > high
            axes.annotate(
                f"{ratio:.1f} →" if above else f"← {ratio:.2f}",
                (high if above else low, place),
                xytext=(-8 if above else 8, 0),
                textcoords="offset points",
                ha="right" if above else "left",
                va="center",
                fontsize=8,
            )
    axes.set_xlim(low - 0.08, high + 0.08)
    return beyond


def _mark(axes: Any, names: list[str], rows: list[Judgement], values: list[float]) -> None:
    looks = looks_of(names)
    for place, (name, row, value) in enumerate(zip(names, rows, values, strict=True)):
        axes.plot(value, place, zorder=3, **marker_style(looks[name], _feasible(name, row), 8))
    axes.margins(x=0.12)
