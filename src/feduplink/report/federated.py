"""What a federated comparison leaves in its directory: arrivals, and error against cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from feduplink.federated.history import Cost, FederatedHistory, RunHistory
from feduplink.files import write_text
from feduplink.metrics import write_metrics
from feduplink.report.style import figure, look_of

_COST_LABELS: dict[Cost, str] = {
    "rounds": "rounds",
    "airtime_s": "upload time, s",
    "energy_j": "energy of all workers, J",
}
_COLUMNS = (
    "policy",
    "final\nerror",
    "arrivals\na round",
    "median\nround, s",
    "median\nround, J",
    "rounds to\ntarget",
    "seconds to\ntarget",
    "joules to\ntarget",
)
#: Points of a curve over seconds or joules, where every run has its own abscissae.
_GRID_POINTS = 200

_Values = np.ndarray[Any, np.dtype[np.float64]]


def write_federated(
    directory: Path, history: FederatedHistory, target: float, **further: Any
) -> None:
    """Write both plots, the table and ``metrics.json``; ``further`` are more entries of it."""
    plot_arrivals(directory / "arrivals.png", history)
    plot_error(directory / "error.png", history)
    write_text(directory / "federated.md", federated_markdown(history, target))
    write_metrics(
        directory,
        {
            "title": f"Federated learning of {history.task}",
            **further,
            "task": history.task,
            "metric": history.metric_name,
            "target_error": target,
            "policies": {
                name: {
                    **{
                        f"median_{cost}_to_target": history.median_cost_to(name, target, cost)
                        for cost in _COST_LABELS
                    },
                    **entry,
                }
                for name, entry in history.to_json().items()
            },
        },
    )


def federated_table(history: FederatedHistory, target: float) -> Table:
    """A row a policy: how well the model gets, and what that costs."""
    table = Table(
        title=_title(history, target),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column(_COLUMNS[0], overflow="fold")
    for column in _COLUMNS[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    for name in history.policies:
        table.add_row(*_row(history, name, target))
    return table


def federated_markdown(history: FederatedHistory, target: float) -> str:
    """The same table in Markdown."""
    lines = [_title(history, target), ""]
    lines.append("| " + " | ".join(column.replace("\n", " ") for column in _COLUMNS) + " |")
    lines.append("| --- |" + " ---: |" * (len(_COLUMNS) - 1))
    lines += ["| " + " | ".join(_row(history, name, target)) + " |" for name in history.policies]
    return "\n".join(lines) + "\n"


def plot_arrivals(path: Path, history: FederatedHistory) -> None:
    """A box a policy: uploads that arrived in a round, over all rounds and runs."""
    names = list(history.policies)
    values = [[count for run in history.policies[name] for count in run.arrivals] for name in names]
    caption = "Uploads that arrive in a round"
    with figure(path, 1.2 + 0.7 * len(names), 3.0, caption) as drawing:
        axes = drawing.subplots()
        boxes = axes.boxplot(
            values,
            tick_labels=names,
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


def plot_error(path: Path, history: FederatedHistory) -> None:
    """Error against rounds, seconds and joules: mean over the runs, shaded from best to worst."""
    caption = f"{history.metric_name.capitalize()} against rounds, seconds and joules"
    with figure(path, 10.5, 3.6, caption) as drawing:
        panels = drawing.subplots(1, 3, sharey=True)
        for axes, cost in zip(panels, _COST_LABELS, strict=True):
            for name, runs in history.policies.items():
                if (curves := _curves(runs, cost)) is None:
                    continue
                at, errors = curves
                colour = look_of(name).colour
                axes.plot(at, errors.mean(0), color=colour, label=name)
                if len(runs) > 1:
                    axes.fill_between(
                        at, errors.min(0), errors.max(0), color=colour, alpha=0.15, linewidth=0
                    )
            axes.set_xlabel(_COST_LABELS[cost])
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}")
            if cost == "rounds":
                axes.set_ylabel(history.metric_name)
            else:
                axes.set_xscale("log")
        # Below the panels, where no curve runs; the first one has every policy.
        handles, labels = panels[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _curves(runs: Sequence[RunHistory], cost: Cost) -> tuple[_Values, _Values] | None:
    """Abscissae (M,) and every run's error there, (runs, M); None where the cost is undefined.

    Between two rounds a run's error is that of the earlier one, and after its end that of its
    last. The curve begins when every run has finished its first round.
    """
    spent = [run.cumulative(cost) for run in runs]
    errors = [np.array(run.error) for run in runs]
    if cost == "rounds":
        return np.arange(1.0, len(errors[0]) + 1), np.stack(errors)
    known = [at for at in spent if at is not None]
    if len(known) < len(runs):
        return None
    start, end = max(at[0] for at in known), max(at[-1] for at in known)
    if not 0 < start < end:
        return None
    grid = np.geomspace(start, end, _GRID_POINTS)
    rows = [
        error[np.searchsorted(at, grid * (1 + 1e-12), side="right") - 1]
        for at, error in zip(known, errors, strict=True)
    ]
    return grid, np.stack(rows)


def _title(history: FederatedHistory, target: float) -> str:
    runs = next(iter(history.policies.values()))
    return (
        f"{history.task}, {len(runs)} runs of {len(runs[0].error)} rounds; "
        f"target: {history.metric_name} {target:.4g}"
    )


def _row(history: FederatedHistory, name: str, target: float) -> list[str]:
    arrivals = [count for run in history.policies[name] for count in run.arrivals]
    return [
        name,
        f"{history.final_error(name):.4f}",
        f"{np.mean(arrivals):.2f}",
        _figure(history.median_cost(name, "airtime_s")),
        _figure(history.median_cost(name, "energy_j")),
        *(_figure(history.median_cost_to(name, target, cost)) for cost in _COST_LABELS),
    ]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
