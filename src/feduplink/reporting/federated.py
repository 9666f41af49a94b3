"""Federated comparisons: arrivals, error against cost, final errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    SymmetricalLogLocator,
)

from feduplink.federated.history import FINAL_ROUNDS, Cost, FederatedHistory, RunHistory
from feduplink.reporting.style import (
    MUTED,
    Look,
    StyledFigure,
    figure,
    legend_columns,
    looks_of,
    marker_style,
)

#: What others are compared with where it is among them; else the first policy.
_REFERENCE = "ideal"
#: The axis is linear up to a power of ten from here to there; to this one with a single run.
_LEAST, _MOST, _UNKNOWN = -6, -1, -3
#: From this error on only its size is written.
_HUGE = 10.0

_Values = np.ndarray[Any, np.dtype[np.float64]]


def draw_final_errors(axes: Any, history: FederatedHistory, top: float) -> None:
    """One row per policy: its final error less the reference's, run by run and on average.

    Runs are paired: those of the same number have the same data and channels, so their difference
    shows what the spread of the runs hides. The axis is linear around zero and logarithmic
    outside; a mean difference beyond ``top`` is an arrow at its end. Written at the right: the
    final error, and the difference with its standard error over the runs.
    """
    names = list(history.policies)
    reference = _REFERENCE if _REFERENCE in names else names[0]
    finals = {name: np.array(history.final_errors(name)) for name in names}
    with np.errstate(invalid="ignore"):  # infinite errors of models that diverge
        differences = {name: finals[name] - finals[reference] for name in names}
    compared = [values for name, values in differences.items() if name != reference]
    linear = _linear_range([_finite_standard_error(values) for values in compared])
    start, end = _limits(compared, linear, top)
    axes.set_xscale("symlog", linthresh=linear)
    axes.set_xlim(start, end)
    axes.axvline(0.0, color="black", linewidth=1.0)
    for place, (name, look) in enumerate(looks_of(names).items()):
        _plot_row(axes, place, differences[name], look)
        axes.annotate(
            _written(finals[name], differences[name], name == reference),
            (1.02, place),
            xycoords=("axes fraction", "data"),
            ha="left",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    decades = [linear * 10.0**n for n in range(8)]
    ticks = [0.0, *decades, *(-decade for decade in decades)]
    axes.xaxis.set_major_locator(FixedLocator(sorted(t for t in ticks if start <= t <= end)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.set_xlabel(f"final error (last {FINAL_ROUNDS} rounds) less that of {reference}")
    axes.set_title(
        "ticks: runs; bar: standard error; arrow: off the axis; right: error, difference",
        fontsize=7,
        color=MUTED,
        loc="left",
    )


def _plot_row(axes: Any, place: int, differences: _Values, look: Look) -> None:
    """The runs' differences as ticks, their mean as a mark with its standard error."""
    start, end = axes.get_xlim()
    inside = differences[(start <= differences) & (differences <= end)]
    if len(differences) > 1 and differences.any():
        axes.plot(inside, [place] * len(inside), "|", color=look.colour, markersize=6)
    mean, spread = _finite_mean(differences), _finite_standard_error(differences)
    if start <= mean <= end:
        if np.isfinite(spread):
            reach = [max(mean - spread, start), min(mean + spread, end)]
            axes.plot(reach, [place, place], color=look.colour, linewidth=2.2)
        axes.plot(mean, place, zorder=3, **marker_style(look))
    else:
        below = mean < start
        axes.annotate(
            "←" if below else "→",
            (0.0 if below else 1.0, place),
            xycoords=("axes fraction", "data"),
            ha="left" if below else "right",
            va="center",
        )


def _written(finals: _Values, differences: _Values, is_reference: bool) -> str:
    """The final error, and where it is on a usual scale the difference."""
    final, mean, spread = (
        _finite_mean(finals),
        _finite_mean(differences),
        _finite_standard_error(differences),
    )
    if not np.isfinite(final):
        return "diverged"
    if final >= _HUGE:
        return f"{final:.1e}"
    if is_reference or not np.isfinite(mean):
        return f"{final:.4f}"
    if not spread > 0:
        return f"{final:.4f}  {mean:+.1g}".replace("-", "−")
    # As many decimals as the standard error has up to its first digit, or the one after a 1.
    exponent = math.floor(math.log10(spread))
    decimals = max(0, -exponent + (spread < 2 * 10.0**exponent))
    return f"{final:.4f}  {mean:+.{decimals}f} ± {spread:.{decimals}f}".replace("-", "−")


