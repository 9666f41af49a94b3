"""What a federated comparison leaves in its directory: arrivals, and error against cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feduplink.federated.history import FederatedHistory
from feduplink.progress import track
from feduplink.reporting.federated import COST_LABELS, plot_arrivals, plot_costs
from feduplink.reporting.style import save_figure
from feduplink.storage.files import write_text
from feduplink.storage.run_directory import write_metrics


@track("writing tables and figures", transient=True)
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
    table = history.table(target).markdown() + "".join(f"\n{note}.\n" for note in notes)
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
