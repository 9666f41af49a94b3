"""Every policy against the certified optimum, setting by setting."""

from __future__ import annotations

import numpy as np

from feduplink.experiments.optimality_gap import OptimalityGap
from feduplink.reporting.style import (
    MUTED,
    OPTIMUM,
    StyledFigure,
    feasibility_note,
    figure,
    legend_columns,
    look_of,
    looks_of,
    marker_style,
)

#: Distances under this are drawn on a linear scale, those over it on a logarithmic one.
_LINEAR = 1e-3
#: Of a row's height, for the marks of all policies.
_USED = 0.8


def plot_gap(result: OptimalityGap, caption: str = "") -> StyledFigure:
    """Distances below the optimum; the bars are what the certificates leave open."""
    sweep = result.sweep
    looks = looks_of(name for name in sweep.policies if name != OPTIMUM)
    places = range(len(result.scenarios))
    with figure(10.5, 1.2 + 0.62 * len(result.scenarios), caption) as drawing:
        axes = drawing.subplots()
        axes.set_xscale("symlog", linthresh=_LINEAR)
        for place in places:
            open_gap = result.upper_bound[place] - result.optimum[place]
            axes.barh(
                place,
                -open_gap,
                height=0.8,
                color=look_of(OPTIMUM).colour,
                alpha=0.25,
                linewidth=0,
                label=None if place else "left open by the certificate",
            )
            for number, (name, look) in enumerate(looks.items()):
                distances = result.distances(name, place)
                if not distances:  # it misses a constraint, or does not exist here
                    continue
                gaps = np.array(distances)
                level = place + _USED / len(looks) * (number - (len(looks) - 1) / 2)
                axes.plot([gaps.min(), gaps.max()], [level, level], color=look.colour, alpha=0.5)
                style = marker_style(look, sweep.feasible(name, place))
                axes.plot(gaps.mean(), level, **style)
        for name, look in looks.items():
            axes.plot([], [], label=name, **marker_style(look))
        axes.axvline(0.0, color="black", linewidth=1.0)
        axes.set_yticks(places, result.scenarios)
        axes.set_yticks([place + 0.5 for place in places[:-1]], minor=True)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.grid(axis="y", which="minor", visible=True)
        axes.tick_params(axis="y", which="minor", length=0)
        ticks = [-1e-2, -1e-3, 0.0, 1e-3, 1e-2, 1e-1, 1.0]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("objective below the optimum (linear up to 0.001, then logarithmic)")
        drawing.legend(loc="outside lower center", ncols=legend_columns(len(looks) + 1))
        known = (
            sweep.feasible(name, place)
            for name in looks
            for place in places
            if sweep.policies[name][place]
        )
        drawing.suptitle(
            f"{feasibility_note(known)}; lines: from the worst to the best seed",
            fontsize=8,
            color=MUTED,
        )
    return drawing
