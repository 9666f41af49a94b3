"""What a comparison of policies leaves in its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feduplink.optimum import Optimum
from feduplink.progress import track
from feduplink.reporting.comparison import (
    comparison_markdown,
    plot_comparison,
    plot_power_histogram,
)
from feduplink.reporting.style import save_figure
from feduplink.scenario import Scenario
from feduplink.storage.files import write_text
from feduplink.storage.run_directory import write_metrics
from feduplink.workflows.evaluation import Outcome
from feduplink.workflows.optimum_files import optimum_metrics


@track("writing tables and figures", transient=True)
def write_comparison(
    directory: Path,
    outcomes: Mapping[str, Outcome],
    scenario: Scenario,
    optimum: Optimum | None = None,
    *,
    notes: Sequence[str] = (),
    **further: Any,
) -> None:
    """Write the table, both plots and ``metrics.json``.

    ``notes`` stand under the table; ``further`` are more entries of ``metrics.json``.
    """
    judgements = {name: outcome.judgement for name, outcome in outcomes.items()}
    powers = {name: outcome.power for name, outcome in outcomes.items()}
    table = comparison_markdown(judgements, scenario, optimum, notes)
    write_text(directory / "comparison.md", table)
    save_figure(directory / "comparison.png", plot_comparison(judgements, optimum))
    save_figure(directory / "power-histogram.png", plot_power_histogram(powers, scenario))
    write_metrics(
        directory,
        {
            "title": "Policies compared",
            "scenario": scenario.model_dump(mode="json"),
            "policies": {name: outcome.as_metrics() for name, outcome in outcomes.items()},
            **(optimum_metrics(optimum, judgements) if optimum else {}),
            **further,
        },
    )
