"""The look of figures: colours and markers of policies, axes, files."""

from __future__ import annotations

import contextlib
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from feduplink.errors import InputError
from feduplink.optimum import OPTIMUM as OPTIMUM
from feduplink.registry import POLICIES
from feduplink.storage.files import replaced_atomically

try:
    import matplotlib
    from matplotlib.colors import to_hex, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator
except ModuleNotFoundError:
    raise InputError(
        "plots: matplotlib is not installed; accepted after pip install 'feduplink[plots]'."
    ) from None


@dataclass(frozen=True)
class Look:
    """Look of a policy in all figures.

    Attributes:
        colour: colour of its line, markers and bars.
        marker: matplotlib's name of its marker.
        line: matplotlib's line style.
        variant: whether it is a variant of another policy, as ``pdx:unaware``; variants have
            smaller markers and hatched bars.

    """

    colour: str
    marker: str
    line: str = "-"
    variant: bool = False

    @property
    def hatch(self) -> str:
        """Hatch of bars and boxes."""
        return "////" if self.variant else ""


#: Colours, also those of the classes of policies, are from the palettes of Okabe and Ito and of
#: Tol, which can be told apart by the colour-blind.
_OPTIMUM_LOOK = Look("#6A3D9A", "p", "--")
#: Looks of user-defined policies: colours far from those above and from each other, for normal,
#: protanopic and deuteranopic vision, with markers that no other policy has.
_FURTHER_LOOKS = (
    Look("#6060F0", "d"),
    Look("#784830", "8"),
    Look("#90C078", "H"),
    Look("#6000A8", "d"),
    Look("#609048", "8"),
    Look("#4890F0", "H"),
)
#: Line style of the first variant of a policy, of the second, ..., and the share by which its
#: colour is lightened: lines that cross cannot be told apart by their dashes alone.
_VARIANT_LINES = (("--", 0.0), (":", 0.3), ("-.", 0.5))
#: Further user-defined policies have the same colours with these markers and line styles.
_FURTHER_MARKS = (("X", "--"), ("*", ":"), ("P", "-."))
_ALL_FURTHER_LOOKS = (
    *_FURTHER_LOOKS,
    *(Look(look.colour, mark, line) for mark, line in _FURTHER_MARKS for look in _FURTHER_LOOKS),
)

#: Colours of text, grid and shaded areas.
MUTED, GRID, SHADE = "#444444", "#e5e5e5", "#dddddd"

#: Most entries in a row of a legend.
_LEGEND_ENTRIES = 9

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
    "hatch.linewidth": 0.6,
    "figure.constrained_layout.w_pad": 0.08,
    "savefig.dpi": 150,
    # Text as outlines looks the same everywhere; the salt gives equal figures equal files.
    "svg.fonttype": "path",
    "svg.hashsalt": "feduplink",
}


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """Return the looks of the policies of one figure, distinct as long as there are enough.

    The first variant of a policy, as ``pdg:runs/a``, has the colour of ``pdg``, the next ones
    lighter tints of it, and each its own line style. An unknown name has the same look in every
    figure, unless another policy of the figure has it already.
    """
    names = list(dict.fromkeys(names))
    families = list(dict.fromkeys(name.partition(":")[0] for name in names))
    own = {family: _own_look(family) for family in families}
    further = _further_looks([family for family, look in own.items() if look is None])
    counts: Counter[str] = Counter()
    looks = {}
    for name in names:
        family, _, variant = name.partition(":")
        look = own[family] or further[family]
        if variant:
            line, tint = _VARIANT_LINES[counts[family] % len(_VARIANT_LINES)]
            counts[family] += 1
            look = replace(look, colour=_tinted(look.colour, tint), line=line, variant=True)
        looks[name] = look
    return looks


def _tinted(colour: str, share: float) -> str:
    """Return the colour, lightened by a share of its distance to white."""
    red, green, blue = (channel + share * (1 - channel) for channel in to_rgb(colour))
    return to_hex((red, green, blue)).upper()


def look_of(name: str) -> Look:
    """Return the look of a policy that is alone in its figure."""
    return looks_of([name])[name]


def _own_look(family: str) -> Look | None:
    """Return the look that the class of a policy has; None without one."""
    if family == OPTIMUM:
        return _OPTIMUM_LOOK
    if family not in POLICIES.names():
        return None
    # Not an inherited look: a class derived from a shipped policy is another policy.
    own = getattr(POLICIES.find(family), "__dict__", {})
    colour, marker = own.get("colour"), own.get("marker")
    return Look(colour, marker) if colour and marker else None


def _further_looks(families: Sequence[str]) -> dict[str, Look]:
    """Return a look by checksum of each name; the next free one where it is taken."""
    free = list(_ALL_FURTHER_LOOKS)
    found = {}
    for family in families:
        free = free or list(_ALL_FURTHER_LOOKS)
        first = _FURTHER_LOOKS[zlib.crc32(family.encode()) % len(_FURTHER_LOOKS)]
        look = first if first in free else free[0]
        free.remove(look)
        found[family] = look
    return found


