"""Every policy against the certified optimum, setting by setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from feduplink.experiments.optimality_gap import OptimalityGap
from feduplink.experiments.settings import OPTIMUM
from feduplink.report.style import figure, look_of

#: Distances under this are drawn on a linear scale, those over it on a logarithmic one.
_LINEAR = 1e-3
_SPREAD = 0.09


def plot_gap(path: Path, result: OptimalityGap, caption: str = "") -> None:
    """Distances below the optimum; the bars are what the certificates leave open."""
    sweep = result.sweep
    names = [name for name in sweep.policies if name != OPTIMUM]
    with figure(path, 10.5, 0.9 + 0.62 * len(result.scenarios), caption) as drawing:
        axes = drawing.subplots()
        axes.set_xscale("symlog", linthresh=_LINEAR)
        for place in range(len(result.scenarios)):
            open_gap = result.upper_bound[place] - result.optimum[place]
            axes.barh(place, -open_gap, height=0.8, color="#6A3D9A", alpha=0.25, linewidth=0)
            for number, name in enumerate(names):
                look = look_of(name)
                distances = result.distances(name, place)
                if distances is None:  # it misses a constraint
                    continue
                gaps = np.array(distances)
                level = place + _SPREAD * (number - (len(names) - 1) / 2)
                axes.plot([gaps.min(), gaps.max()], [level, level], color=look.colour, alpha=0.5)
                axes.plot(
                    gaps.mean(),
                    level,
                    marker=look.marker,
                    markersize=6,
                    color=look.colour,
                    linestyle="none",
                )
        for name in names:
            look = look_of(name)
            axes.plot([], [], look.marker, color=look.colour, label=name)
        axes.axvline(0.0, color="black", linewidth=1.0)
        axes.set_yticks(range(len(result.scenarios)), result.scenarios)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        ticks = [-1e-2, -1e-3, 0.0, 1e-3, 1e-2, 1e-1, 1.0]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("objective below the optimum (linear up to 0.001, then logarithmic)")
        drawing.legend(loc="outside lower center", ncols=len(names))
