"""Policies against one parameter of the cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from feduplink.experiments.sweep import Measure, Sweep
from feduplink.report.style import figure, look_of

_PANELS: dict[Measure, str] = {
    "weighted_per": "weighted PER of transmitting workers",
    "objective": "objective (higher is better)",
    "participation": "participation",
}


def plot_sweep(path: Path, sweep: Sweep, caption: str = "") -> None:
    """Weighted PER, objective and participation; shaded from the worst to the best seed."""
    with figure(path, 10.5, 4.0, caption) as drawing:
        panels = drawing.subplots(1, len(_PANELS))
        for axes, (measure, label) in zip(panels, _PANELS.items(), strict=True):
            for name in sweep.policies:
                _plot_policy(axes, sweep, name, measure)
            if sweep.logarithmic:
                axes.set_xscale("log")
            if len(sweep.values) <= 5:
                axes.set_xticks(sweep.values, [f"{value:g}" for value in sweep.values])
                axes.minorticks_off()
            axes.set_xlabel(sweep.parameter)
            axes.set_ylabel(label)
        panels[-1].set_ylim(-0.05, 1.05)
        panels[0].yaxis.set_major_formatter(lambda share, _place: f"{100 * share:g} %")
        handles, labels = panels[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _plot_policy(axes: Any, sweep: Sweep, name: str, measure: Measure) -> None:
    look = look_of(name)
    known = [place for place, seeds in enumerate(sweep.policies[name]) if seeds]
    at = [sweep.values[place] for place in known]
    seeds = [sweep.seeds(name, place, measure) for place in known]
    means = [float(np.mean(values)) for values in seeds]
    line = "--" if ":" in name or name == "optimum" else "-"
    axes.plot(at, means, line, color=look.colour)
    axes.fill_between(
        at,
        [min(values) for values in seeds],
        [max(values) for values in seeds],
        color=look.colour,
        alpha=0.15,
        linewidth=0,
    )
    # The legend's mark is filled; a hollow one says that a constraint is missed.
    axes.plot([], [], line, marker=look.marker, color=look.colour, label=name)
    for place, x, y in zip(known, at, means, strict=True):
        missed = sweep.missed(name, place)
        axes.plot(
            x,
            y,
            marker=look.marker,
            color=look.colour,
            markerfacecolor="white" if missed else look.colour,
        )
