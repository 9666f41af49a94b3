"""Names written at the ends of lines, clear of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: Least distance of two names as a share of the axis' height.
_DISTANCE = 0.062


class LineEnd(NamedTuple):
    """Where a line ends, and what is written there."""

    x: float
    y: float
    text: str
    colour: str


def label_line_ends(axes: Any, ends: Sequence[LineEnd], distance: float = _DISTANCE) -> None:
    """Write each text to the right of the axes, joined to the end of its line.

    The axes' limits must be final. Ends that are not finite or off the axis are left out.
    """
    placed = []
    for end in ends:
        if np.isfinite(end.y):
            height = _height(axes, end)
            if -0.01 <= height <= 1.01:
                placed.append((height, end))
    placed.sort(key=lambda pair: pair[0])
    heights = _spread([height for height, _ in placed], distance)
    for height, (_, end) in zip(heights, placed, strict=True):
        axes.annotate(
            end.text,
            (end.x, end.y),
            xytext=(1.04, height),
            textcoords="axes fraction",
            ha="left",
            va="center",
            fontsize=8,
            color=end.colour,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": end.colour,
                "linewidth": 0.6,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def _height(axes: Any, end: LineEnd) -> float:
    place = axes.transData.transform((end.x, end.y))
    return float(axes.transAxes.inverted().transform(place)[1])


def _spread(heights: Sequence[float], distance: float) -> list[float]:
    """Rising heights moved as little as needed to be ``distance`` apart, within [0, 1] if room."""
    # Neighbours that would overlap form a group, centred where its members want to be.
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _lowest(groups[-1], distance) < (
            _lowest(groups[-2], distance) + len(groups[-2]) * distance
        ):
            last = groups.pop()
            groups[-1] += last
    return [_lowest(group, distance) + n * distance for group in groups for n in range(len(group))]


def _lowest(group: Sequence[float], distance: float) -> float:
    """Height of the lowest name of a group."""
    length = distance * (len(group) - 1)
    centred = float(np.mean(group)) - length / 2
    return min(max(centred, 0.0), max(1.0 - length, 0.0))
