"""The zero duality gap, drawn: primal and dual value of every evaluation, and the bound."""

from __future__ import annotations

from typing import Any

from feduplink.optimum import Optimum
from feduplink.optimum.calibration import PRIMAL_TOLERANCE
from feduplink.reporting.style import StyledFigure, figure

_DUAL, _PRIMAL, _MET, _BOUND = "#D55E00", "#0072B2", "#009E73", "black"

#: Where a violation of zero is drawn on the logarithmic axis, %.
_NONE_PERCENT = 1e-3


def plot_duality(optimum: Optimum) -> StyledFigure:
    """Plot dual and primal value against evaluations of the dual function, and the violation."""
    steps = optimum.solution.steps
    count = range(1, len(steps) + 1)
    caption = "Primal and dual value meet; the violation of the constraints vanishes"
    with figure(9.6, 3.4, caption) as drawing:
        values, violation = drawing.subplots(1, 2, width_ratios=(1.6, 1))
        plot_values(values, optimum)
        tolerated = 100 * PRIMAL_TOLERANCE
        shown = [max(100 * step.violation, _NONE_PERCENT) for step in steps]
        violation.semilogy(count, shown, color=_PRIMAL)
        violation.axhline(
            tolerated,
            color=_BOUND,
            linestyle="--",
            linewidth=1.0,
            label=f"{tolerated:g} %: the rest is repaired",
        )
        violation.legend(loc="best")
        none = f" ({_NONE_PERCENT:g}: none)" if _NONE_PERCENT in shown else ""
        violation.set_ylabel(f"largest violation of a constraint, %{none}")
        violation.set_xlabel("evaluations of the dual function")
    return drawing


def plot_values(values: Any, optimum: Optimum) -> None:
    """Plot primal and dual value against evaluations, and the bound, into given axes."""
    steps = optimum.solution.steps
    count = range(1, len(steps) + 1)
    values.plot(count, [step.dual for step in steps], color=_DUAL, label="dual value")
    values.plot(
        count,
        [step.primal for step in steps],
        color=_PRIMAL,
        marker=".",
        markersize=4,
        label="primal value of the maximisers",
    )
    met = [(n, s.primal) for n, s in enumerate(steps, 1) if s.violation <= PRIMAL_TOLERANCE]
    if met:
        met_within = f"constraints met within {100 * PRIMAL_TOLERANCE:g} %"
        counts, primal = zip(*met, strict=True)
        values.scatter(counts, primal, s=26, color=_MET, zorder=3)
        values.scatter([], [], s=26, color=_MET, label=met_within)
    _draw_bound(values, optimum)
    values.set_xlabel("evaluations of the dual function")
    values.set_ylabel("objective")
    values.legend(loc="best")


def _draw_bound(axes: Any, optimum: Optimum) -> None:
    """Draw the certified bound, and limit the axis to the values that approach it."""
    axes.axhline(
        optimum.upper_bound, color=_BOUND, linestyle="--", linewidth=1.0, label="proved bound"
    )
    steps = optimum.solution.steps
    late = [step.primal for step in steps[len(steps) // 4 :]]
    # Proportional fairness is −∞ while a worker is never heard.
    around = [v for v in (optimum.upper_bound, optimum.objective, *late) if v > -1e9]
    room = 0.15 * max(max(around) - min(around), 1e-3)
    axes.set_ylim(min(around) - room, max(around) + room)
