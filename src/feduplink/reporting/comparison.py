"""A comparison of policies: its table, the plot of objective and constraints, transmit powers.

The table needs no matplotlib, which the functions that plot import.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from feduplink.judgement import TOLERANCE, ConstraintValue, Judgement, Verdict
from feduplink.optimum import OPTIMUM, Optimum
from feduplink.problem import measure_unit, objective_unit
from feduplink.scenario import Scenario
from feduplink.tables import TextTable
from feduplink.units import DisplayUnit, displayed_power, power_text, power_unit

if TYPE_CHECKING:
    from feduplink.link import AnyMeasure
    from feduplink.reporting.style import StyledFigure

_MARGIN_REMARK = (
    "margin: of the worst worker relative to its threshold, with a simultaneous 95 % confidence "
    "interval over workers and constraints; infeasible: the interval of a worker lies below -1 %; "
    "feasible: all lie above -1 %; otherwise inconclusive"
)
_GAP_REMARK = (
    "gap: optimality gap, reported only for policies that satisfy all constraints on the test "
    "channels"
)
#: Range of the axis of powers below Pmax, dB, its points, and those from marker to marker.
_POWER_RANGE_DB = 40.0
_POWER_POINTS = 401
_MARK_STEP = 80
#: Verdicts allow this violation, %.
_TOLERANCE = 100 * TOLERANCE
#: The axis of margins is linear up to this, %, and intervals end at the second.
_LINEAR_MARGIN, _MAX_MARGIN = 10.0, 1e4
#: Factor of the ends of the axis of margins.
_MARGIN_ROOM = 1.5
#: Smaller ratios to a threshold, as 0, are drawn here.
_MIN_RATIO = 0.01
#: Margin on both sides of the marks, as a share of their range: of objectives, and of ratios.
_MARGIN, _RATIO_MARGIN = 0.12, 0.2
#: Least factor between the marks and the ends of an axis of ratios.
_MIN_RATIO_FACTOR = 1.1
#: Ticks of an axis of ratios, the first of these of which two to five are on the axis.
_RATIO_TICKS: tuple[tuple[float, ...], ...] = (
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    (0.01, 0.1, 1, 10, 100, 1000, 10_000),
    (0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6),
    (0.01, 1, 100, 10_000, 1_000_000),
)
_MAX_RATIO_TICKS = 5
#: Share of Pmax from which on a worker transmits at Pmax.
_FULL = 0.99


def comparison_table(
    judgements: Mapping[str, Judgement],
    scenario: Scenario,
    optimum: Optimum | None = None,
    notes: Sequence[str] = (),
) -> TextTable:
    """Return the table of a comparison, one row per policy.

    Args:
        judgements: judgements by policy.
        scenario: scenario of all of them.
        optimum: optimum of the same channels; adds a row, and a column with the gap of each policy
            that satisfies the constraints on these channels.
        notes: on these policies and channels, without capitals and full stops.
    """
    rows = with_optimum(judgements, optimum)
    return TextTable(
        scenario_title(scenario),
        _columns(judgements, scenario, optimum),
        [_row(name, row, scenario, optimum) for name, row in rows.items()],
        _remarks(judgements, scenario, optimum),
        notes,
    )


def with_optimum(
    judgements: Mapping[str, Judgement], optimum: Optimum | None
) -> Mapping[str, Judgement]:
    """Return the judgements with that of the optimum, if there is one, at their end."""
    return {**judgements, OPTIMUM: optimum.solution.judgement} if optimum else judgements


def _remarks(
    judgements: Mapping[str, Judgement], scenario: Scenario, optimum: Optimum | None
) -> list[str]:
    """Explain the columns and the bound, a sentence each without its capital and full stop."""
    remarks = [*_means(judgements, scenario), _MARGIN_REMARK, *_verdict_channels(judgements)]
    if optimum is None:
        return remarks
    return [*remarks, _GAP_REMARK, _bound(optimum, objective_unit(scenario))]


def _verdict_channels(judgements: Mapping[str, Judgement]) -> list[str]:
    """The number of channels that the verdicts rest on, if some rest on more than the others."""
    names: dict[int, list[str]] = {}
    for name, judgement in judgements.items():
        names.setdefault(judgement.verdict_channels, []).append(name)
    if not any(judgement.test_shortfall is not None for judgement in judgements.values()):
        return []
    counts = "; ".join(f"{', '.join(rows)} {count:,}" for count, rows in sorted(names.items()))
    return [f"channels behind constraints, margin and verdict: {counts}"]


def _bound(optimum: Optimum, unit: DisplayUnit) -> str:
    """The proved bound and its gap, and why the proof ended."""
    if math.isfinite(optimum.gap):
        found = f"gap {unit.displayed(optimum.gap):.4f}"
    else:
        found = "none was found that lets every worker be heard"
    details = "; ".join(filter(None, [found, optimum.stopped]))
    return (
        "certified upper bound for any feasible policy with one power per worker and round on "
        f"these channels: {unit.text(optimum.upper_bound, '.4f')} ({details})"
    )


def _means(judgements: Mapping[str, Judgement], scenario: Scenario) -> list[str]:
    """Explain the columns of the constraints, a sentence for each kind of mean."""
    over = {True: "mean while it transmits", False: "mean over all rounds"}
    constraints = [reached.constraint for reached in _first(judgements)]
    sentences = []
    for on_air, mean in over.items():
        shown = [c.measure for c in constraints if c.measure.on_air_only is on_air]
        if shown:
            named = [_with_unit(measure, scenario) for measure in shown]
            *more, last = named
            listed = f"{', '.join(more)} and {last}" if more else last
            sentences.append(f"{listed}: the worst worker's {mean}")
    return sentences


def _with_unit(measure: AnyMeasure, scenario: Scenario) -> str:
    symbol = measure_unit(measure, scenario).symbol
    return f"{measure.label} ({symbol})" if symbol else measure.label


def _first(judgements: Mapping[str, Judgement]) -> list[ConstraintValue]:
    """The constraints of the first judgement; all have the same ones."""
    return list(next(iter(judgements.values())).constraints.values()) if judgements else []


def scenario_title(scenario: Scenario) -> str:
    """Workers, Pmax, interference and problem of a scenario on one line."""
    parts = [
        f"{scenario.workers} worker{'s' if scenario.workers > 1 else ''}",
        f"Pmax {power_text(scenario.pmax_dbw)}",
        f"interference x{scenario.interference:g}",
        f"objective {scenario.objective}",
    ]
    if scenario.utility != "weighted-sum":
        parts.append(f"utility {scenario.utility}")
    if scenario.csi_noise > 0:
        parts.append(f"CSI noise of variance {scenario.csi_noise:g}")
    return ", ".join(parts)


def _columns(
    judgements: Mapping[str, Judgement], scenario: Scenario, optimum: Optimum | None
) -> list[str]:
    return [
        "policy",
        objective_unit(scenario).label("objective", ",\n"),
        *(["gap"] if optimum else []),
        "PER",
        "active",
        *(_constraint_column(reached, scenario) for reached in _first(judgements)),
        "margin",
        "verdict",
    ]


def _row(name: str, judgement: Judgement, scenario: Scenario, optimum: Optimum | None) -> list[str]:
    below = optimum.below(judgement) if optimum else None
    unit = objective_unit(scenario)
    gap = math.nan if below is None else unit.displayed(below)
    is_optimum = name == OPTIMUM
    return [
        name,
        _number(unit.displayed(judgement.objective), ".4f"),
        *([_number(gap, ".4f")] if optimum else []),
        _percent(judgement.weighted_per, 2),
        _percent(judgement.participation, 1).replace("100.0", "100"),
        *(_worst(value, scenario) for value in judgement.constraints.values()),
        # The optimum satisfies the constraints on these very channels, without an error.
        _margin(judgement.margin, math.nan if is_optimum else judgement.margin_ci),
        _optimum_verdict(judgement) if is_optimum else str(judgement.verdict),
    ]


def _optimum_verdict(judgement: Judgement) -> str:
    return judgement.verdict if judgement.verdict is Verdict.SILENT else Verdict.FEASIBLE


def _constraint_column(value: ConstraintValue, scenario: Scenario) -> str:
    """The measure, its threshold and, in a last line, the unit."""
    constraint = value.constraint
    unit = measure_unit(constraint.measure, scenario)
    limits = [unit.displayed(limit) for limit in constraint.limit.tolist()]
    sign = "<=" if constraint.at_most else ">="
    return unit.label(f"{constraint.measure.label}\n{sign} {_threshold(limits)}", "\n")


def _worst(value: ConstraintValue, scenario: Scenario) -> str:
    """The worst worker's mean, with three significant digits of the largest limit.

    Rows then compare.
    """
    unit = measure_unit(value.constraint.measure, scenario)
    largest = unit.displayed(float(value.constraint.limit.abs().max()))
    digits = min(9, max(0, 2 - math.floor(math.log10(largest)))) if largest else 3
    return _number(unit.displayed(value.worst), f".{digits}{'f' if largest else 'g'}")


def _margin(margin: float, half_width: float) -> str:
    """The smallest margin and half the width of its confidence interval, if it has one.

    >>> _margin(0.0231, 0.0108), _margin(2.981, 0.193), _margin(0.0, 0.0)
    ('+2.3 ± 1.1 %', '+298 ± 19 %', '-')
    """
    if margin == 0 and half_width == 0:
        return "-"  # nothing is constrained
    digits = 1 if abs(margin) < 1 and not 0.1 <= half_width < math.inf else 0
    shown = f"{100 * margin:+z.{digits}f}"
    if math.isnan(half_width):
        return f"{shown} %"
    half = f"{100 * half_width:.{digits}f}" if math.isfinite(half_width) else "∞"
    return f"{shown} ± {half} %"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _percent(share: float, digits: int) -> str:
    if math.isnan(share):
        return "-"
    return f"{100 * share:.{digits}f} %"


def _threshold(limits: Sequence[float]) -> str:
    """Three digits, as of a measured mean; or the range over the workers."""
    low, high = min(limits), max(limits)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def plot_powers(powers: Mapping[str, Tensor], scenario: Scenario) -> StyledFigure:
    """Plot the cumulative distribution of the powers of all policies.

    A curve is the share of worker-rounds with at most this power. It begins at the share of silent
    worker-rounds and of powers more than 40 dB below Pmax, and the step at its end is the share at
    Pmax; the legend has the shares of silence and of Pmax.

    Args:
        powers: powers by policy, (N, L) in W.
        scenario: scenario of all of them, for Pmax.

    Returns:
        The figure, with powers in dBm.
    """
    from feduplink.reporting.style import ask, figure, looks_of, policy_title

    pmax_dbw = 10 * math.log10(float(scenario.max_power.max()))
    pmax = displayed_power(pmax_dbw)
    grid = np.linspace(pmax - _POWER_RANGE_DB, pmax, _POWER_POINTS)
    caption = f"Cumulative distribution of the transmit powers of each policy, {power_unit()}"
    with figure(7.2, 4.2, caption) as drawing:
        ask(drawing, "Which transmit powers does each policy use?")
        axes = drawing.subplots()
        for number, ((name, power), look) in enumerate(
            zip(powers.items(), looks_of(powers).values(), strict=True)
        ):
            watts = np.sort(np.asarray(power.double().flatten()))
            limits = 10 ** ((grid - pmax + pmax_dbw) / 10)
            # A float32 Pmax may exceed the exact one by its rounding.
            limits[-1] = np.inf
            shares = 100 * np.searchsorted(watts, limits, side="right") / len(watts)
            silent = 100 * np.mean(watts <= 0)
            full = 100 * np.mean(watts >= _FULL * 10 ** (pmax_dbw / 10))
            axes.plot(
                grid,
                shares,
                color=look.colour,
                linestyle=look.line,
                linewidth=1.6,
                marker=look.marker,
                markersize=5.5,
                markevery=(_MARK_STEP * (number % 5) // 5, _MARK_STEP),
                label=f"{policy_title(name)}: silent {silent:.3g} %, at Pmax {full:.3g} %",
            )
        axes.axvline(pmax, color="black", linestyle="--", linewidth=1.0)
        axes.annotate(
            f"Pmax = {pmax:.4g} {power_unit()}",
            (pmax, 0),
            xytext=(-4, 4),
            textcoords="offset points",
            rotation=90,
            va="bottom",
            ha="right",
            fontsize=8,
        )
        axes.set_ylim(-2, 102)
        axes.set_xlim(grid[0], pmax + 0.02 * _POWER_RANGE_DB)
        axes.yaxis.set_major_formatter("{x:g} %")
        axes.set_xlabel(f"transmit power, {power_unit()}")
        axes.set_ylabel("worker-rounds with at most this power")
        drawing.legend(
            loc="outside lower center",
            ncols=2,
            title=scenario_title(scenario),
            title_fontsize=8,
        )
    return drawing


def plot_comparison(
    judgements: Mapping[str, Judgement], scenario: Scenario, optimum: Optimum | None = None
) -> StyledFigure:
    """Plot objective, margin with its interval, and the worst worker's constraints.

    One row per policy, with participation and verdict at its right.

    Args:
        judgements: judgements by policy.
        scenario: scenario of all of them.
        optimum: optimum of the same channels; objectives that it proves unreachable are shaded.

    Returns:
        The figure; its first axes have the objectives.
    """
    from matplotlib.patches import Patch

    from feduplink.reporting.style import SHADE, ask, feasibility_handles, figure

    constraints = {value.constraint.name: value for value in _first(judgements)}
    rows = with_optimum(judgements, optimum)
    caption = "Objective, margin and worst constraints of every policy"
    width = 7.4 + 1.55 * len(constraints)
    with figure(width, 1.9 + 0.36 * len(rows), caption) as drawing:
        ask(drawing, "Which policies satisfy the constraints, and how good are they?")
        widths = (1.8, 1.5, *[0.8] * len(constraints))
        objective, margin, *others = drawing.subplots(
            1, len(widths), sharey=True, width_ratios=widths
        )
        plot_objectives(objective, judgements, scenario, optimum)
        _plot_margins(margin, rows)
        for axes, (name, value) in zip(others, constraints.items(), strict=True):
            ratios = [_worst_ratio(row.constraints[name]) for row in rows.values()]
            _plot_ratios(axes, rows, ratios, value)
        _write_verdicts((others or [margin])[-1], rows)
        verdicts = [_feasible(name, row) for name, row in rows.items() if not _is_silent(row)]
        handles = feasibility_handles(verdicts, silent=len(verdicts) < len(rows))
        if optimum is not None and math.isfinite(optimum.upper_bound):
            label = "certified: no feasible policy is here"
            handles.append(Patch(color=SHADE, label=label))
        drawing.legend(
            handles=handles,
            loc="outside lower center",
            ncols=len(handles),
            title=scenario_title(scenario),
            title_fontsize=8,
        )
    return drawing


def _plot_margins(axes: Any, rows: Mapping[str, Judgement]) -> None:
    """The margin of each policy with its confidence interval, in %."""
    from feduplink.reporting.style import MUTED, looks_of

    margins = [_percent_margin(name, row) for name, row in rows.items()]
    drawn = [m for m, _ in margins]
    axes.set_xscale("symlog", linthresh=_LINEAR_MARGIN, linscale=0.7)
    for place, (look, (value, half)) in enumerate(
        zip(looks_of(rows).values(), margins, strict=True)
    ):
        if math.isfinite(value) and half > 0:
            # An interval of a worker that transmits once is infinite.
            low, high = max(value - half, -_MAX_MARGIN), min(value + half, _MAX_MARGIN)
            axes.plot([low, high], [place, place], "|-", color=look.colour, markersize=6)
            drawn += [low, high]
    _mark(axes, rows, drawn[: len(rows)])
    known = [value for value in drawn if math.isfinite(value)]
    low, high = min([*known, -_LINEAR_MARGIN]), max([*known, _LINEAR_MARGIN])
    axes.set_xlim(_MARGIN_ROOM * low, _MARGIN_ROOM * high)
    ticks = [sign * 10.0**power for sign in (-1, 1) for power in range(1, 5)]
    axes.set_xticks([0, *(t for t in ticks if _MARGIN_ROOM * low < t < _MARGIN_ROOM * high)])
    axes.xaxis.set_minor_locator(_no_ticks())
    axes.xaxis.set_major_formatter("{x:g}")
    axes.tick_params(axis="x", labelsize=8)
    axes.axvline(-_TOLERANCE, color="black", linestyle="--", linewidth=1.0, zorder=1)
    axes.annotate(
        f"\N{MINUS SIGN}{_TOLERANCE:g}",
        (-_TOLERANCE, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="center",
        fontsize=7,
        color=MUTED,
    )
    axes.set_xlabel("margin of the worst worker, %\n(95 % confidence interval)")


def _percent_margin(name: str, row: Judgement) -> tuple[float, float]:
    """Margin and half the width of its interval, %; NaN for a silent policy.

    The optimum satisfies the constraints on these very channels, without an error.
    """
    if _is_silent(row):
        return math.nan, 0.0
    half = 0.0 if name == OPTIMUM or math.isnan(row.margin_ci) else row.margin_ci
    return 100 * row.margin, 100 * half


def _plot_ratios(
    axes: Any, rows: Mapping[str, Judgement], ratios: Sequence[float], value: ConstraintValue
) -> None:
    """The worst worker's mean of a measure over its limit, on a logarithmic axis."""
    axes.set_xscale("log")
    drawn = [
        math.nan if _is_silent(row) else max(ratio, _MIN_RATIO)
        for row, ratio in zip(rows.values(), ratios, strict=True)
    ]
    _mark(axes, rows, drawn)
    known = [1.0, *(ratio for ratio in drawn if math.isfinite(ratio))]
    factor = max((max(known) / min(known)) ** _RATIO_MARGIN, _MIN_RATIO_FACTOR)
    low, high = min(known) / factor, max(known) * factor
    axes.set_xlim(low, high)
    axes.set_xticks(_ratio_ticks(low, high))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(_no_ticks())
    axes.tick_params(axis="x", labelsize=8)
    axes.axvline(1.0, color="black", linestyle="--", linewidth=1.0, zorder=1)
    limit = "limit" if value.constraint.at_most else "threshold"
    axes.set_xlabel(f"worst worker's\n{value.constraint.measure.label} / {limit}")


