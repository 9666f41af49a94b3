"""Plots of training histories: constraints and objective, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from feduplink.problem import Constraint, Problem
from feduplink.reporting.style import (
    MUTED,
    Look,
    StyledFigure,
    ask,
    figure,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)
from feduplink.scenario import Scenario
from feduplink.training import Epoch, NetworkEpoch, best_epoch
from feduplink.units import display_unit

#: The curves of constraints are running medians over this share of the epochs.
_SMOOTHED = 0.02

_THRESHOLD_STYLE: dict[str, Any] = {
    "color": "black",
    "linestyle": (0, (5, 3)),
    "linewidth": 1.2,
}
#: Of the worst worker, and of the band of all workers.
_WORST_STYLE: dict[str, Any] = {"linewidth": 1.4}
_BAND_STYLE: dict[str, Any] = {"alpha": 0.25, "linewidth": 0}
#: An axis of objectives with fewer ticks becomes linear.
_MIN_TICKS = 3
_MET_STYLE: dict[str, Any] = {"linewidth": 1.6, "markersize": 2.5}
#: A legend to the right of its axes, where it hides no curve.
_BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}


def plot_convergences(
    histories: Mapping[str, list[list[Epoch]]],
    references: Mapping[str, float],
    scenario: Scenario,
    caption: str,
) -> StyledFigure:
    """Plot the constraints of the first seed of ``pdg``, and the objective of all seeds.

    Args:
        histories: the epochs of every seed, by policy.
        references: objectives of policies that are not trained, drawn as dashed lines.
        scenario: the thresholds.
        caption: alternative text of the figure.
    """
    looks = looks_of([*histories, *references])
    with figure(12, 4.2, caption) as drawing:
        problem = Problem.from_scenario(scenario)
        ask(drawing, "Does training meet the constraints?")
        *others, objective = drawing.subplots(1, 1 + len(problem.constraints))
        _plot_constraints(others, histories["pdg"][0], problem, looks["pdg"], scenario.bandwidth_hz)
        for name, seeds in histories.items():
            for number, epochs in enumerate(seeds):
                _plot_objective(objective, epochs, looks[name], None if number else name)
        for name, value in references.items():
            line = ":" if looks[name].variant else "--"
            objective.axhline(value, color=looks[name].colour, linestyle=line, label=name)
        shown = [*references.values()]
        shown += [e.objective for seeds in histories.values() for es in seeds for e in es]
        met = any(e.meets_constraints for seeds in histories.values() for es in seeds for e in es)
        _finish_objective(objective, shown, met)
        objective.legend(**_BESIDE)
    return drawing


def plot_convergence(
    history: Sequence[Epoch], problem: Problem, policy: str, bandwidth_hz: float | None = None
) -> StyledFigure:
    """Plot the worst worker of every constraint with the band of all workers, and the objective.

    Args:
        history: the epochs, at least one.
        problem: the constraints.
        policy: name of the policy.
        bandwidth_hz: B, Hz, for energy efficiencies in Mbit/J.

    """
    panels = 1 + len(problem.constraints)
    caption = f"Training of {policy}: constraints and objective on validation channels, by epoch"
    with figure(3.5 * panels, 4.2, caption) as drawing:
        ask(drawing, "Does training meet the constraints?")
        *others, objective = drawing.subplots(1, panels)
        _plot_constraints(others, history, problem, looks_of([policy])[policy], bandwidth_hz)
        chosen = best_epoch(history).number + 1
        for axes in others:
            axes.axvline(chosen, color=MUTED, linewidth=0.8, linestyle=":", zorder=1)
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
    reason = "all constraints met" if best.meets_constraints else "least violation"
    label = f"chosen: epoch {best.number + 1}, objective {best.objective:.4f}\n({reason})"
    objective.plot(best.number + 1, best.objective, label=label, zorder=4, **style)
    met = any(epoch.meets_constraints for epoch in history)
    _finish_objective(objective, [epoch.objective for epoch in history], met)
    _legend_under(objective)


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


def _plot_constraints(
    panels: Sequence[Any],
    history: Sequence[Epoch],
    problem: Problem,
    look: Look,
    bandwidth_hz: float | None,
) -> None:
    epochs = [epoch.number + 1 for epoch in history]
    window = _window(len(epochs))
    smoothing = f" (running median of {window})" if window > 1 else ""
    for axes, constraint in zip(panels, problem.constraints, strict=True):
        values = np.array([epoch.constraints[constraint.name] for epoch in history])
        smooth = np.stack([_running_median(column, window) for column in values.T], axis=1)
        measure = constraint.measure
        unit = display_unit(measure.unit, bandwidth_hz)
        common = len(set(constraint.limit.tolist())) == 1
        # Thresholds that differ between workers are all at 1.
        scale = unit.factor if common else 1 / constraint.limit.numpy()
        _plot_constraint(axes, epochs, smooth * scale, constraint, look)
        limit = float(constraint.limit[0]) * unit.factor if common else 1.0
        sign = "≤" if constraint.at_most else "≥"
        axes.axhline(limit, label=f"threshold {sign} {limit:.3g}", **_THRESHOLD_STYLE)
        where = ", active" if measure.on_air_only else ""
        shown = unit.symbol if common else "relative to threshold"
        axes.set_ylabel(f"mean {measure.label}{where}{f' ({shown})' if shown else ''}")
        axes.set_xlabel(f"epoch{smoothing}")
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        _legend_under(axes)


def _plot_constraint(
    axes: Any, epochs: Sequence[int], by_worker: Any, constraint: Constraint, look: Look
) -> None:
    """The worker nearest to or furthest beyond its limit, and the band of all, (epochs, L)."""
    known = ~np.isnan(by_worker).all(1)
    low, high = (np.full(len(by_worker), np.nan) for _ in range(2))
    low[known], high[known] = np.nanmin(by_worker[known], 1), np.nanmax(by_worker[known], 1)
    worst, extreme = (high, np.nanargmax) if constraint.at_most else (low, np.nanargmin)
    label = "worst worker"
    if known.any():
        last = by_worker[np.flatnonzero(known)[-1]]
        label += f" (in the end: {int(extreme(last)) + 1})"
    marker = "." if len(epochs) == 1 else ""
    axes.plot(epochs, worst, marker=marker, color=look.colour, label=label, **_WORST_STYLE)
    axes.fill_between(epochs, low, high, color=look.colour, label="all workers", **_BAND_STYLE)


def _legend_under(axes: Any) -> None:
    """A legend below the axes, where it hides no curve."""
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16), borderaxespad=0.0)


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
    axes.plot(at, values, color=look.colour, linewidth=0.9, label=label)
    # Dots show a lone epoch, which is not a line.
    axes.plot(at, np.where(met, values, np.nan), ".-", color=look.colour, **_MET_STYLE)


def _finish_objective(axes: Any, shown: Iterable[float], met: bool) -> None:
    """Scale and labels; ``met``: whether any epoch meets all constraints."""
    values = list(shown)
    stretched = set_objective_scale(axes, "y", values)
    if stretched and len(axes.get_yticks()) < _MIN_TICKS:
        stretched = False
        axes.set_yscale("linear")
        axes.autoscale(axis="y")
    axes.set_ylabel(objective_label(stretched))
    axes.set_xlabel("epoch")
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    if met:
        axes.plot([], [], ".-", color=MUTED, label="all constraints met", **_MET_STYLE)
