"""Plots of a comparison: objective and constraints by policy, histogram of transmit powers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from feduplink.judgement import ConstraintValue, Judgement
from feduplink.optimum import Optimum
from feduplink.reporting.style import (
    MUTED,
    OPTIMUM,
    SHADE,
    Look,
    StyledFigure,
    feasibility_note,
    figure,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)
from feduplink.scenario import Scenario

#: Of the linear axis, from 0 to Pmax.
_LINEAR_BINS = 40
_BIN_DB = 1.0
#: The logarithmic axis may leave out this share of each policy's worker-rounds, the lowest powers.
_TAIL_QUANTILE = 0.01
_LEAST_SPAN_DB, _MOST_SPAN_DB = 10, 40
#: From this share of Pmax on a worker transmits at Pmax.
_FULL = 0.99
#: A bar is cut off at this multiple of the second highest, and its share written beside it.
_CUT = 1.6

_Powers = np.ndarray[Any, np.dtype[np.float64]]


def plot_power_histogram(powers: Mapping[str, Tensor], scenario: Scenario) -> StyledFigure:
    """One row per policy: the share of worker-rounds at each power, linear in mW and in dBW.

    Written: how many worker-rounds are silent, which neither axis shows, and how many at Pmax.

    Args:
        powers: by policy, (N, L) W.
        scenario: whose Pmax ends the axes.

    """
    pmax_mw = 1e3 * float(scenario.pmax_w.max())
    pmax_dbw = 10 * math.log10(pmax_mw) - 30
    # A float32 Pmax may exceed the exact one by its rounding.
    milliwatts = {
        name: np.minimum(1e3 * np.asarray(power.double().flatten()), pmax_mw)
        for name, power in powers.items()
    }
    linear = np.linspace(0, pmax_mw, _LINEAR_BINS + 1)
    logarithmic = _decibel_edges(milliwatts.values(), pmax_dbw)
    caption = "How often each transmit power is used"
    with figure(9.6, 1.1 + 1.1 * len(powers), caption) as drawing:
        panels = drawing.subplots(
            len(powers), 2, sharex="col", squeeze=False, width_ratios=(1.3, 1)
        )
        rows = zip(panels, milliwatts.items(), looks_of(powers).values(), strict=True)
        cut = False
        for (in_mw, in_dbw), (name, mw), look in rows:
            on_air = mw[mw > 0]
            dbw = 10 * np.log10(on_air) - 30
            cut |= _plot_bars(in_mw, on_air, len(mw), linear, look)
            cut |= _plot_bars(in_dbw, np.minimum(dbw, logarithmic[-1]), len(mw), logarithmic, look)
            in_mw.set_title(_shares(name, mw, pmax_mw), loc="left", fontsize=8)
        ends = ((linear, pmax_mw), (logarithmic, pmax_dbw))
        for column, (edges, pmax) in zip(panels.T, ends, strict=True):
            column[-1].set_xlim(edges[0], edges[-1] + 0.02 * (edges[-1] - edges[0]))
            for axes in column:
                axes.axvline(pmax, color="black", linestyle="--", linewidth=1.0)
        panels[-1, 0].set_xlabel(f"transmit power, mW (dashed: Pmax = {pmax_mw:g} mW)")
        panels[-1, 1].set_xlabel("transmit power, dBW")
        drawing.supylabel("share of worker-rounds", fontsize=9)
        if cut:
            drawing.suptitle("a bar with a number is cut off", fontsize=8, color=MUTED)
    return drawing


def _shares(name: str, milliwatts: _Powers, pmax_mw: float) -> str:
    silent = float(np.mean(milliwatts <= 0))
    full = float(np.mean(milliwatts >= _FULL * pmax_mw))
    return f"{name}: silent {_rounded_percent(silent)}, at Pmax {_rounded_percent(full)}"


def _rounded_percent(share: float) -> str:
    """Whole percent, but no 0 % for a few and no 100 % for nearly all."""
    shown = f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if shown in ("0 %", "100 %") and 0 < share < 1 else shown


def _decibel_edges(milliwatts: Iterable[_Powers], pmax_dbw: float) -> _Powers:
    """Bins down from Pmax that hold nearly all powers."""
    on_air = [mw[mw > 0] for mw in milliwatts]
    lowest = min(
        (10 * np.log10(np.quantile(mw, _TAIL_QUANTILE)) - 30 for mw in on_air if mw.size),
        default=pmax_dbw,
    )
    span_db = min(max(pmax_dbw - lowest, _LEAST_SPAN_DB), _MOST_SPAN_DB)
    bins = math.ceil(span_db / _BIN_DB)
    return pmax_dbw - _BIN_DB * np.arange(bins, -1, -1, dtype=np.float64)


def _plot_bars(axes: Any, levels: _Powers, worker_rounds: int, edges: _Powers, look: Look) -> bool:
    """Bars of the shares of all worker-rounds; returns whether the highest is cut off."""
    shares = np.histogram(levels, bins=edges)[0] / worker_rounds
    axes.bar(
        edges[:-1],
        shares,
        width=np.diff(edges),
        align="edge",
        color=look.colour,
        hatch=look.hatch,
        linewidth=0,
    )
    axes.yaxis.set_major_formatter(lambda share, _place: f"{100 * share:g} %")
    axes.locator_params(axis="y", nbins=3)
    second, highest = np.sort(shares)[-2:]
    limit = _CUT * second
    if not 0 < limit < highest:
        return False
    axes.set_ylim(0, limit)
    place = int(np.argmax(shares))
    left = place > len(shares) / 2
    axes.annotate(
        _rounded_percent(float(highest)),
        (edges[place] if left else edges[place + 1], limit),
        xytext=(-3 if left else 3, -1),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
        fontsize=8,
    )
    return True


#: The axes of the constraints end here: what matters happens at 1.
_RATIOS = (0.5, 1.5)
#: On both sides of the objectives, as a share of their range.
_MARGIN = 0.12


def plot_comparison(
    judgements: Mapping[str, Judgement],
    optimum: Optimum | None = None,
) -> StyledFigure:
    """Objective, participation and worst constraints by policy, with the objectives' values.

    With an ``optimum``, what it proves nobody can reach is shaded.
    """
    if optimum is not None:
        judgements = {**judgements, OPTIMUM: optimum.solution.judgement}
    names = list(judgements)
    rows = list(judgements.values())
    caption = "Objective, participation and worst constraints of every policy"
    width = 6.2 + 2.15 * len(rows[0].constraints)
    with figure(width, 1.5 + 0.32 * len(names), caption) as drawing:
        constraints = [value.constraint for value in rows[0].constraints.values()]
        ratios = (1.9, 1, *[1] * len(constraints))
        panels = drawing.subplots(1, len(ratios), sharey=True, width_ratios=ratios)
        objective, participation, *others = panels
        objective.set_yticks(range(len(names)), names)
        objective.set_ylim(len(names) - 0.4, -0.6)
        _plot_objectives(objective, names, rows, optimum)
        _mark(participation, names, rows, [row.participation for row in rows])
        participation.set_xlabel("participation")
        participation.set_xlim(-0.05, 1.08)
        beyond = False
        for axes, constraint in zip(others, constraints, strict=True):
            shares = [_worst_ratio(row.constraints[constraint.name]) for row in rows]
            beyond |= _mark_ratios(axes, names, rows, shares)
            limit = "limit" if constraint.at_most else "threshold"
            axes.set_xlabel(f"worst worker's\n{constraint.measure.label} / {limit}")
        notes = []
        if optimum is not None:
            notes.append("grey: proved out of reach for policies that meet the constraints")
        if beyond:
            notes.append("arrow: beyond the axis, at the ratio written")
        verdicts = [_feasible(name, row) for name, row in judgements.items()]
        lines = [feasibility_note(verdicts), "; ".join(notes)]
        drawing.suptitle("\n".join(filter(None, lines)), fontsize=8, color=MUTED)
    return drawing


def plot_objectives(
    axes: Any, judgements: Mapping[str, Judgement], optimum: Optimum | None = None
) -> None:
    """The objective of every policy alone, in ``axes``."""
    if optimum is not None:
        judgements = {**judgements, OPTIMUM: optimum.solution.judgement}
    names = list(judgements)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    _plot_objectives(axes, names, list(judgements.values()), optimum)


def _feasible(name: str, row: Judgement) -> bool | None:
    """Whether the constraints are met; the optimum's are, on these channels, which it is of."""
    return True if name == OPTIMUM else row.feasible


