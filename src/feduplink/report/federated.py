"""What a federated comparison leaves in its directory: arrivals, and error against cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from feduplink.federated.history import FINAL_ROUNDS, FederatedHistory
from feduplink.files import write_text
from feduplink.metrics import write_metrics
from feduplink.report.federated_plots import COST_LABELS, plot_arrivals, plot_costs
from feduplink.report.style import save_figure

_COLUMNS = (
    "policy",
    "final\nerror",
    "arrivals\nper round",
    "median\nround, s",
    "median\nround, J",
    "rounds\nto target",
    "seconds\nto target",
    "joules\nto target",
)


def write_federated(
    directory: Path,
    history: FederatedHistory,
    target: float,
    *,
    notes: Sequence[str] = (),
    **further: Any,
) -> None:
    """Write both plots, the table and ``metrics.json``.

    ``notes`` stand under the table; ``further`` are more entries of ``metrics.json``.
    """
    arrivals = {name: [run.arrivals for run in runs] for name, runs in history.policies.items()}
    save_figure(directory / "arrivals.png", plot_arrivals(arrivals))
    save_figure(directory / "error.png", plot_costs({history.task: history}))
    table = federated_markdown(history, target) + "".join(f"\n{note}.\n" for note in notes)
    write_text(directory / "federated.md", table)
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
                        for cost in COST_LABELS
                    },
                    **entry,
                }
                for name, entry in history.to_json().items()
            },
        },
    )


def federated_table(history: FederatedHistory, target: float) -> Table:
    """A row per policy: how well the model gets, and what that costs."""
    table = Table(
        title=_title(history, target),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,  # 80 columns hold it
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


def _title(history: FederatedHistory, target: float) -> str:
    runs = next(iter(history.policies.values()))
    return (
        f"{history.task}, {len(runs)} run{'s' if len(runs) > 1 else ''} of {len(runs[0].error)} "
        f"rounds; final error: mean of the last {min(FINAL_ROUNDS, len(runs[0].error))}; "
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
        *(_figure(history.median_cost_to(name, target, cost)) for cost in COST_LABELS),
    ]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