def _ratio_ticks(low: float, high: float) -> list[float]:
    """At most five ticks between two ratios, 1 among them.

    >>> _ratio_ticks(0.3, 12), _ratio_ticks(0.004, 2), _ratio_ticks(0.9, 1.3)
    ([0.5, 1, 2, 5, 10], [0.01, 0.1, 1], [0.9, 1, 1.1, 1.2, 1.3])
    """
    for ticks in _RATIO_TICKS:
        within = [tick for tick in ticks if low <= tick <= high]
        if 2 <= len(within) <= _MAX_RATIO_TICKS:
            return within
    return [1.0]


def _write_verdicts(axes: Any, rows: Mapping[str, Judgement]) -> None:
    """Write verdict and participation of each policy to the right of axes."""
    for place, (name, row) in enumerate(rows.items()):
        verdict = _optimum_verdict(row) if name == OPTIMUM else row.verdict
        axes.annotate(
            f"{verdict}, {_percent(row.participation, 0)} active",
            (1.04, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
        )


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def plot_objectives(
    axes: Any,
    judgements: Mapping[str, Judgement],
    scenario: Scenario,
    optimum: Optimum | None = None,
) -> None:
    """Plot only the objectives, into given axes."""
    from feduplink.reporting.style import (
        SHADE,
        objective_label,
        policy_title,
        set_objective_scale,
    )

    rows = with_optimum(judgements, optimum)
    unit = objective_unit(scenario)
    values = [unit.displayed(row.objective) for row in rows.values()]
    labels = [
        f"{policy_title(name)}  {value:.4f}" for name, value in zip(rows, values, strict=True)
    ]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    if optimum is not None and math.isfinite(optimum.upper_bound):
        values.append(unit.displayed(optimum.upper_bound))
        axes.axvline(values[-1], color=SHADE)
    _mark(axes, rows, values[: len(rows)])
    label = objective_label(set_objective_scale(axes, "x", values, _MARGIN))
    axes.set_xlabel(unit.label("objective", ", ") if unit.symbol else label)
    if optimum is not None and math.isfinite(optimum.upper_bound):
        right = axes.get_xlim()[1]
        axes.axvspan(values[-1], right, color=SHADE, linewidth=0, zorder=0)
        axes.set_xlim(right=right)


def _feasible(name: str, row: Judgement) -> bool | None:
    """Whether the constraints hold; those of the optimum hold on these very channels."""
    return True if name == OPTIMUM else row.feasible


def _worst_ratio(value: ConstraintValue) -> float:
    """Return E_i / limit_i of the worker nearest to its limit, or farthest beyond it.

    NaN if no worker has a limit.
    """
    ratios = (value.expected / value.constraint.limit)[value.constraint.active]
    ratios = ratios[~ratios.isnan()]
    if len(ratios) == 0:
        return math.nan
    return float(ratios.max() if value.constraint.at_most else ratios.min())


def _is_silent(row: Judgement) -> bool:
    return row.verdict is Verdict.SILENT


def _mark(axes: Any, rows: Mapping[str, Judgement], values: Sequence[float]) -> None:
    from feduplink.reporting.style import SILENT_STYLE, looks_of, marker_style

    looks = looks_of(rows)
    for place, ((name, row), value) in enumerate(zip(rows.items(), values, strict=True)):
        style = marker_style(looks[name], _feasible(name, row), 8)
        axes.plot(value, place, zorder=3, **{**style, **(SILENT_STYLE if _is_silent(row) else {})})
    axes.margins(x=_MARGIN)
