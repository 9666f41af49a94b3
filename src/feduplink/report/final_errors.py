"""Final errors of the policies of one federation against those of a lossless uplink."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator

from feduplink.federated.history import FINAL_ROUNDS, FederatedHistory
from feduplink.report.style import MUTED, looks_of, marker_style

#: What others are compared with where it is among them; else the first policy.
_REFERENCE = "ideal"
#: The axis is linear up to a power of ten from here to there; to this one with a single run.
_LEAST, _MOST, _UNKNOWN = -6, -1, -3

_Values = np.ndarray[Any, np.dtype[np.float64]]


def plot_final_errors(axes: Any, history: FederatedHistory, top: float) -> None:
    """One row per policy: its final error less the reference's, run by run and on average.

    Runs are paired: those of the same number have the same data and channels, so their difference
    shows what the spread of the runs hides. The axis is linear around zero and logarithmic
    outside; a difference above ``top`` is an arrow at its end. Written at the right: the final
    error, and the difference with its standard error over the runs.
    """
    names = list(history.policies)
    reference = _REFERENCE if _REFERENCE in names else names[0]
    finals = {name: np.array(history.final_errors(name)) for name in names}
    with np.errstate(invalid="ignore"):  # infinite errors of models that diverge
        differences = {name: finals[name] - finals[reference] for name in names}
        spreads = {name: _standard_error(values) for name, values in differences.items()}
    others = [name for name in names if name != reference]
    linear = _linear_range([spreads[name] for name in others])
    axes.set_xscale("symlog", linthresh=linear, linscale=1.0)
    shown = [differences[name][np.abs(differences[name]) <= top] for name in others]
    furthest = max((float(np.abs(values).max()) for values in shown if len(values)), default=0.0)
    end = max(1.5 * furthest, 2 * linear)
    lowest = min((float(values.min()) for values in shown if len(values)), default=0.0)
    start = min(1.5 * lowest, -linear)
    axes.set_xlim(start, end)
    axes.axvline(0.0, color="black", linewidth=1.0)
    for place, (name, look) in enumerate(looks_of(names).items()):
        values = differences[name]
        mean = float(np.mean(values)) if np.isfinite(values).all() else np.nan
        inside = values[np.isfinite(values) & (values <= end)]
        if len(values) > 1 and name != reference:
            axes.plot(inside, [place] * len(inside), "|", color=look.colour, markersize=6)
        if start <= mean <= end:
            if np.isfinite(spreads[name]):
                ends = [max(mean - spreads[name], start), min(mean + spreads[name], end)]
                axes.plot(ends, [place, place], color=look.colour, linewidth=2.2)
            axes.plot(mean, place, zorder=3, **marker_style(look))
        else:
            axes.annotate(
                "→", (1.0, place), xycoords=("axes fraction", "data"), ha="right", va="center"
            )
        axes.annotate(
            _written(float(np.mean(finals[name])), mean, spreads[name], name == reference),
            (1.02, place),
            xycoords=("axes fraction", "data"),
            ha="left",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    ticks = _ticks(linear, start, end)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.set_xlabel(f"final error (last {FINAL_ROUNDS} rounds) less that of {reference}")
    axes.set_title(
        "ticks: runs; bar: standard error; right: error, difference",
        fontsize=8,
        color=MUTED,
        loc="right",
    )


def _written(final: float, mean: float, spread: float, is_reference: bool) -> str:
    error = f"{final:.4f}" if final < 10 else f"{final:.1e}" if np.isfinite(final) else "diverged"
    if is_reference or not np.isfinite(mean) or final >= 10:
        return error
    if not spread > 0:
        return f"{error}  {mean:+.1g}".replace("-", "−")
    # As many decimals as the standard error has up to its first digit, or the one after a 1.
    exponent = math.floor(math.log10(spread))
    decimals = max(0, -exponent + (spread < 2 * 10.0**exponent))
    difference = f"{mean:+.{decimals}f}".replace("-", "−")
    return f"{error}  {difference} ± {spread:.{decimals}f}"


def _standard_error(values: _Values) -> float:
    """Of the mean; NaN with a single run."""
    if len(values) == 1:
        return float("nan")
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _linear_range(spreads: list[float]) -> float:
    """The power of ten above the typical standard error."""
    known = [spread for spread in spreads if spread > 0 and math.isfinite(spread)]
    exponent = math.ceil(math.log10(np.median(known))) if known else _UNKNOWN
    return float(10.0 ** np.clip(exponent, _LEAST, _MOST))


def _ticks(linear: float, start: float, end: float) -> list[float]:
    decades = [linear * 10.0**n for n in range(8)]
    ticks = [0.0, *decades, *(-decade for decade in decades)]
    return sorted(tick for tick in ticks if start <= tick <= end)
