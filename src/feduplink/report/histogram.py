"""How powers are spread over the worker-rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from feduplink.report.style import figure, look_of
from feduplink.scenario import Scenario

_BIN_DB = 1.0
#: The axis may leave out this share of each policy's worker-rounds, the lowest powers.
_LEFT_OUT = 0.01
_LEAST_SPAN_DB, _MOST_SPAN_DB = 10, 50

_Levels = np.ndarray[Any, np.dtype[np.float64]]


def plot_power_histogram(path: Path, powers: Mapping[str, Tensor], scenario: Scenario) -> None:
    """One panel a policy: the share of worker-rounds at each power, and how many are silent.

    Args:
        path: the PNG file.
        powers: by policy, (N, L) W.
        scenario: whose Pmax ends the axis.

    """
    levels = {name: _transmitting_dbw(power) for name, power in powers.items()}
    pmax_dbw = 10 * math.log10(float(scenario.pmax_w.max()))
    edges = _bin_edges(levels.values(), pmax_dbw)
    caption = "How often each transmit power is used"
    with figure(path, 6.4, 0.9 + 1.05 * len(powers), caption) as drawing:
        panels = drawing.subplots(len(powers), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, dbw) in zip(panels, levels.items(), strict=True):
            _plot_panel(axes, name, dbw, powers[name].numel(), edges)
        for axes in panels:
            axes.axvline(pmax_dbw, color="black", linestyle="--", linewidth=1.0)
        panels[0].annotate(
            "Pmax",
            (pmax_dbw, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
        panels[-1].set_xlim(edges[0], edges[-1] + 0.02 * (edges[-1] - edges[0]))
        panels[-1].set_xlabel("transmit power (dBW)")
        drawing.supylabel("share of worker-rounds", fontsize=9)


def _bin_edges(levels: Iterable[_Levels], pmax_dbw: float) -> _Levels:
    """Bins down from Pmax that hold nearly all powers."""
    lowest = min((np.quantile(dbw, _LEFT_OUT) for dbw in levels if dbw.size), default=pmax_dbw)
    span_db = min(max(pmax_dbw - lowest, _LEAST_SPAN_DB), _MOST_SPAN_DB)
    bins = math.ceil(span_db / _BIN_DB)
    return pmax_dbw - _BIN_DB * np.arange(bins, -1, -1, dtype=np.float64)


def _transmitting_dbw(power: Tensor) -> _Levels:
    return np.asarray(10 * power[power > 0].double().log10(), dtype=np.float64)


def _plot_panel(axes: Any, name: str, dbw: _Levels, worker_rounds: int, edges: _Levels) -> None:
    # A float32 Pmax may exceed the last edge by its rounding.
    shown = np.minimum(dbw, edges[-1])
    share = np.full(dbw.size, 1 / worker_rounds)
    axes.hist(shown, bins=edges, weights=share, color=look_of(name).colour)
    axes.yaxis.set_major_formatter(lambda share, _place: f"{100 * share:g} %")
    axes.locator_params(axis="y", nbins=3)
    axes.text(
        0.01,
        0.95,
        f"{name}\nsilent {100 * (1 - dbw.size / worker_rounds):.0f} %",
        transform=axes.transAxes,
        ha="left",
        va="top",
        fontsize=8,
    )
