"""A comparison of policies: its table, the plot of objective and constraints, transmit powers.

The table needs no matplotlib, which the functions that plot import.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from feduplink.judgement import ConstraintValue, Judgement, Verdict
from feduplink.optimum import OPTIMUM, Optimum
from feduplink.scenario import Scenario
from feduplink.tables import TextTable

if TYPE_CHECKING:
    from feduplink.reporting.style import Look, StyledFigure

_MARGIN_REMARK = (
    "margin: of the worst worker relative to its threshold, with a simultaneous 95 % confidence "
    "interval over workers and constraints; infeasible: the interval of a worker lies below -1 %; "
    "feasible: all lie above -1 %; otherwise inconclusive"
)
_GAP_REMARK = (
    "gap: optimality gap, reported only for policies that satisfy all constraints on the test "
    "channels"
)
#: Bins of the linear axis, from 0 to Pmax, and of the axis in dB, down from Pmax.
_LINEAR_BINS = 40
_DECIBEL_BINS = 40
#: A bar is cut off at this multiple of the second highest.
_CUT = 1.6
#: Smaller ratios to a threshold, as 0, are drawn here.
_MIN_RATIO = 0.01
#: Margin on both sides of the marks, as a share of their range.
_MARGIN = 0.12
#: Share of Pmax from which on a worker transmits at Pmax.
_FULL = 0.99

_Powers = np.ndarray[Any, np.dtype[np.float64]]


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
        _title(scenario),
        _columns(judgements, optimum),
        [_row(name, row, optimum) for name, row in rows.items()],
        _remarks(judgements, optimum),
        notes,
    )


def with_optimum(
    judgements: Mapping[str, Judgement], optimum: Optimum | None
) -> Mapping[str, Judgement]:
    """Return the judgements with that of the optimum, if there is one, at their end."""
    return {**judgements, OPTIMUM: optimum.solution.judgement} if optimum else judgements


def _remarks(judgements: Mapping[str, Judgement], optimum: Optimum | None) -> list[str]:
    """Explain the columns and the bound, a sentence each without its capital and full stop."""
    remarks = [*_units(judgements), _MARGIN_REMARK, *_verdict_channels(judgements)]
    if optimum is None:
        return remarks
    return [*remarks, _GAP_REMARK, _bound(optimum)]


def _verdict_channels(judgements: Mapping[str, Judgement]) -> list[str]:
    """The number of channels that the verdicts rest on, if some rest on more than the others."""
    names: dict[int, list[str]] = {}
    for name, judgement in judgements.items():
        names.setdefault(judgement.verdict_channels, []).append(name)
    if not any(judgement.test_shortfall is not None for judgement in judgements.values()):
        return []
    counts = "; ".join(f"{', '.join(rows)} {count:,}" for count, rows in sorted(names.items()))
    return [f"channels behind constraints, margin and verdict: {counts}"]


def _bound(optimum: Optimum) -> str:
    """The proved bound and its gap, and why the proof ended."""
    if math.isfinite(optimum.gap):
        found = f"gap {optimum.gap:.4f}"
    else:
        found = "none was found that lets every worker be heard"
    details = "; ".join(filter(None, [found, optimum.stopped]))
    return (
        "certified upper bound for any feasible policy with one power per worker and round on "
        f"these channels: {optimum.upper_bound:.4f} ({details})"
    )


def _units(judgements: Mapping[str, Judgement]) -> list[str]:
    """Explain the columns of the constraints, a sentence for each kind of mean."""
    over = {True: "mean while it transmits", False: "mean over all rounds"}
    constraints = [reached.constraint for reached in _first(judgements)]
    sentences = []
    for on_air, mean in over.items():
        shown = [c.measure for c in constraints if c.measure.on_air_only is on_air]
        if shown:
            named = [f"{m.label} ({m.unit})" if m.unit else m.label for m in shown]
            *more, last = named
            listed = f"{', '.join(more)} and {last}" if more else last
            sentences.append(f"{listed}: the worst worker's {mean}")
    return sentences


def _first(judgements: Mapping[str, Judgement]) -> list[ConstraintValue]:
    """The constraints of the first judgement; all have the same ones."""
    return list(next(iter(judgements.values())).constraints.values()) if judgements else []


def _title(scenario: Scenario) -> str:
    parts = [
        f"{scenario.workers} worker{'s' if scenario.workers > 1 else ''}",
        f"Pmax {_threshold(scenario.pmax_dbw)} dBW",
        f"interference x{scenario.interference:g}",
        f"objective {scenario.objective}",
    ]
    if scenario.utility != "weighted-sum":
        parts.append(f"utility {scenario.utility}")
    if scenario.csi_noise > 0:
        parts.append(f"CSI noise of variance {scenario.csi_noise:g}")
    return ", ".join(parts)


def _columns(judgements: Mapping[str, Judgement], optimum: Optimum | None) -> list[str]:
    return [
        "policy",
        "objective",
        *(["gap"] if optimum else []),
        "PER",
        "active",
        *(_constraint_column(reached) for reached in _first(judgements)),
        "margin",
        "verdict",
    ]


def _row(name: str, judgement: Judgement, optimum: Optimum | None) -> list[str]:
    below = optimum.below(judgement) if optimum else None
    is_optimum = name == OPTIMUM
    return [
        name,
        _number(judgement.objective, ".4f"),
        *([_number(math.nan if below is None else below, ".4f")] if optimum else []),
        _percent(judgement.weighted_per, 2),
        _percent(judgement.participation, 1).replace("100.0", "100"),
        *(_number(value.worst, _form(value)) for value in judgement.constraints.values()),
        # The optimum satisfies the constraints on these very channels, without an error.
        _margin(judgement.margin, math.nan if is_optimum else judgement.margin_ci),
        _optimum_verdict(judgement) if is_optimum else str(judgement.verdict),
    ]


def _optimum_verdict(judgement: Judgement) -> str:
    return judgement.verdict if judgement.verdict is Verdict.SILENT else Verdict.FEASIBLE


def _constraint_column(value: ConstraintValue) -> str:
    constraint = value.constraint
    limits = constraint.limit.tolist()
    shown = limits[0] if len(set(limits)) == 1 else limits
    return f"{constraint.measure.label}\n{'<=' if constraint.at_most else '>='} {_threshold(shown)}"


def _form(value: ConstraintValue) -> str:
    """Three significant digits of the largest limit, so that rows compare."""
    largest = float(value.constraint.limit.abs().max())
    if largest == 0:
        return ".3g"
    return f".{min(9, max(0, 2 - math.floor(math.log10(largest))))}f"


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


def _threshold(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return f"{min(value):.4g} to {max(value):.4g}"
    return f"{value:.4g}"


def plot_power_histogram(powers: Mapping[str, Tensor], scenario: Scenario) -> StyledFigure:
    """Plot the share of worker-rounds at each power, in mW and in dBW; one row per policy.

    The titles have the shares of worker-rounds that are silent, which neither axis shows, and at
    Pmax. The axis in dBW ends 40 dB below Pmax.

    Args:
        powers: powers by policy, (N, L) in W.
        scenario: scenario of all of them, for Pmax.

    """
    from feduplink.reporting.style import figure, looks_of

    pmax_mw = 1e3 * float(scenario.max_power.max())
    pmax_dbw = 10 * math.log10(pmax_mw) - 30
    linear = np.linspace(0, pmax_mw, _LINEAR_BINS + 1)
    decibel = pmax_dbw - np.arange(_DECIBEL_BINS, -1.0, -1.0)
    caption = "How often each transmit power is used"
    with figure(9.6, 1.1 + 1.1 * len(powers), caption) as drawing:
        panels = drawing.subplots(
            len(powers), 2, sharex="col", squeeze=False, width_ratios=(1.3, 1)
        )
        rows = zip(panels, powers.items(), looks_of(powers).values(), strict=True)
        for (in_mw, in_dbw), (name, power), look in rows:
            # A float32 Pmax may exceed the exact one by its rounding.
            mw = np.minimum(1e3 * np.asarray(power.double().flatten()), pmax_mw)
            dbw = np.minimum(10 * np.log10(mw[mw > 0]) - 30, pmax_dbw)
            _plot_bars(in_mw, mw[mw > 0], len(mw), linear, look)
            _plot_bars(in_dbw, dbw, len(mw), decibel, look)
            silent, full = np.mean(mw <= 0), np.mean(mw >= _FULL * pmax_mw)
            title = f"{name}: silent {100 * silent:.3g} %, at Pmax {100 * full:.3g} %"
            in_mw.set_title(title, loc="left", fontsize=8)
        panels[-1, 0].set_xlabel(f"transmit power, mW (dashed: Pmax = {pmax_mw:g} mW)")
        panels[-1, 1].set_xlabel("transmit power, dBW")
        drawing.supylabel("share of worker-rounds", fontsize=9)
    return drawing


def _plot_bars(axes: Any, levels: _Powers, worker_rounds: int, edges: _Powers, look: Look) -> None:
    """Draw percentages of all worker-rounds as bars; one far above all others is cut off."""
    weights = np.full(len(levels), 100 / worker_rounds)
    shares, *_ = axes.hist(levels, edges, weights=weights, color=look.colour, hatch=look.hatch)
    second, highest = np.sort(shares)[-2:]
    if 0 < _CUT * second < highest:
        axes.set_ylim(0, _CUT * second)
        axes.set_title(f"highest bar: {highest:.3g} %, cut off", loc="right", fontsize=8)
    axes.set_xlim(edges[0])
    axes.axvline(edges[-1], color="black", linestyle="--", linewidth=1.0)
    axes.yaxis.set_major_formatter("{x:g} %")
    axes.locator_params(axis="y", nbins=3)


def plot_comparison(
    judgements: Mapping[str, Judgement],
    optimum: Optimum | None = None,
) -> StyledFigure:
    """Plot objective, participation and the worst worker's constraints, one row per policy.

    With an ``optimum``, objectives that it proves unreachable are shaded.
    """
    from feduplink.reporting.style import MUTED, feasibility_note, figure

    constraints = next(iter(judgements.values())).constraints
    rows = with_optimum(judgements, optimum)
    caption = "Objective, participation and worst constraints of every policy"
    width = 6.2 + 2.15 * len(constraints)
    with figure(width, 1.5 + 0.32 * len(rows), caption) as drawing:
        widths = (1.9, 1, *[1] * len(constraints))
        panels = drawing.subplots(1, len(widths), sharey=True, width_ratios=widths)
        objective, participation, *others = panels
        plot_objectives(objective, judgements, optimum)
        _mark(participation, rows, [row.participation for row in rows.values()])
        participation.set_xlabel("participation")
        participation.set_xlim(-0.05, 1.08)
        for axes, (name, value) in zip(others, constraints.items(), strict=True):
            constraint = value.constraint
            ratios = [_worst_ratio(row.constraints[name]) for row in rows.values()]
            ratios = [max(ratio, _MIN_RATIO) for ratio in ratios]
            axes.set_xscale("log", subs=(2, 5))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("{x:g}")
            _mark(axes, rows, ratios)
            axes.axvline(1.0, color="black", linestyle="--", linewidth=1.0, zorder=1)
            limit = "limit" if constraint.at_most else "threshold"
            axes.set_xlabel(f"worst worker's\n{constraint.measure.label} / {limit}")
        notes = [feasibility_note([_feasible(name, row) for name, row in judgements.items()])]
        if optimum is not None:
            notes.append("grey: proved out of reach for policies that meet the constraints")
        drawing.suptitle("\n".join(notes), fontsize=8, color=MUTED)
    return drawing


def plot_objectives(
    axes: Any, judgements: Mapping[str, Judgement], optimum: Optimum | None = None
) -> None:
    """Plot only the objectives, into given axes."""
    from feduplink.reporting.style import SHADE, objective_label, set_objective_scale

    rows = with_optimum(judgements, optimum)
    labels = [f"{name}  {row.objective:.4f}" for name, row in rows.items()]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    values = [row.objective for row in rows.values()]
    if optimum is not None and math.isfinite(optimum.upper_bound):
        values.append(optimum.upper_bound)
        axes.axvline(optimum.upper_bound, color=SHADE)
    _mark(axes, rows, values[: len(rows)])
    axes.set_xlabel(objective_label(set_objective_scale(axes, "x", values, _MARGIN)))
    if optimum is not None and math.isfinite(optimum.upper_bound):
        right = axes.get_xlim()[1]
        axes.axvspan(optimum.upper_bound, right, color=SHADE, linewidth=0, zorder=0)
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


def _mark(axes: Any, rows: Mapping[str, Judgement], values: Sequence[float]) -> None:
    from feduplink.reporting.style import looks_of, marker_style

    looks = looks_of(rows)
    for place, ((name, row), value) in enumerate(zip(rows.items(), values, strict=True)):
        axes.plot(value, place, zorder=3, **marker_style(looks[name], _feasible(name, row), 8))
    axes.margins(x=_MARGIN)
