"""Federated comparisons: delivery by worker, error against cost, final errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from feduplink.federated.history import (
    FINAL_ROUNDS,
    Cost,
    FederatedHistory,
    PolicyHistory,
    RunHistory,
)
from feduplink.reporting.style import (
    MUTED,
    StyledFigure,
    ask,
    contrast,
    figure,
    legend_columns,
    looks_of,
    marker_style,
)

COST_LABELS: dict[Cost, str] = {
    "rounds": "rounds",
    "airtime_s": "upload time, s",
    "energy_j": "energy of all workers, J",
}
#: The reference of final errors if it is among the policies; else the first one is.
_REFERENCE = "ideal"
#: The axis of differences is linear up to this if there are no standard errors, and at least up to
#: the second.
_LINEAR_BELOW, _MIN_LINEAR = 1e-3, 1e-6
#: Largest number of steps of a curve over seconds or joules, where every run has its own abscissae.
_MAX_STEPS = 400
#: From this number of runs on, curves have a band from the first to the third quartile; the band of
#: fewer runs is from the least to the largest.
_MANY_RUNS = 10
#: Largest ratio of the ends of the axis of errors. A model that diverges leaves the axis.
_MAX_RATIO = 50.0
#: Number of markers on a curve. Those of different policies are at different rounds, so that curves
#: that coincide are visible.
_MARKS = 5
#: Under this ratio of its costs a logarithmic axis has labels between the powers of ten too.
_FEW_DECADES = 100.0
#: Ticks between the powers of ten on an axis of errors, up to this ratio of its ends and above.
_SHORT_AXIS = 12.0
_SHORT_AXIS_TICKS, _LONG_AXIS_TICKS = (1.5, 2, 3, 4, 5, 7), (2, 5)
#: The cells of the figure of delivery have numbers up to this number of workers.
_MAX_NUMBERED_WORKERS = 16
#: Colours of delivery rates from 0 to 1: of equal steps in lightness for every kind of vision.
_DELIVERY_COLOURS = "cividis"
#: Numbers on cells: not quite white and black, which a drawing exchanges on dark pages.
_ON_CELLS = ("#fefefe", "#010101")

_Values = np.ndarray[Any, np.dtype[np.float64]]


def draw_final_errors(axes: Any, history: FederatedHistory, top: float) -> None:
    """One row per policy: its final error less the reference's, run by run and on average.

    Runs are paired: those of the same number have the same data and channels, so their difference
    shows what the spread of the runs hides. The axis is linear around zero and logarithmic
    outside; differences beyond ``top``, and the mean of a policy with one, are not drawn. Written
    at the right: the final error, and the difference with its standard error over the runs.
    """
    looks = looks_of(history.policies)
    reference = _REFERENCE if _REFERENCE in looks else next(iter(looks))
    finals = np.array([history.final_errors(name) for name in looks])
    with np.errstate(invalid="ignore"):  # infinite errors of models that diverge
        differences = finals - finals[list(looks).index(reference)]
        drawn = np.where(np.abs(differences) <= top, differences, np.nan)
    spreads = _standard_error_over_runs(drawn.T)
    for place, (name, look) in enumerate(looks.items()):
        axes.plot(drawn[place], [place] * finals.shape[1], "|", color=look.colour, markersize=6)
        mean, spread = drawn[place].mean(), spreads[place]
        axes.plot([mean - spread, mean + spread], [place, place], color=look.colour, linewidth=2.2)
        axes.plot(mean, place, zorder=3, **marker_style(look))
        text = f"{finals[place].mean():.4g}" if np.isfinite(finals[place]).all() else "diverged"
        if name != reference and np.isfinite(mean):
            text += f"  {mean:+.2g} ± {spread:.1g}" if spread > 0 else f"  {mean:+.2g}"
        at = (1.02, place)
        axes.annotate(text, at, xycoords=("axes fraction", "data"), va="center", fontsize=8)
    known = spreads[spreads > 0]
    decade = 10 ** np.ceil(np.log10(np.median(known))) if len(known) else _LINEAR_BELOW
    axes.set_xscale("symlog", linthresh=max(decade, _MIN_LINEAR))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(0.0, color="black", linewidth=1.0)
    axes.set_yticks(range(len(looks)), list(looks))
    axes.set_ylim(len(looks) - 0.4, -0.6)
    axes.set_xlabel(f"final error (last {FINAL_ROUNDS} rounds) less that of {reference}")
    note = "ticks: runs; bar: standard error; right: error, difference"
    axes.set_title(note, fontsize=7, color=MUTED, loc="left")


def plot_arrivals(
    arrivals: Mapping[str, Sequence[Sequence[int]]],
    caption: str = "Uploads that arrive in a round",
) -> StyledFigure:
    """One box per policy: uploads that arrived in a round, over all rounds and runs; and the mean.

    Args:
        arrivals: numbers by policy, independent run (or seed) and round. With several runs the
            mean has its standard error over the runs.
        caption: alternative text of the figure.

    """
    looks = looks_of(arrivals)
    pooled = [[count for run in runs for count in run] for runs in arrivals.values()]
    by_run = [np.array([[np.mean(run)] for run in runs]) for runs in arrivals.values()]
    means = [float(means.mean()) for means in by_run]
    errors = [float(_standard_error_over_runs(means)[0]) for means in by_run]
    with figure(1.6 + 0.8 * len(looks), 3.6, caption) as drawing:
        axes = drawing.subplots()
        ask(drawing, "How many models arrive in a round?")
        boxes = axes.boxplot(
            pooled,
            tick_labels=[
                f"{mean:.2f}\n" + name.replace(":", ":\n")
                for name, mean in zip(looks, means, strict=True)
            ],
            patch_artist=True,
            widths=0.5,
            medianprops={"color": "black"},
            flierprops={"markersize": 3, "markeredgecolor": MUTED},
        )
        for look, patch in zip(looks.values(), boxes["boxes"], strict=True):
            patch.set(facecolor=look.colour, alpha=0.6, hatch=look.hatch)
        axes.errorbar(
            range(1, 1 + len(looks)),
            means,
            errors,
            fmt="D",
            markersize=5,
            markerfacecolor="white",
            color="black",
            capsize=3,
            zorder=4,
        )
        several = any(len(runs) > 1 for runs in arrivals.values())
        what = "mean ± standard error over the runs" if several else "mean"
        note = f"diamonds and numbers: {what}; lines: median"
        axes.set_title(note, fontsize=8, color=MUTED, loc="left")
        axes.set_ylabel("models that arrive in a round")
        axes.set_ylim(bottom=-0.2)
        axes.locator_params(axis="y", integer=True)
        axes.grid(axis="x", visible=False)
    return drawing


def plot_delivery(
    history: FederatedHistory,
    caption: str = "Share of the rounds in which a worker's model arrives",
) -> StyledFigure:
    """Plot the delivery rate of every worker, a row per policy; the least of a row is framed.

    Args:
        history: its runs have the workers that arrived, see ``RunHistory.arrived``.
        caption: alternative text of the figure.

    """
    rates = np.array([PolicyHistory(runs).delivered for runs in history.policies.values()])
    policies, workers = rates.shape
    with figure(1.9 + 0.4 * max(workers, 6), 1.5 + 0.3 * policies, caption) as drawing:
        axes = drawing.subplots()
        ask(drawing, "Whose model arrives?")
        axes.set_title(
            "share of the rounds, %; framed: worker with the least",
            fontsize=8,
            color=MUTED,
            loc="left",
        )
        cells = axes.pcolormesh(
            np.arange(workers + 1) + 0.5,
            np.arange(policies + 1) - 0.5,
            100 * rates,
            cmap=_DELIVERY_COLOURS,
            vmin=0,
            vmax=100,
            edgecolors="white",
            linewidth=0.8,
        )
        colours = cells.to_rgba(100 * rates, bytes=True)
        for row, column in np.ndindex(policies, workers if workers <= _MAX_NUMBERED_WORKERS else 0):
            cell = f"#{bytes(colours[row, column, :3]).hex()}"
            axes.text(
                column + 1,
                row,
                f"{100 * rates[row, column]:.0f}",
                color=max(_ON_CELLS, key=lambda ink: contrast(ink, cell)),
                ha="center",
                va="center",
                fontsize=8,
            )
        for row, worst in enumerate(rates.argmin(1)):
            if rates[row].min() < rates[row].max():
                _frame_cell(axes, worst + 0.5, row - 0.5)
        for row, total in enumerate(rates.sum(1)):
            axes.annotate(
                f"{total:.2f}",
                (1.02, row),
                xycoords=("axes fraction", "data"),
                va="center",
                annotation_clip=False,
            )
        axes.annotate("per\nround", (1.02, 1.02), xycoords="axes fraction", fontsize=8, color=MUTED)
        axes.set_yticks(range(policies), list(history.policies))
        axes.set_ylim(policies - 0.5, -0.5)
        axes.set_xlabel("worker")
        axes.set_xlim(0.5, workers + 0.5)
        if workers <= _MAX_NUMBERED_WORKERS:
            axes.set_xticks(range(1, workers + 1))
        else:
            axes.locator_params(axis="x", integer=True)
            drawing.colorbar(cells, ax=axes, label="share of the rounds, %", pad=0.12)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
    return drawing


def _frame_cell(axes: Any, left: float, top: float) -> None:
    """Frame a cell of side 1, so that the frame is seen on light and dark colours."""
    for colour, width in (("white", 3.4), ("black", 1.8)):
        axes.plot(
            [left, left + 1, left + 1, left, left],
            [top, top, top + 1, top + 1, top],
            color=colour,
            linewidth=width,
            clip_on=False,
            zorder=3,
        )


def plot_costs(
    comparisons: Mapping[str, FederatedHistory], caption: str = "", target: float | None = None
) -> StyledFigure:
    """Error against rounds, seconds and joules: median and range of the runs.

    A curve of the median crosses an error where the median run first has it, as in the table of
    costs.

    Args:
        comparisons: a row of panels each; the label is left out if there is only one.
        caption: alternative text of the figure.
        target: error that costs are counted to, drawn as a line.

    """
    histories = list(comparisons.values())
    metric = histories[0].metric_name
    caption = caption or f"{metric.capitalize()} against rounds, seconds and joules"
    with figure(10.5, 1.2 + 3.0 * len(histories), caption) as drawing:
        ask(drawing, "At which cost is the error low?")
        rows = drawing.subplots(len(histories), 3, sharey="row", squeeze=False)
        for panels, (label, history) in zip(rows, comparisons.items(), strict=True):
            top = _scale_errors(panels, [history], target)
            for axes, cost in zip(panels, COST_LABELS, strict=True):
                _plot_curves(axes, history, cost, top)
                if target is not None:
                    _plot_target(axes, target)
            named = f"{metric}, data {label}" if len(histories) > 1 else metric
            panels[0].set_ylabel(named)
        _legend_below(drawing, histories)
    return drawing


def _plot_target(axes: Any, target: float) -> None:
    axes.axhline(
        target,
        color="black",
        linestyle=(0, (5, 3)),
        linewidth=1.0,
        zorder=1,
        label=f"target {target:.3g}",
    )


def plot_error(history: FederatedHistory, cost: Cost, axes: Any = None) -> Any:
    """Error against one cost, in ``axes`` or in a new figure; returns the axes."""
    if axes is None:
        with figure(5.0, 3.6, f"{history.metric_name.capitalize()} of {history.task}") as drawing:
            plot_error(history, cost, drawing.subplots())
            _legend_below(drawing, [history])
        return drawing.axes[0]
    _plot_curves(axes, history, cost, _scale_errors([axes], [history]))
    axes.set_ylabel(history.metric_name)
    return axes


def plot_averages(comparisons: Mapping[str, FederatedHistory], caption: str) -> StyledFigure:
    """One column per comparison: error against rounds, and final errors less that of ``ideal``."""
    histories = list(comparisons.values())
    most = max(len(history.policies) for history in histories)
    heights = (4.0, 0.8 + 0.19 * most)
    with figure(10.5, sum(heights) + 0.3, caption) as drawing:
        above, below = drawing.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
        ask(above, "Which error does the model reach?")
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


def _scale_errors(
    panels: Sequence[Any], histories: Sequence[FederatedHistory], target: float | None = None
) -> float:
    """A logarithmic axis, linear around zero if an error is; returns the highest error on it."""
    medians = np.concatenate(
        [
            _median_over_runs(_errors(runs))
            for history in histories
            for runs in history.policies.values()
        ]
    )
    medians = medians[np.isfinite(medians)]
    if not (medians > 0).any():  # all are perfect, or none is finite
        return 1.0
    least = float(medians[medians > 0].min())
    top = 1.15 * min(float(medians.max()), _MAX_RATIO * least)
    if target is not None and target > 0:
        top = max(top, 1.15 * target)
    axes = panels[0]
    # A few ticks between the decades; all nine would run into each other.
    ticks = _SHORT_AXIS_TICKS if top < _SHORT_AXIS * least else _LONG_AXIS_TICKS
    axes.set_yscale("symlog", linthresh=least, linscale=0.3, subs=ticks)
    axes.set_ylim(0.85 * least if medians.min() > 0 else -0.1 * least, top)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    return top


def _plot_curves(axes: Any, history: FederatedHistory, cost: Cost, top: float) -> None:
    """Draw all policies on an axis that ends at ``top``, and name those that leave it."""
    leaving = []
    looks = looks_of(history.policies)
    for number, (name, look) in enumerate(looks.items()):
        if (curves := _curves(history.policies[name], cost)) is None:
            continue
        at, errors = curves
        medians, low, high = _median_over_runs(errors), *_band_over_runs(errors)
        step = max(1, len(at) // _MARKS)
        first = round(step * (number + 0.5) / len(looks)) if len(at) > _MARKS else 0
        style = {**marker_style(look, size=4.5), "linestyle": look.line}
        # In the course of a round the model is that of the last one.
        style["drawstyle"] = "default" if cost == "rounds" else "steps-post"
        axes.plot(at, medians, markevery=(first, step), label=name, **style)
        if len(errors) > 1:
            steps = None if cost == "rounds" else "post"
            axes.fill_between(at, low, high, step=steps, color=look.colour, alpha=0.15, linewidth=0)
        if not (medians <= top).all():
            leaving.append(name)
    axes.set_xlabel(COST_LABELS[cost])
    if cost == "rounds":
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
        if leaving:
            axes.set_xlabel(f"rounds\nabove the axis: {', '.join(leaving)}")
    elif axes.lines:
        _scale_costs(axes)
    else:
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no curve", transform=axes.transAxes, ha="center", color=MUTED)


def _errors(runs: Sequence[RunHistory]) -> _Values:
    """(runs, rounds)."""
    return np.array([run.error for run in runs], dtype=np.float64)


def _median_over_runs(errors: _Values) -> _Values:
    """(runs, M) to (M,); NaN counts as infinite."""
    return np.asarray(_quantile(errors, 0.5))


def _band_over_runs(errors: _Values) -> tuple[_Values, _Values]:
    """Ends of the band of a curve, (runs, M) to (M,) each."""
    tail = 0.0 if len(errors) < _MANY_RUNS else 0.25
    return _quantile(errors, tail), _quantile(errors, 1 - tail)


def _quantile(errors: _Values, share: float) -> _Values:
    """Over the runs, with models that diverge (infinite or NaN) as the largest; NaN there."""
    known = np.where(np.isfinite(errors), errors, np.inf)
    with np.errstate(invalid="ignore"):  # between a finite and an infinite error
        found = np.quantile(known, share, axis=0)
    return np.asarray(np.where(np.isfinite(found), found, np.nan), np.float64)


def _standard_error_over_runs(errors: _Values) -> _Values:
    """Of the mean over the runs, (runs, M) to (M,); zero with a single run."""
    if len(errors) == 1:
        return np.zeros(errors.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(errors.std(0, ddof=1) / np.sqrt(len(errors)))


def _scale_costs(axes: Any) -> None:
    """A logarithmic axis whose labels keep clear of each other."""
    low, high = axes.dataLim.intervalx
    if not 0 < high < np.inf:  # nothing is drawn
        return
    if high < _FEW_DECADES * low:
        axes.set_xscale("log", subs=(2, 5))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:g}")
    else:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")


def _legend_below(drawing: Any, histories: Iterable[FederatedHistory]) -> None:
    """Draw the legend of all policies and of the shading below the panels."""
    handles: dict[str, Any] = {}
    panels: dict[str, set[str]] = {}
    for axes in drawing.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles[label] = handle
            panels.setdefault(label, set()).add(axes.get_xlabel().partition("\n")[0])
    with_costs = any(COST_LABELS["airtime_s"] in kinds for kinds in panels.values())
    names = [
        f"{label} (no cost)" if with_costs and kinds == {"rounds"} else label
        for label, kinds in panels.items()
    ]
    most = max(len(runs) for history in histories for runs in history.policies.values())
    band = "least to largest" if most < _MANY_RUNS else "first to third quartile"
    drawing.legend(
        handles.values(),
        names,
        loc="outside lower center",
        ncols=legend_columns(len(handles)),
        title=f"median of {most} runs; shaded: {band}" if most > 1 else None,
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
    grid = np.unique(np.clip(np.concatenate(paid), start, end))
    if len(grid) > _MAX_STEPS:
        grid = np.geomspace(start, end, _MAX_STEPS)
    rows = [
        error[np.searchsorted(at, grid * (1 + 1e-12), side="right") - 1]
        for at, error in zip(known, errors, strict=True)
    ]
    return grid, np.stack(rows)
