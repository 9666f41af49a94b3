"""Policies against one parameter of the cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.transforms import ScaledTranslation

from feduplink.experiments.cell_sweep import Quantity, Sweep
from feduplink.reporting.style import (
    MUTED,
    Look,
    StyledFigure,
    feasibility_note,
    figure,
    legend_columns,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)

_PANELS: dict[Quantity, str] = {
    "weighted_per": "weighted PER of transmitting workers",
    "objective": "",  # what it says depends on the scale
    "participation": "participation",
}
#: Width of a panel, points, about.
_PANEL = 205.0
#: Of the room between two values, for the marks of all policies; and the most for one, points.
_USED, _WIDEST = 0.6, 3.5


def plot_sweep(sweep: Sweep, caption: str = "") -> StyledFigure:
    """Weighted PER, objective and participation; bars from the worst to the best seed.

    At each value the policies' marks stand side by side, so that equal ones are all seen.
    """
    looks = looks_of(sweep.policies)
    apart = min(_WIDEST, _USED * _least_gap(sweep) * _PANEL / len(looks))
    with figure(10.5, 4.3, caption) as drawing:
        panels = drawing.subplots(1, len(_PANELS))
        for axes, (quantity, label) in zip(panels, _PANELS.items(), strict=True):
            for number, (name, look) in enumerate(looks.items()):
                shift = apart * (number - (len(looks) - 1) / 2)
                _plot_policy(axes, sweep, name, quantity, look, shift)
            if sweep.logarithmic:
                axes.set_xscale("log")
            if len(sweep.values) <= 5:
                axes.set_xticks(sweep.values, [f"{value:g}" for value in sweep.values])
                axes.minorticks_off()
            axes.set_xlabel(sweep.parameter)
            axes.set_ylabel(label)
            axes.margins(x=0.04 + apart * len(looks) / 2 / _PANEL)
            axes.autoscale_view()
        per, objective, participation = panels
        values = [v for name in looks for v in _all_seeds(sweep, name, "objective")]
        objective.set_ylabel(objective_label(set_objective_scale(objective, "y", values)))
        participation.set_ylim(-0.05, 1.05)
        per.yaxis.set_major_formatter(lambda share, _place: f"{100 * share:g} %")
        handles, labels = per.get_legend_handles_labels()
        drawing.legend(
            handles, labels, loc="outside lower center", ncols=legend_columns(len(labels))
        )
        drawing.suptitle(
            f"{_feasibility_of(sweep)}\nbars: from the worst to the best seed; marks of one value "
            "side by side",
            fontsize=8,
            color=MUTED,
        )
    return drawing


def _least_gap(sweep: Sweep) -> float:
    """Smallest distance of two values as a share of the axis."""
    places = np.log(sweep.values) if sweep.logarithmic else np.array(sweep.values)
    if len(places) < 2:
        return 1.0
    return float(np.diff(np.sort(places)).min() / np.ptp(places))


def _feasibility_of(sweep: Sweep) -> str:
    return feasibility_note(
        sweep.feasible(name, place)
        for name, by_value in sweep.policies.items()
        for place, seeds in enumerate(by_value)
        if seeds
    )


def _all_seeds(sweep: Sweep, name: str, quantity: Quantity) -> list[float]:
    return [v for place in range(len(sweep.values)) for v in sweep.seeds(name, place, quantity)]


def _plot_policy(
    axes: Any, sweep: Sweep, name: str, quantity: Quantity, look: Look, shift: float
) -> None:
    """``shift``: to the right, points."""
    known = [place for place, seeds in enumerate(sweep.policies[name]) if seeds]
    at = [sweep.values[place] for place in known]
    seeds = [sweep.seeds(name, place, quantity) for place in known]
    means = [float(np.mean(values)) for values in seeds]
    spans = [(x, value) for x, values in zip(at, seeds, strict=True) for value in values]
    if np.isfinite(np.array(spans)).any():
        # What is drawn beside its value does not scale the axes by itself.
        axes.update_datalim([pair for pair in spans if np.isfinite(pair[1])])
    beside = axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)
    axes.plot(at, means, look.line, color=look.colour, linewidth=1.0, transform=beside)
    axes.vlines(
        at,
        [min(values) for values in seeds],
        [max(values) for values in seeds],
        color=look.colour,
        linewidth=2.2,
        alpha=0.45,
        transform=beside,
    )
    # The legend's mark is filled, whatever the marks in the figure are.
    axes.plot([], [], label=name, **{**marker_style(look), "linestyle": look.line})
    for place, x, y in zip(known, at, means, strict=True):
        style = marker_style(look, sweep.feasible(name, place), 5.5)
        axes.plot(x, y, transform=beside, zorder=3, **style)
