"""Plots of a sweep: a measure against the values of an option."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from feduplink.reporting.style import (
    MUTED,
    StyledFigure,
    feasibility_note,
    figure,
    legend_columns,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)

#: The axis is logarithmic if the largest value is at least this many times the smallest.
_DECADES = 20.0


def sweep_figure(curves: Mapping[str, Any], measure: str) -> StyledFigure:
    """Plot a line per policy against the first option, in a panel per value of the second.

    Args:
        curves: ``options``, names of one or two; ``values`` of the first; ``panels``, each with a
            ``title`` and ``curves``, pairs of measure and verdict by policy; ``verdicts``, whether
            there are any.
        measure: name of the measure.

    """
    first, panels = curves["options"][0], curves["panels"]
    policies = list(panels[0]["curves"])
    with figure(max(5.5, 3.6 * len(panels)), 4.0, f"{measure} against {first}") as drawing:
        axes_of_panels = drawing.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, panel in zip(axes_of_panels, panels, strict=True):
            _draw_panel(axes, curves["values"], panel["curves"])
            axes.set_xlabel(first)
            axes.set_title(panel["title"])
        heights = [h for panel in panels for row in panel["curves"].values() for h, _ in row]
        axes_of_panels[0].set_ylabel(_label(axes_of_panels[0], heights, measure))
        if any(policies):
            columns = min(legend_columns(len(policies)), 4 * len(panels))
            handles, labels = axes_of_panels[0].get_legend_handles_labels()
            drawing.legend(handles, labels, loc="outside lower center", ncols=columns)
        if curves["verdicts"]:
            marks = [m for panel in panels for row in panel["curves"].values() for _, m in row]
            drawing.suptitle(feasibility_note(marks), fontsize=8, color=MUTED)
    return drawing


def plot_sweep(curves: Mapping[str, Any], measure: str, axes: Any = None) -> Any:
    """Plot the figure and return its first axes; or the first panel into given axes."""
    if axes is None:
        return sweep_figure(curves, measure).axes[0]
    panel = curves["panels"][0]["curves"]
    _draw_panel(axes, curves["values"], panel)
    axes.set_xlabel(curves["options"][0])
    axes.set_ylabel(_label(axes, [h for row in panel.values() for h, _ in row], measure))
    axes.legend()
    return axes


def _draw_panel(
    axes: Any, values: Sequence[Any], curves: Mapping[str, Sequence[tuple[float, bool | None]]]
) -> None:
    places = _set_values(axes, values)
    for policy, look in looks_of(curves).items():
        heights = [height for height, _ in curves[policy]]
        axes.plot(places, heights, look.line, color=look.colour, linewidth=1.0)
        axes.plot([], [], label=policy or None, **marker_style(look))
        for place, (height, feasible) in zip(places, curves[policy], strict=True):
            axes.plot(place, height, **marker_style(look, feasible))


def _set_values(axes: Any, values: Sequence[Any]) -> list[float]:
    """Return the positions of the values: numbers as they are, others one after the other."""
    try:
        places = [float(value) for value in values]
    except (TypeError, ValueError):
        axes.set_xticks(range(len(values)), [str(value) for value in values])
        return [float(place) for place in range(len(values))]
    if min(places) > 0 and max(places) >= _DECADES * min(places):
        axes.set_xscale("log")
    if len(values) <= 6:
        axes.set_xticks(places, [str(value) for value in values])
        axes.minorticks_off()
    return places


def _label(axes: Any, heights: Sequence[float], measure: str) -> str:
    if measure != "objective":
        return measure.replace("_", " ")
    known = [height for height in heights if not math.isnan(height)]
    return objective_label(set_objective_scale(axes, "y", known))
