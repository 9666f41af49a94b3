"""Plots of a sweep: a measure against the values of an option."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feduplink.reporting.style import (
    MUTED,
    SILENT_STYLE,
    Look,
    StyledFigure,
    ask,
    feasibility_handles,
    figure,
    fitting_columns,
    looks_of,
    marker_style,
    objective_label,
    policy_title,
    set_objective_scale,
)

#: The axis is logarithmic if the largest value is at least this many times the smallest.
_DECADES = 20.0
#: Most values with a tick each.
_MAX_TICKS = 8


@dataclass(frozen=True)
class SweptPoint:
    """A measure of a policy at a value of the options, in its displayed unit.

    Attributes:
        mean: over the seeds; NaN if there is none.
        low: smallest value of a seed.
        high: largest value of a seed.
        feasible: whether the constraints hold; None if inconclusive.
        is_silent: whether no worker ever transmits.
    """

    mean: float
    low: float
    high: float
    feasible: bool | None = True
    is_silent: bool = False


@dataclass(frozen=True)
class SweptCurves:
    """A measure of all policies against the first option.

    Attributes:
        option: label of the first option, with its unit.
        values: of the first option; words if one is not a number.
        measure: label of the measure, with its unit.
        panels: points by policy, by the title of the panel.
        has_verdicts: whether the points have verdicts.
        is_objective: whether the measure is the objective, whose scale may be logarithmic in its
            distance to 1.
    """

    option: str
    values: Sequence[Any]
    measure: str
    panels: Mapping[str, Mapping[str, Sequence[SweptPoint]]]
    has_verdicts: bool = False
    is_objective: bool = False

    @property
    def points(self) -> list[SweptPoint]:
        """The points of all panels and policies."""
        return [p for panel in self.panels.values() for row in panel.values() for p in row]

    @property
    def question(self) -> str:
        """The question that the figure answers."""
        measure, option = (text.partition(",")[0] for text in (self.measure, self.option))
        if self.has_verdicts:
            return f"How does the {measure} change with {option}, and which policies are feasible?"
        return f"How does the {measure} change with {option}?"


def sweep_figure(curves: SweptCurves) -> StyledFigure:
    """Plot a line per policy against the first option, in a panel per value of the second."""
    policies = list(next(iter(curves.panels.values())))
    width = max(6.4, 3.6 * len(curves.panels))
    with figure(width, 4.6, f"{curves.measure} against {curves.option}") as drawing:
        ask(drawing, curves.question)
        row = drawing.subplots(1, len(curves.panels), squeeze=False, sharey=True)[0]
        for axes, (title, panel) in zip(row, curves.panels.items(), strict=True):
            _draw_panel(axes, curves.values, panel)
            axes.set_xlabel(curves.option)
            axes.set_title(title)
        row[0].set_ylabel(_label(row[0], curves))
        handles = row[0].get_legend_handles_labels()[0] if any(policies) else []
        handles += _explanations(curves)
        if handles:
            columns = fitting_columns((handle.get_label() for handle in handles), width)
            columns = min(columns, len(handles))
            drawing.legend(handles=handles, loc="outside lower center", ncols=columns)
    return drawing


def plot_sweep(curves: SweptCurves, axes: Any = None) -> Any:
    """Plot the figure and return its first axes; or the first panel into given axes."""
    if axes is None:
        return sweep_figure(curves).axes[0]
    _draw_panel(axes, curves.values, next(iter(curves.panels.values())))
    axes.set_xlabel(curves.option)
    axes.set_ylabel(_label(axes, curves))
    axes.legend()
    return axes


def _draw_panel(
    axes: Any, values: Sequence[Any], curves: Mapping[str, Sequence[SweptPoint]]
) -> None:
    places = _set_values(axes, values)
    for policy, look in looks_of(curves).items():
        _draw_line(axes, places, curves[policy], look)
        axes.plot([], [], label=policy_title(policy) or None, **marker_style(look))
        for place, point in zip(places, curves[policy], strict=True):
            if point.low < point.high:
                axes.plot([place, place], [point.low, point.high], color=look.colour)
            style = marker_style(look, point.feasible, 7)
            if point.is_silent:
                style |= SILENT_STYLE
            axes.plot(place, point.mean, zorder=3, clip_on=False, **style)


def _draw_line(
    axes: Any, places: Sequence[float], points: Sequence[SweptPoint], look: Look
) -> None:
    """Join neighbouring points; thin and dotted where one of them is infeasible."""
    for left in range(len(places) - 1):
        ends = points[left : left + 2]
        infeasible = any(end.feasible is False for end in ends)
        axes.plot(
            places[left : left + 2],
            [end.mean for end in ends],
            linestyle=":" if infeasible else look.line,
            linewidth=0.9 if infeasible else 1.4,
            color=look.colour,
        )


def _explanations(curves: SweptCurves) -> list[Any]:
    """Entries of the legend on markers and lines, as far as they occur."""
    from matplotlib.lines import Line2D

    points = curves.points
    handles = []
    if curves.has_verdicts:
        verdicts = [p.feasible for p in points if not p.is_silent]
        handles += feasibility_handles(verdicts, silent=len(verdicts) < len(points))
    if any(p.low < p.high for p in points):
        handles.append(Line2D([], [], color=MUTED, label="bar: range of the seeds"))
    return handles


def _set_values(axes: Any, values: Sequence[Any]) -> list[float]:
    """Return the positions of the values: numbers as they are, words one after the other."""
    if any(isinstance(value, str) for value in values):
        axes.set_xticks(range(len(values)), [str(value) for value in values])
        return [float(place) for place in range(len(values))]
    places = [float(value) for value in values]
    if min(places) > 0 and max(places) >= _DECADES * min(places):
        axes.set_xscale("log")
    if len(values) <= _MAX_TICKS:
        axes.set_xticks(places, [f"{value:.4g}" for value in places])
        axes.minorticks_off()
    return places


def _label(axes: Any, curves: SweptCurves) -> str:
    if not curves.is_objective or "," in curves.measure:
        return curves.measure
    known = [point.mean for point in curves.points if not math.isnan(point.mean)]
    return objective_label(set_objective_scale(axes, "y", known))
