"""How powers are spread over the worker-rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from feduplink.report.style import MUTED, Look, StyledFigure, figure, looks_of
from feduplink.scenario import Scenario

#: Of the linear axis, from 0 to Pmax.
_LINEAR_BINS = 40
_BIN_DB = 1.0
#: The logarithmic axis may leave out this share of each policy's worker-rounds, the lowest powers.
_LEFT_OUT = 0.01
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
    return f"{name}: silent {_percent(silent)}, at Pmax {_percent(full)}"


def _percent(share: float) -> str:
    """Whole percent, but no 0 % for a few and no 100 % for nearly all."""
    shown = f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if shown in ("0 %", "100 %") and 0 < share < 1 else shown


def _decibel_edges(milliwatts: Iterable[_Powers], pmax_dbw: float) -> _Powers:
    """Bins down from Pmax that hold nearly all powers."""
    on_air = [mw[mw > 0] for mw in milliwatts]
    lowest = min(
        (10 * np.log10(np.quantile(mw, _LEFT_OUT)) - 30 for mw in on_air if mw.size),
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
        _percent(float(highest)),
        (edges[place] if left else edges[place + 1], limit),
        xytext=(-3 if left else 3, -1),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
        fontsize=8,
    )
    return True
