"""Final errors of the policies of one federation against those of a lossless uplink."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator

from feduplink.federated.federated_history import FINAL_ROUNDS, FederatedHistory
from feduplink.report.style import MUTED, Look, looks_of, marker_style

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
    linear = _linear_range([_standard_error(values) for values in compared])
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
    mean, spread = _mean(differences), _standard_error(differences)
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
    final, mean, spread = _mean(finals), _mean(differences), _standard_error(differences)
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


def _mean(values: _Values) -> float:
    """NaN if any value is not finite."""
    return float(values.mean()) if np.isfinite(values).all() else math.nan


def _standard_error(values: _Values) -> float:
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
