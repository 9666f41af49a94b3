"""Plots of training histories: constraints by worker and objective, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from feduplink.problem import Constraint, Problem
from feduplink.reporting.style import (
    MUTED,
    Look,
    StyledFigure,
    figure,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)
from feduplink.scenario import Scenario
from feduplink.training import Epoch, NetworkEpoch, best_epoch

#: More workers than these have no legend.
_MAX_NAMED_WORKERS = 16
#: Workers take these colours (Okabe and Ito; Tol's wine for their yellow, which white paper
#: swallows) in turn, then again with the next line style.
_WORKER_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#882255",
    "#000000",
)
_WORKER_LINES = ("-", "--", ":", "-.")
#: The curves of workers are running medians over this share of the epochs.
_SMOOTHED = 0.02

_THRESHOLD_STYLE: dict[str, Any] = {"linestyle": (0, (5, 3)), "linewidth": 1.2}
_MET_STYLE: dict[str, Any] = {"linewidth": 1.6, "markersize": 2.5}
#: A legend to the right of its axes, where it hides no curve.
_BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}


def plot_convergences(
    histories: Mapping[str, list[list[Epoch]]],
    references: Mapping[str, float],
    scenario: Scenario,
    caption: str,
) -> StyledFigure:
    """Plot the constraints of the first seed of ``pdg`` by worker, and the objective of all seeds.

    Args:
        histories: the epochs of every seed, by policy.
        references: objectives of policies that are not trained, drawn as dashed lines.
        scenario: the thresholds.
        caption: alternative text of the figure.
    """
    looks = looks_of([*histories, *references])
    with figure(12, 4.0, caption) as drawing:
        problem = Problem.from_scenario(scenario)
        *others, objective = drawing.subplots(1, 1 + len(problem.constraints))
        _plot_constraints(others, histories["pdg"][0], problem)
        for name, seeds in histories.items():
            for number, epochs in enumerate(seeds):
                _plot_objective(objective, epochs, looks[name], None if number else name)
        for name, value in references.items():
            line = ":" if looks[name].variant else "--"
            objective.axhline(value, color=looks[name].colour, linestyle=line, label=name)
        shown = [*references.values()]
        shown += [e.objective for seeds in histories.values() for es in seeds for e in es]
        _finish_objective(objective, shown)
        objective.legend(**_BESIDE)
    return drawing


def plot_convergence(history: Sequence[Epoch], problem: Problem, policy: str) -> StyledFigure:
    """A panel for every constraint, by worker and with its limits, and one for the objective."""
    panels = 1 + len(problem.constraints)
    caption = f"Training of {policy}: constraints by worker and objective, epoch by epoch"
    with figure(4 * panels, 3.8, caption) as drawing:
        *others, objective = drawing.subplots(1, panels)
        _plot_constraints(others, history, problem)
        plot_objective(objective, history, policy)
    return drawing


def plot_objective(objective: Any, history: Sequence[Epoch], policy: str) -> None:
    """The objective by epoch in axes, with the best epoch marked."""
    look = looks_of([policy])[policy]
    _plot_objective(objective, history, look)
    best = best_epoch(history)
    style = {
        **marker_style(look, best.meets_constraints, 12),
        "marker": "*",
        "markeredgecolor": "black",
    }
    label = f"best: epoch {best.number + 1}, {best.objective:.4f}"
    objective.plot(best.number + 1, best.objective, label=label, zorder=4, **style)
    _finish_objective(objective, [epoch.objective for epoch in history])
    objective.legend(loc="best")


def plot_network_training(history: Sequence[NetworkEpoch], policy: str) -> StyledFigure:
    """Plot the training figures of a network without validation by step."""
    names = list(history[0].last)
    with figure(6 * len(names), 3.8, f"Training of {policy}: {', '.join(names)}") as drawing:
        for ax, name in zip(drawing.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            plot_training_figure(ax, history, policy, name)
    return drawing


def plot_training_figure(
    ax: Any, history: Sequence[NetworkEpoch], policy: str, name: str | None = None
) -> None:
    """Plot a training figure by step in axes, by default the first one."""
    name = name or next(iter(history[0].last))
    steps, values = [epoch.steps for epoch in history], [epoch.last[name] for epoch in history]
    ax.plot(steps, values, color=looks_of([policy])[policy].colour)
    ax.set_xlabel("step")
    ax.set_ylabel(name)


def _plot_constraints(panels: Sequence[Any], history: Sequence[Epoch], problem: Problem) -> None:
    epochs = [epoch.number + 1 for epoch in history]
    window = _window(len(epochs))
    smoothing = f" (running median of {window})" if window > 1 else ""
    for axes, constraint in zip(panels, problem.constraints, strict=True):
        values = [epoch.constraints[constraint.name] for epoch in history]
        _plot_constraint(axes, epochs, values, constraint, window)
        measure = constraint.measure
        where = " on the air" if measure.on_air_only else ""
        unit = f" ({measure.unit})" if measure.unit else ""
        axes.set_ylabel(f"mean {measure.label}{where}{unit}")
        axes.set_xlabel(f"epoch{smoothing}")


def _plot_constraint(
    axes: Any,
    epochs: Sequence[int],
    by_worker: Sequence[Sequence[float]],
    constraint: Constraint,
    window: int,
) -> None:
    limits = constraint.limit.tolist()
    common = len(set(limits)) == 1
    for worker, (values, limit) in enumerate(zip(np.transpose(by_worker), limits, strict=True)):
        turn, place = divmod(worker, len(_WORKER_COLOURS))
        colour, line = _WORKER_COLOURS[place], _WORKER_LINES[turn % len(_WORKER_LINES)]
        label = f"worker {worker + 1}" if len(limits) <= _MAX_NAMED_WORKERS else None
        smooth = _running_median(values, window)
        axes.plot(epochs, smooth, color=colour, linestyle=line, linewidth=1.0, label=label)
        if not common:
            axes.axhline(limit, color=colour, **_THRESHOLD_STYLE)
    if common:
        label = f"{'≤' if constraint.at_most else '≥'} {limits[0]:g}"
        axes.axhline(limits[0], color="black", label=label, **_THRESHOLD_STYLE)
    else:
        axes.set_title("dashed: thresholds of the workers", fontsize=8, color=MUTED)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**_BESIDE)


def _window(epochs: int) -> int:
    """Length of the window of the running median, an odd number of epochs."""
    return 2 * round(_SMOOTHED * epochs / 2) + 1


def _running_median(values: Any, window: int) -> Any:
    """Running median of the same length, with shorter windows at the ends; NaN is ignored."""
    padded = np.pad(values, window // 2, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, window)
    known = ~np.isnan(windows).all(1)
    medians = np.full(len(values), np.nan)
    medians[known] = np.nanmedian(windows[known], axis=1)
    return medians


def _plot_objective(
    axes: Any, epochs: Sequence[Epoch], look: Look, label: str | None = None
) -> None:
    """A thin line, thick where all constraints are met."""
    at = [epoch.number + 1 for epoch in epochs]
    values = np.array([epoch.objective for epoch in epochs])
    met = np.array([epoch.meets_constraints for epoch in epochs])
    axes.plot(at, values, color=look.colour, linewidth=0.5, alpha=0.7, label=label)
    # Dots show a lone epoch, which is not a line.
    axes.plot(at, np.where(met, values, np.nan), ".-", color=look.colour, **_MET_STYLE)


def _finish_objective(axes: Any, shown: Iterable[float]) -> None:
    axes.set_ylabel(objective_label(set_objective_scale(axes, "y", shown)))
    axes.set_xlabel("epoch")
    axes.plot([], [], ".-", color=MUTED, label="all constraints met", **_MET_STYLE)
