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
    from matplotlib.lines import Line2D
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


#: Colours, also those of the classes of policies: in the order of the palettes of Okabe and Ito and
#: of Tol, moved to a contrast of at least 3:1 with white and with the dark paper, and apart from
#: each other for normal, protanopic and deuteranopic vision.
_OPTIMUM_LOOK = Look("#822CF6", "p", "--")
#: Looks of user-defined policies, with markers that no other policy has.
_FURTHER_LOOKS = (
    Look("#6E69FF", "d"),
    Look("#A44D00", "8"),
    Look("#59A45E", "H"),
    Look("#AE24B9", "d"),
    Look("#1F7505", "8"),
    Look("#5A90FF", "H"),
)
#: Line style of the first variant of a policy, of the second, ..., and the share by which its
#: colour is lightened or darkened, as far as the contrast allows: lines that cross cannot be told
#: apart by their dashes alone.
_VARIANT_LINES = (("--", 0.0), (":", 1.0), ("-.", 0.5))
#: Further user-defined policies have the same colours with these markers and line styles.
_FURTHER_MARKS = (("X", "--"), ("*", ":"), ("P", "-."))
_ALL_FURTHER_LOOKS = (
    *_FURTHER_LOOKS,
    *(Look(look.colour, mark, line) for mark, line in _FURTHER_MARKS for look in _FURTHER_LOOKS),
)

#: Colours of secondary text, grid and shaded areas on white paper.
MUTED, GRID, SHADE = "#444444", "#e5e5e5", "#dddddd"
#: Paper, text, secondary text, grid and shaded areas where the reader prefers dark pages.
DARK_PAPER, DARK_INK, DARK_MUTED = "#16181c", "#e6e8eb", "#b4bac4"
DARK_GRID, DARK_SHADE = "#2e3238", "#3d424b"
#: Smallest contrast of lines and marks with the paper, of either colour.
MIN_CONTRAST = 3.0
#: Colours of a drawing on white paper and what takes their place on dark paper.
_DARK_COLOURS = {
    "#ffffff": DARK_PAPER,
    "#000000": DARK_INK,
    MUTED: DARK_MUTED,
    GRID: DARK_GRID,
    SHADE: DARK_SHADE,
}

#: Steps in which a tint approaches the smallest contrast.
_TINT_STEPS = 100
#: Factors on the size of markers.
_MARKER_SIZES = {"*": 1.7, "P": 1.25, "X": 1.25, "h": 1.1, "p": 1.15, "v": 1.1, "^": 1.1}
#: Width of a legend's entry without its text, and of a character, inches.
_ENTRY_WIDTH, _CHARACTER_WIDTH = 0.6, 0.068
#: Most entries in a row of a legend.
_LEGEND_ENTRIES = 9

_RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
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
    # Text can be searched and copied; the salt gives equal figures equal files.
    "svg.fonttype": "none",
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


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colours, 1 to 21, as the WCAG 2 define it.

    (Y₁ + 0.05) / (Y₂ + 0.05) with the relative luminances Y₁ ≥ Y₂.

    >>> contrast("#ffffff", "#000000")
    21.0
    """
    bright, dim = sorted((_luminance(first), _luminance(second)), reverse=True)
    return round((bright + 0.05) / (dim + 0.05), 6)


def _luminance(colour: str) -> float:
    """Relative luminance of a colour in sRGB, 0 to 1."""
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _tinted(colour: str, share: float) -> str:
    """Lighten a dark colour, or darken a light one, as far as its contrast allows.

    Args:
        colour: of a policy.
        share: of the way to the last colour that contrasts with white and with the dark paper.
    """
    is_dark = contrast(colour, "white") > contrast(colour, DARK_PAPER)
    end, paper = (1.0, "white") if is_dark else (0.0, DARK_PAPER)
    mixed = colour
    for step in range(1, _TINT_STEPS + 1):
        mix = step / _TINT_STEPS
        red, green, blue = (channel + mix * (end - channel) for channel in to_rgb(colour))
        lighter = to_hex((red, green, blue)).upper()
        if contrast(lighter, paper) < MIN_CONTRAST:
            break
        mixed = lighter
    red, green, blue = (
        own + share * (last - own) for own, last in zip(to_rgb(colour), to_rgb(mixed), strict=True)
    )
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


def policy_title(name: str) -> str:
    """The name of a policy with its alias, if it has one.

    >>> policy_title("max"), policy_title("pdx")
    ('max (full power)', 'pdx')
    """
    for alias, meant in POLICIES.aliases.items():
        if meant == name and ":" not in name:
            return f"{name} ({alias.replace('-', ' ')})"
    return name


def marker_style(look: Look, feasible: bool | None = True, size: float = 6.0) -> dict[str, Any]:
    """Return the arguments of ``axes.plot`` for a policy's marker.

    Args:
        look: look of the policy.
        feasible: filled if True, hollow if False, half-filled if None (inconclusive).
        size: size in points.
    """
    # Stars and pluses have little area; larger ones show whether they are filled.
    size *= _MARKER_SIZES.get(look.marker, 1.0)
    return {
        "marker": look.marker,
        "color": look.colour,
        "markersize": 0.7 * size if look.variant else size,
        "markerfacecolor": "white" if feasible is False else look.colour,
        "markerfacecoloralt": "white",
        "markeredgewidth": 1.2,
        "fillstyle": "left" if feasible is None else "full",
        "linestyle": "none",
    }


#: What changes in :func:`marker_style` where no worker transmits.
SILENT_STYLE: dict[str, Any] = {"marker": "x", "markersize": 6.0, "fillstyle": "full"}

#: What the fillings of :func:`marker_style` mean.
_FEASIBILITY = {True: "feasible", None: "inconclusive", False: "infeasible"}


def feasibility_note(feasible: Iterable[bool | None]) -> str:
    """Explain the markers of :func:`marker_style` that occur, in words."""
    words = {
        True: "filled marks: feasible",
        None: "half-filled: inconclusive",
        False: "hollow: infeasible or silent",
    }
    occurring = set(feasible)
    return "; ".join(text for kind, text in words.items() if kind in occurring)


def feasibility_handles(feasible: Iterable[bool | None], *, silent: bool = False) -> list[Any]:
    """Entries of a legend that explain the markers that occur.

    Args:
        feasible: verdicts of the markers of :func:`marker_style`.
        silent: whether there are markers of :data:`SILENT_STYLE`.
    """
    occurring = set(feasible)
    look = Look(MUTED, "o")
    handles = [
        Line2D([], [], label=word, **marker_style(look, kind))
        for kind, word in _FEASIBILITY.items()
        if kind in occurring
    ]
    if silent:
        style = {**marker_style(look), **SILENT_STYLE}
        handles.append(Line2D([], [], label="silent", **style))
    return handles


def ask(drawing: StyledFigure, question: str) -> None:
    """Write the question that a figure answers above it, as its title."""
    drawing.suptitle(question, x=0.01, ha="left", fontsize=10.5, fontweight="bold")


def legend_columns(entries: int) -> int:
    """Number of columns of a legend below a wide figure, whose rows have about equal lengths."""
    rows = -(-entries // _LEGEND_ENTRIES)
    return -(-entries // max(rows, 1))


def fitting_columns(labels: Iterable[str], width: float) -> int:
    """Number of columns of a legend below a figure that is ``width`` inches wide."""
    longest = max(map(len, labels), default=0)
    return max(1, int(width / (_ENTRY_WIDTH + _CHARACTER_WIDTH * longest)))


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
        svg.write_bytes(_svg(drawing, {**title, "Date": None}))


def _svg(drawing: StyledFigure, metadata: dict[str, Any]) -> bytes:
    """The drawing with a style sheet for readers that prefer dark pages."""
    content = io.BytesIO()
    drawing.savefig(content, format="svg", metadata=metadata)
    rules = ["text {fill: " + DARK_INK + "}"]
    for light, dark in _DARK_COLOURS.items():
        rules += [
            f'[style*="{attribute}: {light}"] {{{attribute}: {dark} !important}}'
            for attribute in ("fill", "stroke")
        ]
    dark_style = f"@media screen and (prefers-color-scheme: dark) {{{' '.join(rules)}}}"
    return content.getvalue().replace(b"</style>", dark_style.encode() + b"</style>", 1)


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
    padding = margin * (high - low)
    ends = (low - padding, high + padding)
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
