"""Convergence of the search for the optimum: primal and dual value, bound and violation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from feduplink.optimum import DualStep, Optimum
from feduplink.optimum.calibration import PRIMAL_TOLERANCE
from feduplink.problem import objective_unit
from feduplink.reporting.comparison import scenario_title
from feduplink.reporting.style import MUTED, StyledFigure, ask, figure

_DUAL, _PRIMAL, _MET, _BOUND = "#D30100", "#006AAA", "#008E5C", "black"

#: The axis of violations ends here, %; smaller ones and none are drawn on it.
_LEAST_PERCENT = 1e-3
#: The axis of distances is linear up to this share of the largest one.
_LINEAR_SHARE = 1e-4
#: Smallest distance at which it is logarithmic.
_MIN_LINEAR = 1e-6
#: Margin above and below the values, as a share of their range.
_MARGIN = 0.08


def plot_duality(optimum: Optimum) -> StyledFigure:
    """Plot the distance of dual and primal values to the optimum found, and the violation.

    Args:
        optimum: with the evaluations of its dual function.

    Returns:
        The figure; its first axes have the values.
    """
    caption = "Primal and dual values by evaluation, the certified bound, and the violation"
    with figure(9.6, 4.4, caption) as drawing:
        ask(drawing, "Did the search converge, and how far is the certified bound?")
        values, violation = drawing.subplots(1, 2, width_ratios=(1.6, 1))
        plot_values(values, optimum, legend=False)
        _plot_violations(violation, optimum.solution.steps)
        drawing.legend(
            loc="outside lower center",
            ncols=2,
            title=scenario_title(optimum.scenario),
            title_fontsize=8,
        )
    return drawing


def plot_values(values: Any, optimum: Optimum, *, legend: bool = True) -> None:
    """Plot values less the objective of the optimum found against evaluations, into given axes.

    The dual values are those of the search, which finds the inner maximum without a proof: the
    certified bound, which proves it, lies above the smallest of them.
    """
    steps = optimum.solution.steps
    unit = objective_unit(optimum.scenario)
    dual = [_finite(unit.factor * (step.dual - optimum.objective)) for step in steps]
    primal = [_finite(unit.factor * (step.primal - optimum.objective)) for step in steps]
    count = range(1, len(steps) + 1)
    values.plot(count, dual, color=_DUAL, label="dual value (inner maximum searched, not proved)")
    style = {"color": _PRIMAL, "markersize": 4.5, "linestyle": "none"}
    values.plot(count, primal, color=_PRIMAL, linewidth=0.7)
    values.plot(
        count,
        primal,
        "o",
        markerfacecolor="white",
        label="primal value of its maximisers, constraints violated",
        **style,
    )
    met = [n for n, step in enumerate(steps) if step.violation <= PRIMAL_TOLERANCE]
    values.plot(
        [n + 1 for n in met],
        [primal[n] for n in met],
        "o",
        label=f"the same, feasible within {100 * PRIMAL_TOLERANCE:g} %",
        **{**style, "color": _MET},
    )
    if math.isfinite(optimum.gap):
        gap = unit.factor * optimum.gap
        label = f"certified upper bound, {unit.text(optimum.gap, '.2g')} above the optimum found"
        values.axhline(gap, color=_BOUND, linestyle="--", linewidth=1.0, label=label)
    values.axhline(0.0, color=MUTED, linewidth=0.8)
    largest = max((abs(value) for value in (*dual, *primal) if math.isfinite(value)), default=1.0)
    values.set_yscale("symlog", linthresh=max(_LINEAR_SHARE * largest, _MIN_LINEAR))
    values.margins(y=_MARGIN)
    values.locator_params(axis="x", integer=True)
    values.set_xlabel("evaluations of the dual function")
    values.set_ylabel(unit.label("value − objective of the optimum", ", "))
    if legend:
        values.legend(loc="best")


def _plot_violations(axes: Any, steps: Sequence[DualStep]) -> None:
    """The largest violation of a constraint at each evaluation, %."""
    count = range(1, len(steps) + 1)
    shown = [max(100 * step.violation, _LEAST_PERCENT) for step in steps]
    tolerated = 100 * PRIMAL_TOLERANCE
    axes.semilogy(count, shown, color=_PRIMAL, linewidth=0.7)
    axes.semilogy(
        count, shown, "o", color=_PRIMAL, markerfacecolor="white", markersize=4.5, clip_on=False
    )
    met = [n for n, step in enumerate(steps) if step.violation <= PRIMAL_TOLERANCE]
    axes.semilogy(
        [n + 1 for n in met],
        [shown[n] for n in met],
        "o",
        color=_MET,
        markersize=4.5,
        clip_on=False,
    )
    label = f"tolerance {tolerated:g} %: a smaller violation is removed by repair"
    axes.axhline(tolerated, color=_BOUND, linestyle=":", linewidth=1.0, label=label)
    axes.set_ylim(bottom=_LEAST_PERCENT)
    none = any(100 * step.violation <= _LEAST_PERCENT for step in steps)
    axes.set_ylabel("largest violation of a constraint, %" + none * "\n(on the axis: none)")
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("evaluations of the dual function")


def _finite(value: float) -> float:
    """NaN, which is not drawn, for an infinite value: of a worker that is never heard."""
    return value if math.isfinite(value) else math.nan
