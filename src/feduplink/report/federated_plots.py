"""Federated comparisons, drawn: arrivals, error against cost, averages side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from feduplink.federated.history import Cost, FederatedHistory, RunHistory
from feduplink.report.style import MUTED, figure, look_of

COST_LABELS: dict[Cost, str] = {
    "rounds": "rounds",
    "airtime_s": "upload time, s",
    "energy_j": "energy of all workers, J",
}
#: Points of a curve over seconds or joules, where every run has its own abscissae.
_GRID_POINTS = 200
#: The axis ends this far above the smallest error: a model that diverges has no place on it.
_MOST_DECADES = 1.5

#: Under this ratio of its ends a logarithmic axis has labels between the powers of ten too.
_FEW_DECADES = 100.0
#: The first policy of a kind, the second, ...
_LINES = ("-", "--", ":", "-.")

_Values = np.ndarray[Any, np.dtype[np.float64]]


def plot_arrivals(
    path: Path,
    arrivals: Mapping[str, Sequence[int]],
    caption: str = "Uploads that arrive in a round",
) -> None:
    """A box a policy: uploads that arrived in a round, over all rounds and runs."""
    names = list(arrivals)
    with figure(path, 1.2 + 0.75 * len(names), 3.0, caption) as drawing:
        axes = drawing.subplots()
        boxes = axes.boxplot(
            list(arrivals.values()),
            tick_labels=[name.replace(":", ":\n") for name in names],
            patch_artist=True,
            medianprops={"color": "black"},
            flierprops={"markersize": 3, "markeredgecolor": "#888888"},
        )
        for name, patch in zip(names, boxes["boxes"], strict=True):
            patch.set_facecolor(look_of(name).colour)
            patch.set_alpha(0.6)
        axes.set_ylabel("uploads that arrive, a round")
        axes.set_ylim(bottom=-0.2)
        axes.grid(axis="x", visible=False)


def plot_error(path: Path, history: FederatedHistory, caption: str = "") -> None:
    """Error against rounds, seconds and joules: mean over the runs, shaded from best to worst."""
    caption = caption or f"{history.metric_name.capitalize()} against rounds, seconds and joules"
    with figure(path, 10.5, 3.6, caption) as drawing:
        panels = drawing.subplots(1, 3, sharey=True)
        for axes, cost in zip(panels, COST_LABELS, strict=True):
            _plot_curves(axes, history, cost)
            if cost == "rounds":
                axes.set_ylabel(history.metric_name)
        _legend_below(drawing, panels[0])


def plot_averages(path: Path, comparisons: Mapping[str, FederatedHistory], caption: str) -> None:
    """A panel a comparison: error against rounds."""
    with figure(path, 9.6, 4.0, caption) as drawing:
        panels = drawing.subplots(1, len(comparisons), sharey=True, squeeze=False)[0]
        least = np.inf
        for axes, (label, history) in zip(panels, comparisons.items(), strict=True):
            least = min(least, _plot_curves(axes, history, "rounds"))
            axes.set_title(f"{label}, {history.task}")
        highest = least * 10**_MOST_DECADES
        if panels[0].get_ylim()[1] > highest:
            panels[0].set_ylim(0.8 * least, highest)
        panels[0].set_ylabel(history.metric_name)
        _legend_below(drawing, panels[0])


def _plot_curves(axes: Any, history: FederatedHistory, cost: Cost) -> float:
    """Draw all policies; returns the smallest error that has a place on a logarithmic axis."""
    least = np.inf
    colours: list[str] = []
    for name, runs in history.policies.items():
        if (curves := _curves(runs, cost)) is None:
            continue
        at, errors = curves
        least = min(least, float(np.min(errors[errors > 0], initial=np.inf)))
        colour = look_of(name).colour
        axes.plot(
            at,
            errors.mean(0),
            color=colour,
            linestyle=_LINES[colours.count(colour) % len(_LINES)],
            marker="o" if len(at) == 1 else None,
            label=name,
        )
        colours.append(colour)
        if len(runs) > 1:
            axes.fill_between(
                at, errors.min(0), errors.max(0), color=colour, alpha=0.15, linewidth=0
            )
    axes.set_xlabel(COST_LABELS[cost])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    # A few between the decades; all nine would run into each other.
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
    axes.yaxis.set_minor_formatter("{x:g}")
    if cost == "rounds":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    elif colours:
        _scale_costs(axes)
    else:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no curve", transform=axes.transAxes, ha="center", color=MUTED)
    return least


def _scale_costs(axes: Any) -> None:
    """A logarithmic axis whose labels keep clear of each other."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    if high < _FEW_DECADES * low:
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.xaxis.set_minor_formatter("{x:g}")
    else:
        axes.xaxis.set_minor_formatter(NullFormatter())


def _legend_below(drawing: Any, complete: Any) -> None:
    """Below the panels, where no curve runs; ``complete`` is a panel that has every policy."""
    handles, labels = complete.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _curves(runs: Sequence[RunHistory], cost: Cost) -> tuple[_Values, _Values] | None:
    """Abscissae (M,) and every run's error there, (runs, M); None where the cost is undefined.

    Between two rounds a run's error is that of the earlier one, and after its end that of its
    last. The curve begins when every run has finished a round that cost something.
    """
    spent = [run.cumulative(cost) for run in runs]
    errors = [np.array(run.error) for run in runs]
    if cost == "rounds":
        return np.arange(1.0, len(errors[0]) + 1), np.stack(errors)
    known = [at for at in spent if at is not None]
    if len(known) < len(runs):
        return None
    paid = [at[at > 0] for at in known]
    if not all(map(len, paid)):
        return None
    start, end = max(at[0] for at in paid), max(at[-1] for at in paid)
    if not start < end:
        return None
    grid = np.geomspace(start, end, _GRID_POINTS)
    rows = [
        error[np.searchsorted(at, grid * (1 + 1e-12), side="right") - 1]
        for at, error in zip(known, errors, strict=True)
    ]
    return grid, np.stack(rows)
