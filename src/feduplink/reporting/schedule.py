"""Plots of schedules: the front between time and energy, and the timeline of a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from feduplink.federated import UplinkRecord
from feduplink.link import Schedule
from feduplink.reporting.style import MUTED, SHADE, StyledFigure, ask, figure, looks_of
from feduplink.units import power_text

#: Rounds by policy and price of energy κ, s/J.
Costs = Mapping[str, Mapping[float | None, UplinkRecord]]
_Points = np.ndarray[Any, np.dtype[np.float64]]
#: Name of the schedule of the timeline; κ is written beside its points of the front.
_SCHEDULE = "schedule"
_LEGEND_COLUMNS = 2
#: Under this share of its due deliveries, a worker makes a point of the front hollow.
MIN_DELIVERED = 0.9
#: Areas of markers if no model arrives, and if all do, in square points.
_LEAST_AREA, _FULL_AREA = 10.0, 50.0
#: The markers of the schedule are smaller by this factor, so that a marker below one is seen.
_SMALLER = 0.4
_HOLLOW = "#6b6b6b"
#: Below this ratio of its ends, an axis has labels between the powers of ten too.
_FEW_DECADES = 100.0
#: Free space around the points of a logarithmic axis, as a factor.
_ROOM = 1.35
#: Places of a label relative to its point, in points, those first that are tried first.
_LABEL_PLACES = (
    *((7, 3, "left", "bottom"), (-7, -3, "right", "top"), (7, -3, "left", "top")),
    *((-7, 3, "right", "bottom"), (0, 9, "center", "bottom"), (0, -9, "center", "top")),
)
_LABEL_SIZE = 7.5
#: Width of a character, and height of a line, relative to the size of the font.
_CHARACTER_WIDTH, _LINE_HEIGHT = 0.62, 1.3
#: Powers of the timeline are drawn from this much below Pmax, dB.
_POWER_SPAN_DB = 40.0
#: Height of a bar at the lower end of this span, relative to that at Pmax.
_LEAST_HEIGHT = 0.08
#: Height of the lane of a worker at Pmax; the lanes are 1 apart.
_LANE = 0.86
#: Powers in bars: not quite white, which a drawing exchanges for dark paper on dark pages.
_ON_BARS = "#fefefe"
#: Width of a character of a power, relative to that of the round.
_DIGIT_WIDTH = 0.016


def plot_front(
    costs: Costs,
    bounds: Mapping[float, float],
    caption: str = "",
    delivery: Sequence[float] = (1.0,),
) -> StyledFigure:
    """Plot the mean time and energy of a round: a point per policy and κ, joined by a line.

    Args:
        costs: rounds by name and κ.
        bounds: lower bound on mean time + κ · energy, in seconds, by κ; the excluded area is
            shaded.
        caption: alternative text of the figure.
        delivery: share of the rounds in which the model of every worker is due, one value or one
            per worker.
    """
    with figure(5.0, 5.2, caption) as drawing:
        ask(drawing, "Which rounds are fast and save energy?")
        axes = drawing.subplots()
        draw_front(axes, costs, bounds, delivery)
        drawing.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)
        drawing.draw_without_rendering()  # so that the labels know where the points are
        _label_prices(axes, costs)
        return drawing


def draw_front(
    axes: Any,
    costs: Costs,
    bounds: Mapping[float, float],
    delivery: Sequence[float] = (1.0,),
) -> None:
    """Plot the same into given axes, without a legend and the labels of κ."""
    due = np.asarray(delivery, np.float64)
    points = {}
    for name, look in looks_of(costs).items():
        rows = list(costs[name].values())
        at = _means(rows)
        arrived = np.array([row.success.mean(0).numpy() for row in rows])  # (κ, L)
        delivers = np.all(arrived >= MIN_DELIVERED * due, axis=1)
        points[name] = at, delivers
        line = {"color": look.colour if delivers.any() else _HOLLOW, "linestyle": look.line}
        axes.plot(*at, **line)
        smaller = _SMALLER if name == _SCHEDULE else 1.0
        axes.scatter(
            *at,
            s=smaller * (_LEAST_AREA + (_FULL_AREA - _LEAST_AREA) * arrived.mean(1)),
            marker=look.marker,
            facecolors=[look.colour if full else "white" for full in delivers],
            edgecolors=[look.colour if full else _HOLLOW for full in delivers],
            linewidths=1.2,
            zorder=4 if name == _SCHEDULE else 3,
        )
        face = look.colour if delivers.any() else "white"
        count = f"{_counts(arrived.sum(1))} of {arrived.shape[1]}"
        axes.plot(
            [], [], marker=look.marker, markerfacecolor=face, label=f"{name}: {count}", **line
        )
    outside = _set_scales(axes, points, bounds)
    if bounds and axes.get_xscale() == "log":
        _shade_excluded(axes, bounds)
    notes = ["legend and area of a marker: models that arrive per round"]
    if not all(delivers.all() for _, delivers in points.values()):
        share = f"{MIN_DELIVERED:.0%}"
        notes.append(f"hollow: a worker's model arrives in under {share} of the due rounds")
    if outside:
        notes.append(f"hollow and outside: {', '.join(outside)}")
    axes.set_title("\n".join(notes), fontsize=8, color=MUTED, loc="left")
    axes.set_xlabel("mean time of a round, s")
    axes.set_ylabel("mean energy of a round, J")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        if axis.get_scale() != "log":
            continue
        low, high = axis.get_view_interval()
        short = high / low < _FEW_DECADES
        if short:
            axis.get_minor_locator().set_params(
                subs=(1.5, 2, 3, 4, 5, 7) if high < 10 * low else (2, 5)
            )
        axis.set_minor_formatter("{x:g}" if short else "")


def _means(rows: Iterable[UplinkRecord]) -> _Points:
    """Mean times, s, and energies, J, (2, κ)."""
    return np.array([(float(row.airtime_s.mean()), float(row.energy_j.mean())) for row in rows]).T


def _counts(values: Any) -> str:
    """The numbers of models that arrive, as the range over κ."""
    least, most = f"{values.min():.1f}", f"{values.max():.1f}"
    return least if least == most else f"{least} to {most}"


def _set_scales(
    axes: Any, points: Mapping[str, tuple[_Points, Any]], bounds: Mapping[float, float]
) -> list[str]:
    """Logarithmic axes around the points that deliver and the fastest round not excluded.

    They stay linear if no point has a time and an energy above 0.

    Returns the other policies of which a point is outside, each with its time and energy.
    """
    full = np.concatenate([at[:, delivers] for at, delivers in points.values()], axis=1)
    if not full.shape[1]:
        full = np.concatenate([at for at, _ in points.values()], axis=1)
    full = full[:, (np.isfinite(full) & (full > 0)).all(0)]
    if not full.shape[1]:
        return []
    times = [*full[0], *(bound for kappa, bound in bounds.items() if kappa == 0 and bound > 0)]
    low = np.array([min(times), full[1].min()]) / _ROOM
    high = full.max(1) * _ROOM
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    outside = []
    for name, (at, _) in points.items():
        beyond = np.isfinite(at).all(0) & ~((low < at.T) & (high > at.T)).all(1)
        if beyond.any():
            time_s, energy_j = at[:, beyond][:, 0]
            outside.append(f"{name} ({time_s:.3g} s, {energy_j:.2g} J)")
    return outside


def _shade_excluded(axes: Any, bounds: Mapping[float, float]) -> None:
    """Shade the area below any of the lines time + κ · energy = bound."""
    first, last = axes.get_xlim()
    times = np.geomspace(first, last, 800)
    lowest, highest = axes.get_ylim()
    least = np.full_like(times, lowest)
    for kappa, bound in bounds.items():
        line = (bound - times) / kappa if kappa > 0 else np.where(times < bound, highest, 0.0)
        least = np.maximum(least, np.minimum(line, highest))
    axes.fill_between(
        times,
        lowest,
        least,
        color=SHADE,
        linewidth=0,
        label="excluded if all models are sent (proved)",
        zorder=0,
    )


def _label_prices(axes: Any, costs: Costs) -> None:
    """Write κ beside the points of the schedule, where it covers neither a point nor a label."""
    if _SCHEDULE not in costs:
        return
    scale = axes.figure.dpi / 72
    every = [axes.transData.transform(_means(rows.values()).T) for rows in costs.values()]
    reach = 4 * scale
    taken = [(x - reach, y - reach, x + reach, y + reach) for x, y in np.concatenate(every)]
    points = axes.transData.transform(_means(costs[_SCHEDULE].values()).T)
    for kappa, (x, y) in zip(costs[_SCHEDULE], points, strict=True):
        text = f"κ = {kappa:g}"
        width = _CHARACTER_WIDTH * _LABEL_SIZE * len(text) * scale
        height = _LINE_HEIGHT * _LABEL_SIZE * scale
        for right, up, horizontal, vertical in _LABEL_PLACES:
            left = x + right * scale - {"left": 0, "center": width / 2, "right": width}[horizontal]
            bottom = y + up * scale - {"bottom": 0, "top": height}[vertical]
            box = (left, bottom, left + width, bottom + height)
            if not any(_overlap(box, other) for other in taken):
                taken.append(box)
                axes.annotate(
                    text,
                    axes.transData.inverted().transform((x, y)),
                    xytext=(right, up),
                    textcoords="offset points",
                    ha=horizontal,
                    va=vertical,
                    fontsize=_LABEL_SIZE,
                    color=MUTED,
                )
                break


_Box = tuple[float, float, float, float]


def _overlap(first: _Box, second: _Box) -> bool:
    """Whether two boxes (left, bottom, right, top) have a common point."""
    return (
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )


def plot_timeline(
    schedule: Schedule, pmax_w: float, caption: str = "", kappa: float | None = None
) -> StyledFigure:
    """Plot the powers of the workers over one round, a lane per worker.

    Args:
        schedule: phases (K,) and powers (K, L).
        pmax_w: power at which a bar fills its lane, W.
        caption: alternative text of the figure.
        kappa: price of energy of the schedule, s/J, for the title.
    """
    durations, power = schedule.durations_s, schedule.power
    starts = durations.cumsum(0) - durations
    workers, total = power.shape[-1], float(durations.sum())
    pmax_dbw = 10 * float(np.log10(pmax_w))
    with figure(5.0, 1.3 + 0.36 * workers, caption) as drawing:
        axes = drawing.subplots()
        priced = "" if kappa is None else f" (κ = {kappa:g} s/J)"
        ask(drawing, f"Who transmits when?{priced}")
        axes.set_title(
            f"numbers: power, mW; height: power in dB, up to Pmax = {power_text(pmax_dbw)}\n"
            f"({1e3 * pmax_w:.3g} mW); half a lane: {power_text(pmax_dbw - _POWER_SPAN_DB / 2)}",
            fontsize=8,
            color=MUTED,
            loc="left",
        )
        look = looks_of([_SCHEDULE])[_SCHEDULE]
        for worker in range(workers):
            axes.axhspan(worker - _LANE / 2, worker + _LANE / 2, color=SHADE, alpha=0.4, zorder=0)
        for phase in torch.nonzero(durations > 0)[:, 0].tolist():
            start, length = float(starts[phase]), float(durations[phase])
            axes.axvline(start, color=MUTED, linewidth=0.4, zorder=1)
            for worker in torch.nonzero(power[phase] > 0)[:, 0].tolist():
                watts = float(power[phase, worker])
                height = _LANE * _height(watts / pmax_w)
                bottom = worker + _LANE / 2
                axes.bar(start, -height, length, bottom, align="edge", color=look.colour)
                text = f"{1e3 * watts:.2g}"
                if length >= _DIGIT_WIDTH * len(text) * total:
                    inside = height > _LANE / 2
                    axes.text(
                        start + length / 2,
                        bottom - height / 2 if inside else bottom - height,
                        text,
                        color=_ON_BARS if inside else "black",
                        ha="center",
                        va="center" if inside else "bottom",
                        fontsize=7,
                        clip_on=True,
                    )
        axes.set_yticks(range(workers), [f"worker {worker + 1}" for worker in range(workers)])
        axes.set_ylim(workers - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False)
        axes.set_xlim(0, total)
        axes.set_xlabel("time, s")
        return drawing


def _height(relative: float) -> float:
    """Height of a bar relative to its lane, linear in dB: 1 at Pmax, and least at the span's end.

    >>> _height(1.0), _height(0.01), _height(1e-9)
    (1.0, 0.5, 0.08)
    """
    return max(_LEAST_HEIGHT, 1 + 10 * float(np.log10(relative)) / _POWER_SPAN_DB)