def marker_style(look: Look, feasible: bool | None = True, size: float = 6.0) -> dict[str, Any]:
    """Return the arguments of ``axes.plot`` for a policy's marker.

    Args:
        look: look of the policy.
        feasible: filled if True, hollow if False, half-filled if None (inconclusive).
        size: size in points.
    """
    return {
        "marker": look.marker,
        "color": look.colour,
        "markersize": 0.7 * size if look.variant else size,
        "markerfacecolor": "white" if feasible is False else look.colour,
        "markerfacecoloralt": "white",
        "fillstyle": "left" if feasible is None else "full",
        "linestyle": "none",
    }


def feasibility_note(feasible: Iterable[bool | None]) -> str:
    """Explain the markers of :func:`marker_style` that occur, in words."""
    words = {
        True: "filled marks: feasible",
        None: "half-filled: inconclusive",
        False: "hollow: infeasible or silent",
    }
    occurring = set(feasible)
    return "; ".join(text for kind, text in words.items() if kind in occurring)


def legend_columns(entries: int) -> int:
    """Number of columns of a legend below a wide figure, whose rows have about equal lengths."""
    rows = -(-entries // _LEGEND_ENTRIES)
    return -(-entries // max(rows, 1))


class StyledFigure(Figure):
    """A figure that is saved and shown with the style it was drawn with, whatever the caller's is.

    Attributes:
        caption: alternative text of the figure.
    """

    def __init__(self, width: float, height: float, caption: str = "") -> None:
        """Create a figure of the given size in inches."""
        super().__init__(figsize=(width, height), layout="constrained")
        self.caption = caption

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Save the figure as matplotlib does, in this style."""
        with matplotlib.rc_context(_RC):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        """Return the PNG image for a notebook."""
        picture = io.BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()


@contextlib.contextmanager
def figure(width: float, height: float, caption: str = "") -> Iterator[StyledFigure]:
    """A new figure of the given size in inches; what the block draws has the common style.

    Neither pyplot nor a backend is involved: the caller's matplotlib stays as it is.
    """
    with matplotlib.rc_context(_RC):
        yield StyledFigure(width, height, caption)


def save_figure(path: Path, drawing: StyledFigure) -> None:
    """Write the figure as the PNG file ``path`` and its SVG twin, both with their caption."""
    title = {"Title": drawing.caption or path.stem.replace("-", " ")}
    with replaced_atomically(path) as png, replaced_atomically(path.with_suffix(".svg")) as svg:
        drawing.savefig(png, format="png", metadata=title)
        drawing.savefig(svg, format="svg", metadata={**title, "Date": None})


#: Objectives nearer to 1 than this are drawn there.
_NEAREST = 1e-7
#: Candidates for ticks, those first that are wanted most.
_TICKS = (
    *(0.0, 0.9, 0.99, 0.999, 0.5, 0.8, 0.95, 0.98, 0.995, 0.998),
    *(0.2, 0.7, 0.6, 0.4, 0.3, 0.1, 0.85, 0.75, 0.97, 0.96, 0.93, 0.94, 0.92, 0.91),
)
#: Least distance of two ticks as a share of the axis.
_TICK_DISTANCE = 0.11


def set_objective_scale(
    axes: Any, which: Literal["x", "y"], values: Iterable[float], margin: float = 0.06
) -> bool:
    """An axis logarithmic in 1 − objective, labelled with the objective.

    It separates 0.9706 from 0.9761 as well as 0.2 from 0.35. For objectives in [0, 1) that differ,
    with at least one above 1/2; otherwise the axis is left alone. Returns whether it was set.
    """
    known = np.array([value for value in values if np.isfinite(value)])
    if not len(known) or known.min() < 0 or not 0.5 < known.max() < 1:
        return False
    low, high = _stretched(known.min()), _stretched(known.max())
    if not low < high:
        return False
    room = margin * (high - low)
    ends = (low - room, high + room)
    getattr(axes, f"set_{which}scale")("function", functions=(_stretched, _shrunk))
    getattr(axes, f"set_{which}lim")(*map(_shrunk, ends))
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(FixedLocator(_ticks(*ends)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(FixedLocator([]))
    return True


def objective_label(stretched: bool) -> str:
    """The label of an axis that :func:`set_objective_scale` did or did not set."""
    return "objective (log scale of 1 − objective)" if stretched else "objective (higher is better)"


def _stretched(objective: Any) -> Any:
    return -np.log10(np.maximum(1 - np.asarray(objective, float), _NEAREST))


def _shrunk(stretched: Any) -> Any:
    return 1 - 10 ** -np.asarray(stretched, float)


def _ticks(low: float, high: float) -> list[float]:
    """The most wanted objectives between two stretched ones that keep their distance."""
    taken: list[float] = []
    for tick in _TICKS:
        at = float(_stretched(tick))
        apart = all(abs(at - _stretched(t)) >= _TICK_DISTANCE * (high - low) for t in taken)
        if low <= at <= high and apart:
            taken.append(tick)
    return sorted(taken)
