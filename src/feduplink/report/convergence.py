"""How a training run went: constraints by worker and objective, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from torch import Tensor

from feduplink.experiments.convergence import Convergence
from feduplink.learning import Epoch, best_epoch
from feduplink.report.style import figure, look_of
from feduplink.scenario import Scenario

#: More workers than these get no entry in the legend.
_NAMED_WORKERS = 10

_THRESHOLD_STYLE: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2}


def plot_convergences(path: Path, result: Convergence, scenario: Scenario, caption: str) -> None:
    """Constraints of the first seed of ``pdg`` by worker, and the objective of all seeds."""
    with figure(path, 11, 4.0, caption) as drawing:
        rate, efficiency, objective = drawing.subplots(1, 3)
        history = result.histories["pdg"][0]
        _plot_constraints(rate, efficiency, history, scenario)
        for name, seeds in result.histories.items():
            colour = look_of(name).colour
            for number, epochs in enumerate(seeds):
                at = [epoch.number + 1 for epoch in epochs]
                values = [epoch.objective for epoch in epochs]
                label = name if number == 0 else None
                objective.plot(at, values, color=colour, linewidth=0.8, alpha=0.8, label=label)
                met = [(n, v) for n, v, e in zip(at, values, epochs, strict=True) if e.met]
                if met:
                    objective.scatter(*zip(*met, strict=True), s=5, color=colour)
        for name, figures in result.others.items():
            style = {"color": look_of(name).colour, "linestyle": "--"}
            objective.axhline(figures.objective, label=name, **style)
        objective.set_xlabel("epoch")
        objective.set_ylabel("objective; dots: all constraints met")
        handles, labels = rate.get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower left", ncols=5)
        handles, labels = objective.get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower right", ncols=4)


def plot_convergence(path: Path, history: list[Epoch], scenario: Scenario, policy: str) -> None:
    """Three panels: rate and energy efficiency by worker with thresholds, objective."""
    epochs = [epoch.number + 1 for epoch in history]
    caption = f"Training of {policy}: constraints by worker and objective, epoch by epoch"
    with figure(path, 11, 3.8, caption) as drawing:
        rate, efficiency, objective = drawing.subplots(1, 3)
        _plot_constraints(rate, efficiency, history, scenario)
        _plot_objective(objective, epochs, history, policy)
        objective.set_xlabel("epoch")
        handles, labels = rate.get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower center", ncols=_NAMED_WORKERS + 1)


def _plot_constraints(rate: Any, efficiency: Any, history: list[Epoch], scenario: Scenario) -> None:
    epochs = [epoch.number + 1 for epoch in history]
    rates = [epoch.worker_rate for epoch in history]
    efficiencies = [epoch.worker_energy_efficiency for epoch in history]
    _plot_constraint(rate, epochs, rates, scenario.rate_thresholds)
    rate.set_ylabel("mean rate on the air (nats/s/Hz)")
    _plot_constraint(efficiency, epochs, efficiencies, scenario.ee_thresholds)
    efficiency.set_ylabel("mean EE on the air (nats/s/Hz/W)")
    for axes in (rate, efficiency):
        axes.set_xlabel("epoch")


def _plot_constraint(
    axes: Any, epochs: Sequence[int], by_worker: Sequence[Sequence[float]], thresholds: Tensor
) -> None:
    values = np.asarray(by_worker, dtype=float)
    workers = values.shape[1]
    # The middle of the map: its ends vanish on dark and on white paper.
    colours = matplotlib.colormaps["plasma"](np.linspace(0.25, 0.85, workers))
    common = bool((thresholds == thresholds[0]).all())
    for worker in range(workers):
        label = f"worker {worker + 1}" if workers <= _NAMED_WORKERS else None
        axes.plot(epochs, values[:, worker], color=colours[worker], linewidth=1.0, label=label)
        if not common:
            axes.axhline(float(thresholds[worker]), color=colours[worker], **_THRESHOLD_STYLE)
    if common:
        axes.axhline(float(thresholds[0]), color="black", **_THRESHOLD_STYLE)
    axes.plot([], [], color="black", label="threshold", **_THRESHOLD_STYLE)


def _plot_objective(axes: Any, epochs: Sequence[int], history: list[Epoch], policy: str) -> None:
    objective = [epoch.objective for epoch in history]
    look = look_of(policy)
    axes.plot(epochs, objective, color=look.colour, label=policy)
    met = [(n, epoch.objective) for n, epoch in zip(epochs, history, strict=True) if epoch.met]
    if met:
        axes.scatter(*zip(*met, strict=True), s=9, color="#009E73", label="all constraints met")
    best = best_epoch(history)
    label = f"best epoch ({best.number + 1})"
    axes.scatter(
        best.number + 1,
        best.objective,
        s=90,
        marker="*",
        color="#D55E00",
        edgecolors="white",
        linewidths=0.6,
        zorder=4,
        label=label,
    )
    axes.set_ylabel("objective on validation channels")
    axes.legend(loc="best")
