"""One figure of every policy against what was varied."""

from __future__ import annotations

from typing import Any

from feduplink.report.scales import objective_label, set_objective_scale
from feduplink.report.style import (
    MUTED,
    StyledFigure,
    feasibility_note,
    figure,
    legend_columns,
    looks_of,
    marker_style,
)
from feduplink.report.swept_figures import SweptFigures

#: Values that reach over this many times the smallest have a logarithmic axis.
_DECADES = 20.0


def plot_swept(swept: SweptFigures, name: str) -> StyledFigure:
    """A line per policy against the first option; a panel per value of the second."""
    first, *second = swept.options
    others = [(value,) for value in swept.values(1)] if second else [()]
    looks = looks_of(swept.policies)
    with figure(max(5.5, 3.6 * len(others)), 4.0, f"{name} against {first}") as drawing:
        panels = drawing.subplots(1, len(others), squeeze=False, sharey=True)[0]
        for axes, other in zip(panels, others, strict=True):
            places = _set_values(axes, swept.values(0))
            for policy, look in looks.items():
                heights = [swept.get(policy, (v, *other), name) for v in swept.values(0)]
                axes.plot(places, heights, look.line, color=look.colour, linewidth=1.0)
                axes.plot([], [], label=policy or None, **marker_style(look))
                for place, value, height in zip(places, swept.values(0), heights, strict=True):
                    met = swept.feasible(policy, (value, *other))
                    axes.plot(place, height, **marker_style(look, met))
            axes.set_xlabel(first)
            axes.set_title(", ".join(f"{second[0]} {value}" for value in other))
        panels[0].set_ylabel(_label(panels[0], swept, name))
        handles, labels = panels[0].get_legend_handles_labels()
        if labels:
            columns = min(legend_columns(len(labels)), 4 * len(others))
            drawing.legend(handles, labels, loc="outside lower center", ncols=columns)
        if "feasible" in swept.names:
            marks = [swept.feasible(row.policy, row.values) for row in swept.rows]
            drawing.suptitle(feasibility_note(marks), fontsize=8, color=MUTED)
    return drawing


def _set_values(axes: Any, values: list[str]) -> list[float]:
    """The places of the values on the axis: numbers as such, others one after the other."""
    try:
        places = [float(value) for value in values]
    except ValueError:
        axes.set_xticks(range(len(values)), values)
        return [float(place) for place in range(len(values))]
    if min(places) > 0 and max(places) >= _DECADES * min(places):
        axes.set_xscale("log")
    if len(values) <= 6:
        axes.set_xticks(places, values)
        axes.minorticks_off()
    return places


def _label(axes: Any, swept: SweptFigures, name: str) -> str:
    if name != "objective":
        return name.replace("_", " ")
    heights = [row.figures[name] for row in swept.rows if name in row.figures]
    return objective_label(set_objective_scale(axes, "y", heights))