def _finite_mean(values: _Values) -> float:
    """NaN if any value is not finite."""
    return float(values.mean()) if np.isfinite(values).all() else math.nan


def _finite_standard_error(values: _Values) -> float:
    """Of the mean; NaN with a single run, or if any value is not finite."""
    if len(values) == 1 or not np.isfinite(values).all():
        return math.nan
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _linear_range(spreads: list[float]) -> float:
    """The power of ten above the typical standard error."""
    known = [spread for spread in spreads if spread > 0]
    exponent = math.ceil(math.log10(np.median(known))) if known else _UNKNOWN
    return float(10.0 ** np.clip(exponent, _LEAST, _MOST))


def _limits(differences: list[_Values], linear: float, top: float) -> tuple[float, float]:
    """Ends of an axis with room for all differences up to ``top``."""
    shown = np.concatenate([np.zeros(1), *differences])
    shown = shown[np.abs(shown) <= top]
    return min(1.5 * float(shown.min()), -linear), max(1.5 * float(shown.max()), 2 * linear)


COST_LABELS: dict[Cost, str] = {
    "rounds": "rounds",
    "airtime_s": "upload time, s",
    "energy_j": "energy of all workers, J",
}
#: Points of a curve over seconds or joules, where every run has its own abscissae.
_GRID_POINTS = 200
#: The axis ends this far above the smallest error, or at the first errors if they are higher: a
#: model that diverges has no place on it.
_MOST_DECADES = 1.5
#: Marks on a curve. Those of other policies lie between them, so that each of several curves that
#: coincide shows.
_MARKS = 5

#: Under this ratio of its ends a logarithmic axis has labels between the powers of ten too.
_FEW_DECADES = 100.0