def _plot_objectives(
    axes: Any, names: list[str], rows: list[Judgement], optimum: Optimum | None
) -> None:
    """Marks with their values; shaded what the optimum proves to be out of reach."""
    values = [row.objective for row in rows]
    bound = math.nan if optimum is None else optimum.upper_bound
    _mark(axes, names, rows, values)
    stretched = set_objective_scale(axes, "x", [*values, bound], _MARGIN)
    axes.set_xlabel(objective_label(stretched))
    if not stretched:
        known = [value for value in (*values, bound) if math.isfinite(value)]
        room = _MARGIN * (max(known) - min(known)) or _MARGIN
        axes.set_xlim(min(known) - room, max(known) + room)
    if optimum is not None:
        axes.axvspan(bound, axes.get_xlim()[1], color=SHADE, linewidth=0, zorder=0)
    to_share = axes.transData + axes.transAxes.inverted()
    for place, value in enumerate(values):
        right = to_share.transform((value, place))[0] < 0.5
        axes.annotate(
            f"{value:.4f}",
            (value, place),
            xytext=(8 if right else -8, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize=8,
        )


def _worst_ratio(value: ConstraintValue) -> float:
    """E_i / limit_i of the worker that is nearest to its limit or farthest beyond it.

    NaN if no worker has a limit.
    """
    ratios = (value.expected / value.constraint.limit)[value.constraint.active]
    ratios = ratios[~ratios.isnan()]
    if len(ratios) == 0:
        return math.nan
    return float(ratios.max() if value.constraint.at_most else ratios.min())


def _mark_ratios(axes: Any, names: list[str], rows: list[Judgement], ratios: list[float]) -> bool:
    """Marks against the threshold at 1; returns whether a ratio is off the axis.

    Such a ratio is written beside its mark, with an arrow.
    """
    low, high = _RATIOS
    axes.axvline(1.0, color="black", linestyle="--", linewidth=1.0, zorder=1)
    _mark(axes, names, rows, [min(max(ratio, low), high) for ratio in ratios])
    beyond = False
    for place, ratio in enumerate(ratios):
        if math.isfinite(ratio) and not low <= ratio <= high:
            beyond = True
            above = ratio > high
            axes.annotate(
                f"{ratio:.1f} →" if above else f"← {ratio:.2f}",
                (high if above else low, place),
                xytext=(-8 if above else 8, 0),
                textcoords="offset points",
                ha="right" if above else "left",
                va="center",
                fontsize=8,
            )
    axes.set_xlim(low - 0.08, high + 0.08)
    return beyond


def _mark(axes: Any, names: list[str], rows: list[Judgement], values: list[float]) -> None:
    looks = looks_of(names)
    for place, (name, row, value) in enumerate(zip(names, rows, values, strict=True)):
        axes.plot(value, place, zorder=3, **marker_style(looks[name], _feasible(name, row), 8))
    axes.margins(x=0.12)
