"""How policies and figures look, the same everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from feduplink.files import replaced_atomically


@dataclass(frozen=True)
class Look:
    """Colour and marker of a policy in all figures."""

    colour: str
    marker: str


#: The colours of Okabe and Ito, which stay apart with colour-blind eyes.
LOOKS = {
    "rand": Look("#999999", "v"),
    "orth": Look("#E69F00", "^"),
    "max": Look("#8C510A", "s"),
    "openloop": Look("#56B4E9", "D"),
    "pdm": Look("#CC79A7", "P"),
    "pdg": Look("#0072B2", "o"),
    "pdx": Look("#D55E00", "*"),
    "dual": Look("#009E73", "X"),
    "ideal": Look("#000000", "h"),
    "optimum": Look("#6A3D9A", "p"),
}

_OTHER = Look("#333333", ".")

#: Colours of figures that are no policy's.
MUTED, GRID, SHADE = "#444444", "#e5e5e5", "#dddddd"

#: The neutral colours: on a dark page they turn, while the policies' colours stay.
NEUTRAL = {
    "#000000": "ink",
    _OTHER.colour: "ink",
    MUTED: "muted",
    "#ffffff": "paper",
    GRID: "grid",
    SHADE: "shade",
}

#: Of the PNG files.
DOTS_PER_INCH = 150

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.w_pad": 0.08,
    "savefig.dpi": DOTS_PER_INCH,
    # Text as outlines looks the same everywhere; the salt gives equal figures equal files.
    "svg.fonttype": "path",
    "svg.hashsalt": "feduplink",
}


def look_of(name: str) -> Look:
    """The look of a policy; ``pdg:runs/a``, one of several, looks like ``pdg``."""
    return LOOKS.get(name.partition(":")[0], _OTHER)


@contextlib.contextmanager
def figure(path: Path, width: float, height: float, caption: str = "") -> Iterator[Figure]:
    """A figure of the given size in inches that ends as the PNG file ``path`` and an SVG twin.

    Both files carry ``caption``, what there is to see, for whoever shows or reads them out.
    Neither pyplot nor a backend is involved: the caller's matplotlib stays as it is.
    """
    with matplotlib.rc_context(_RC):
        drawing = Figure(figsize=(width, height), layout="constrained")
        yield drawing
        title = {"Title": caption or path.stem.replace("-", " ")}
        with (
            replaced_atomically(path) as png,
            replaced_atomically(path.with_suffix(".svg")) as svg,
        ):
            drawing.savefig(png, format="png", metadata=title)
            drawing.savefig(svg, format="svg", metadata={**title, "Date": None})