def plot_arrivals(
    arrivals: Mapping[str, Sequence[Sequence[int]]],
    caption: str = "Uploads that arrive in a round",
) -> StyledFigure:
    """One box per policy: uploads that arrived in a round, over all rounds and runs; and the mean.

    Args:
        arrivals: by policy, by independent run (or seed), by round. With several runs the mean
            has its standard error over the runs.
        caption: what there is to see.

    """
    looks = looks_of(arrivals)
    pooled = [[count for run in runs for count in run] for runs in arrivals.values()]
    several = any(len(runs) > 1 for runs in arrivals.values())
    with figure(1.6 + 0.8 * len(looks), 3.4, caption) as drawing:
        axes = drawing.subplots()
        boxes = axes.boxplot(
            pooled,
            tick_labels=[name.replace(":", ":\n") for name in looks],
            patch_artist=True,
            widths=0.5,
            medianprops={"color": "black"},
            flierprops={"markersize": 3, "markeredgecolor": MUTED},
        )
        for look, patch in zip(looks.values(), boxes["boxes"], strict=True):
            patch.set(facecolor=look.colour, alpha=0.6, hatch=look.hatch)
        for place, runs in enumerate(arrivals.values(), 1):
            mean = np.mean([np.mean(run) for run in runs])
            error = _standard_error_over_runs(np.array([[np.mean(run)] for run in runs]))[0]
            axes.errorbar(
                place,
                mean,
                error if len(runs) > 1 else None,
                fmt="D",
                markersize=5,
                markerfacecolor="white",
                color="black",
                capsize=3,
                zorder=4,
            )
            axes.annotate(
                f"{mean:.2f}",
                (place, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        what = "mean ± standard error over the runs" if several else "mean"
        axes.set_title(
            f"diamonds and numbers: {what}; lines: median", fontsize=8, color=MUTED, pad=16
        )
        axes.set_ylabel("uploads that arrive in a round")
        axes.set_ylim(-0.2, max([1, *(max(counts, default=0) for counts in pooled)]) + 0.4)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="x", visible=False)
    return drawing


def plot_costs(comparisons: Mapping[str, FederatedHistory], caption: str = "") -> StyledFigure:
    """Error against rounds, seconds and joules: mean over the runs and its standard error.

    One row per comparison; its label is left out if there is only one.
    """
    histories = list(comparisons.values())
    metric = histories[0].metric_name
    caption = caption or f"{metric.capitalize()} against rounds, seconds and joules"
    with figure(10.5, 0.9 + 3.0 * len(histories), caption) as drawing:
        rows = drawing.subplots(len(histories), 3, sharey="row", squeeze=False)
        for panels, (label, history) in zip(rows, comparisons.items(), strict=True):
            top = _scale_errors(panels, [history])
            for axes, cost in zip(panels, COST_LABELS, strict=True):
                _plot_curves(axes, history, cost, top)
            named = f"{metric}, data {label}" if len(histories) > 1 else metric
            panels[0].set_ylabel(named)
        _legend_below(drawing, histories)
    return drawing


def plot_error(history: FederatedHistory, cost: Cost, axes: Any = None) -> Any:
    """Error against one cost, in ``axes`` or in a new figure; returns the axes."""
    if axes is None:
        with figure(5.0, 3.6, f"{history.metric_name.capitalize()} of {history.task}") as drawing:
            axes = drawing.subplots()
            _legend_below(drawing, [history])
    _plot_curves(axes, history, cost, _scale_errors([axes], [history]))
    axes.set_ylabel(history.metric_name)
    return axes


def plot_averages(comparisons: Mapping[str, FederatedHistory], caption: str) -> StyledFigure:
    """One column per comparison: error against rounds, and final errors less that of ``ideal``."""
    histories = list(comparisons.values())
    most = max(len(history.policies) for history in histories)
    heights = (4.0, 0.8 + 0.19 * most)
    with figure(10.5, sum(heights), caption) as drawing:
        above, below = drawing.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
        panels = above.subplots(1, len(comparisons), sharey=True, squeeze=False)[0]
        finals = below.subplots(1, len(comparisons), squeeze=False)[0]
        top = _scale_errors(panels, histories)
        rows = zip(panels, finals, comparisons.items(), strict=True)
        for curves, final, (label, history) in rows:
            _plot_curves(curves, history, "rounds", top)
            curves.set_title(f"{label}, {history.task}")
            draw_final_errors(final, history, top)
        panels[0].set_ylabel(histories[0].metric_name)
        _legend_below(above, histories)
    return drawing


def _scale_errors(panels: Sequence[Any], histories: Sequence[FederatedHistory]) -> float:
    """A logarithmic axis, linear around zero if an error is; returns the highest error on it."""
    means = np.concatenate(
        [
            _mean_over_runs(_errors(runs))
            for history in histories
            for runs in history.policies.values()
        ]
    )
    means = means[np.isfinite(means)]
    least = float(np.min(means[means > 0], initial=np.inf))
    if not np.isfinite(least):  # all are perfect, or none is finite
        return 1.0
    starts = [
        _mean_over_runs(_errors(runs))[0]
        for history in histories
        for runs in history.policies.values()
    ]
    first = float(np.median([start for start in starts if np.isfinite(start)] or [0.0]))
    top = 1.15 * min(float(means.max()), max(least * 10**_MOST_DECADES, first))
    axes = panels[0]
    if means.min() > 0:
        axes.set_yscale("log")
        # A few between the decades; all nine would run into each other.
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
        axes.set_ylim(0.85 * least, top)
    else:
        axes.set_yscale("symlog", linthresh=least, linscale=0.3)
        axes.yaxis.set_minor_locator(SymmetricalLogLocator(base=10, linthresh=least, subs=(2, 5)))
        axes.set_ylim(-0.1 * least, top)

    def shown(error: float, _place: int) -> str:
        return "" if 0 < error < 1.5 * least and means.min() == 0 else f"{error:g}"

    axes.yaxis.set_minor_formatter(shown)
    axes.yaxis.set_major_formatter(shown)
    return top


def _plot_curves(axes: Any, history: FederatedHistory, cost: Cost, top: float) -> None:
    """Draw all policies on an axis that ends at ``top``; say which leave it."""
    drawn = False
    leaving = []
    looks = looks_of(history.policies)
    for number, (name, look) in enumerate(looks.items()):
        if (curves := _curves(history.policies[name], cost)) is None:
            continue
        drawn = True
        at, errors = curves
        means, spread = _mean_over_runs(errors), _standard_error_over_runs(errors)
        step = max(1, len(at) // _MARKS)
        first = round(step * (number + 0.5) / len(looks)) if len(at) > _MARKS else 0
        style = {**marker_style(look, size=4.5), "linestyle": look.line}
        axes.plot(at, means, markevery=(first, step), label=name, **style)
        on_axis = means <= top  # not so for NaN
        if len(errors) > 1:
            axes.fill_between(
                at,
                np.maximum(means - spread, 0),
                means + spread,
                where=on_axis & np.isfinite(spread),
                color=look.colour,
                alpha=0.2,
                linewidth=0,
            )
        if cost == "rounds" and not on_axis.all():
            leaving.append(f"{name} from round {int(at[np.argmin(on_axis)])}")
    if leaving:
        axes.text(
            0.99,
            0.98,
            "mean above the axis:\n" + "\n".join(leaving),
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=8,
            color=MUTED,
        )
    axes.set_xlabel(COST_LABELS[cost])
    if cost == "rounds":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    elif drawn:
        _scale_costs(axes)
    else:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no curve", transform=axes.transAxes, ha="center", color=MUTED)


def _errors(runs: Sequence[RunHistory]) -> _Values:
    """(runs, rounds)."""
    return np.array([run.error for run in runs], dtype=np.float64)


def _mean_over_runs(errors: _Values) -> _Values:
    with np.errstate(invalid="ignore", over="ignore"):  # infinite errors of models that diverge
        return np.asarray(errors.mean(0))


def _standard_error_over_runs(errors: _Values) -> _Values:
    """Of the mean over the runs, (runs, M) to (M,); zero with a single run."""
    if len(errors) == 1:
        return np.zeros(errors.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(errors.std(0, ddof=1) / np.sqrt(len(errors)))


def _scale_costs(axes: Any) -> None:
    """A logarithmic axis whose labels keep clear of each other."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    if high < _FEW_DECADES * low:
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.xaxis.set_minor_formatter("{x:g}")
    else:
        axes.xaxis.set_minor_formatter(NullFormatter())


def _legend_below(drawing: Any, histories: Sequence[FederatedHistory]) -> None:
    """Below the panels, where no curve runs: every policy, and what is shaded."""
    looks = looks_of(name for history in histories for name in history.policies)
    handles = [
        Line2D([], [], **{**marker_style(look), "linestyle": look.line}) for look in looks.values()
    ]
    title = None
    if any(len(runs) > 1 for history in histories for runs in history.policies.values()):
        title = "mean over the runs; shaded: its standard error"
    drawing.legend(
        handles,
        list(looks),
        loc="outside lower center",
        ncols=legend_columns(len(looks)),
        title=title,
        title_fontsize=8,
    )


def _curves(runs: Sequence[RunHistory], cost: Cost) -> tuple[_Values, _Values] | None:
    """Abscissae (M,) and every run's error there, (runs, M); None where the cost is undefined.

    Between two rounds a run's error is that of the earlier one, and after its end that of its
    last. The curve begins when every run has finished a round that cost something.
    """
    spent = [run.cumulative(cost) for run in runs]
    errors = _errors(runs)
    if cost == "rounds":
        return np.arange(1.0, errors.shape[1] + 1), errors
    known = [at for at in spent if at is not None]
    if len(known) < len(runs):
        return None
    paid = [at[at > 0] for at in known]
    if not all(map(len, paid)):
        return None
    start, end = max(at[0] for at in paid), max(at[-1] for at in paid)
    if not start < end:
        return None
    grid = np.geomspace(start, end, _GRID_POINTS)
    rows = [
        error[np.searchsorted(at, grid * (1 + 1e-12), side="right") - 1]
        for at, error in zip(known, errors, strict=True)
    ]
    return grid, np.stack(rows)
