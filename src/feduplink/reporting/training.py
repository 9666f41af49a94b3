"""Plots of training histories: constraints by worker and objective, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from feduplink.problem import Constraint, Problem
from feduplink.reporting.style import (
    MUTED,
    LineEnd,
    Look,
    StyledFigure,
    figure,
    label_line_ends,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)
from feduplink.scenario import Scenario
from feduplink.training import Epoch, NetworkEpoch, best_epoch

#: More workers than these are not named.
_NAMED_WORKERS = 16
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
        ends = []
        for name, seeds in histories.items():
            for epochs in seeds:
                _plot_objective(objective, epochs, looks[name])
            last = seeds[0][-1]
            ends.append(LineEnd(last.number + 1, last.objective, name, looks[name].colour))
        last_epoch = max(end.x for end in ends)
        for name, value in references.items():
            objective.axhline(value, color=looks[name].colour, linestyle="--")
            end = LineEnd(last_epoch, value, name, looks[name].colour)
            ends.append(end)
        shown = [*references.values()]
        shown += [e.objective for seeds in histories.values() for es in seeds for e in es]
        _finish_objective(objective, shown)
        objective.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        label_line_ends(objective, ends)
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
    thresholds = constraint.limit
    values = np.asarray(by_worker, dtype=float)
    workers = values.shape[1]
    common = bool((thresholds == thresholds[0]).all())
    ends = []
    for worker in range(workers):
        turn, place = divmod(worker, len(_WORKER_COLOURS))
        colour, line = _WORKER_COLOURS[place], _WORKER_LINES[turn % len(_WORKER_LINES)]
        smooth = _running_median(values[:, worker], window)
        axes.plot(epochs, smooth, color=colour, linestyle=line, linewidth=1.0)
        ends.append(LineEnd(epochs[-1], float(smooth[-1]), str(worker + 1), colour))
        if not common:
            axes.axhline(float(thresholds[worker]), color=colour, **_THRESHOLD_STYLE)
    if common:
        axes.axhline(float(thresholds[0]), color="black", **_THRESHOLD_STYLE)
    if workers > _NAMED_WORKERS:
        ends = []
    notes = ["numbers: workers"] if ends else []
    notes.append("dashed: threshold" if common else "dashed: their thresholds")
    axes.set_ylim(*axes.get_ylim())
    if common:
        threshold = float(thresholds[0])
        right = axes.get_xlim()[1]
        ends.append(
            LineEnd(
                right, threshold, f"{'≤' if constraint.at_most else '≥'} {threshold:g}", "black"
            )
        )
    axes.set_title("; ".join(notes), fontsize=8, color=MUTED, loc="right")
    label_line_ends(axes, ends)


def _window(epochs: int) -> int:
    """An odd number of epochs."""
    return 2 * round(_SMOOTHED * epochs / 2) + 1


def _running_median(values: Any, window: int) -> Any:
    """Of the same length: at the ends the median of what there is. NaN counts as missing."""
    half = window // 2
    padded = np.pad(values, half, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, window)
    known = ~np.isnan(windows).all(1)
    medians = np.full(len(values), np.nan)
    medians[known] = np.nanmedian(windows[known], axis=1)
    return medians


def _plot_objective(axes: Any, epochs: Sequence[Epoch], look: Look) -> None:
    """A thin line; thick where all constraints are met."""
    at = [epoch.number + 1 for epoch in epochs]
    values = np.array([epoch.objective for epoch in epochs])
    met = np.array([epoch.meets_constraints for epoch in epochs])
    axes.plot(at, values, color=look.colour, linewidth=0.5, alpha=0.7)
    axes.plot(at, np.where(met, values, np.nan), color=look.colour, linewidth=1.6)
    # A lone epoch is no line.
    lone = np.flatnonzero(met & ~np.append(False, met[:-1]) & ~np.append(met[1:], False))
    if len(lone):
        axes.plot(np.array(at)[lone], values[lone], ".", color=look.colour, markersize=3)


def _finish_objective(axes: Any, shown: Iterable[float]) -> None:
    axes.set_ylabel(objective_label(set_objective_scale(axes, "y", shown)))
    axes.set_xlabel("epoch")
    axes.plot([], [], color=MUTED, linewidth=2.2, label="all constraints met")
    axes.plot([], [], color=MUTED, linewidth=0.5, label="not all")
