"""What an experiment leaves in its directory: figure, table, claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from feduplink.experiments import Experiment, claims_from_csv
from feduplink.experiments.arrivals import Arrivals
from feduplink.experiments.claims import on_other_data
from feduplink.experiments.convergence import Convergence
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import Federations, image_set, substitution
from feduplink.experiments.gap_plot import plot_gap
from feduplink.experiments.noniid_plot import plot_noniid, plot_noniid_data
from feduplink.experiments.power_histogram import PowerHistogram
from feduplink.experiments.sweep_plot import plot_sweep
from feduplink.experiments.time_energy import SHOWN
from feduplink.progress import track
from feduplink.reporting.comparison import plot_power_histogram
from feduplink.reporting.federated import plot_arrivals, plot_averages, plot_costs
from feduplink.reporting.style import StyledFigure, save_figure
from feduplink.reporting.training import plot_convergences
from feduplink.scenario import Scenario
from feduplink.storage.files import write_text
from feduplink.storage.run_directory import Claim, write_metrics

#: Draws a result: (result, caption).
_Drawing = Callable[[Any, str], StyledFigure]


def _averages(result: Federations, caption: str) -> StyledFigure:
    return plot_averages(result.comparisons, caption)


def _costs(result: Federations, caption: str) -> StyledFigure:
    shown = {
        label: found.only(name for name in SHOWN if name in found.policies)
        for label, found in result.comparisons.items()
    }
    return plot_costs(shown, caption)


def _convergence(result: Convergence, caption: str) -> StyledFigure:
    references = {name: figures.objective for name, figures in result.others.items()}
    return plot_convergences(result.histories, references, Scenario(), caption)


def _arrivals(result: Arrivals, caption: str) -> StyledFigure:
    return plot_arrivals(result.arrivals, caption)


def _histogram(result: PowerHistogram, _caption: str) -> StyledFigure:
    powers = {
        name: torch.tensor(values).view(-1, result.workers)
        for name, values in result.powers.items()
    }
    return plot_power_histogram(powers, Scenario())


#: How the result of every experiment is drawn.
DRAWINGS: dict[str, _Drawing] = {
    "convergence": _convergence,
    "interference": plot_sweep,
    "pmax": plot_sweep,
    "network-size": plot_sweep,
    "csi-noise": plot_sweep,
    "power-histogram": _histogram,
    "arrivals": _arrivals,
    "airquality": _averages,
    "imdb": _averages,
    "mnist": _averages,
    "noniid-data": plot_noniid_data,
    "noniid": plot_noniid,
    "optimality-gap": plot_gap,
    "time-energy": _costs,
    "time-energy-airquality": _costs,
    "time-energy-imdb": _costs,
    "aggregation": _averages,
}


@track("writing tables and figures", transient=True)
def write_experiment(
    directory: Path,
    name: str,
    experiment: Experiment,
    result: Any,
    context: ExperimentContext,
    seconds: float,
) -> list[Claim]:
    """Draw ``NAME.png``, write ``NAME.csv`` and ``metrics.json``; returns the judged claims.

    These rest on the CSV file: its six digits, not those of the result. ``seconds`` is what the
    runs behind the result took, less what other figures had kept. Where other data stood in for
    the paper's, title and caption say so and claims stay undecided.
    """
    table = result.to_csv()
    claims = claims_from_csv(experiment, table)
    title, caption = experiment.TITLE, experiment.CAPTION
    other = substitution(context, experiment.DATA)
    if other:
        claims = [on_other_data(claim, other) for claim in claims]
        title, caption = f"{title} (not {experiment.DATA})", f"Data: {other}. {caption}"
    if context.scale.first_look:
        claims = [claim.model_copy(update={"first_look": True}) for claim in claims]
    save_figure(directory / f"{name}.png", DRAWINGS[name](result, caption))
    write_text(directory / f"{name}.csv", table)
    write_metrics(
        directory,
        {
            "title": title,
            "caption": caption,
            "claims": [claim.model_dump() for claim in claims],
            "data": image_set(context) if experiment.DATA == "mnist" else experiment.DATA,
            "substitution": other,
            "settings": {"scale": context.scale.name},
            "runs_s": round(seconds, 1),
            "seed": context.seed,
        },
    )
    return claims
