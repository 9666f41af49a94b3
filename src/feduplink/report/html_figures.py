"""Figures as HTML: drawings inline, so that they take the colours of the page around them."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from markupsafe import Markup
from PIL import Image

from feduplink.errors import InputError
from feduplink.report.run_files import read_run_file, read_run_text, run_files
from feduplink.report.style import DOTS_PER_INCH, NEUTRAL
from feduplink.report.svg_drawing import LINK, SVG, parse_drawing

#: Of a file, and of a picture: some ten times what ours have.
_MOST_BYTES = 1 << 23
_MOST_PIXELS = 40_000_000

#: CSS pixels.
_PIXELS_PER_INCH = 96
_PIXELS_PER_POINT = _PIXELS_PER_INCH / 72
_WIDEST = 10_000


@dataclass(frozen=True)
class HtmlFigure:
    """A figure for a page.

    Attributes:
        name: of its file, without the ending.
        caption: what there is to see.
        width: at its natural size, CSS pixels.
        html: the ``svg`` or ``img`` element.

    """

    name: str
    caption: str
    width: int
    html: Markup


def read_figures(directory: Path, prefix: str) -> list[HtmlFigure]:
    """The figures of a run by name: the SVG file, or the PNG file where there is no other.

    ``prefix`` begins the ids inside the drawings: two of them on one page must not share any.
    """
    names = {path.stem for suffix in (".svg", ".png") for path in run_files(directory, suffix)}
    figures = []
    for number, name in enumerate(sorted(names), 1):
        drawing, picture = directory / f"{name}.svg", directory / f"{name}.png"
        figure = _drawing(drawing, f"{prefix}-{number}-") if drawing.exists() else None
        if figure is None and picture.exists():
            figure = _picture(picture)
        if figure is not None:
            figures.append(figure)
    return figures


def _drawing(path: Path, prefix: str) -> HtmlFigure | None:
    """The drawing as an element of the page; None if it is none of ours."""
    try:
        found = parse_drawing(read_run_text(path, _MOST_BYTES))
    except ElementTree.ParseError:
        raise InputError(f"{path}: is damaged; accepted: a whole SVG file.") from None
    if found is None:
        return None
    root, title = found
    caption = title or path.stem
    width, height = (root.attrib.pop(name, "") for name in ("width", "height"))
    if not (width.endswith("pt") and height.endswith("pt")):
        return None
    for element in root.iter():
        _adapt(element, prefix)
    root.attrib |= {"role": "img", "aria-label": caption}
    html = Markup(ElementTree.tostring(root, encoding="unicode"))
    pixels = float(width.removesuffix("pt")) * _PIXELS_PER_POINT
    return HtmlFigure(path.stem, caption, round(min(max(pixels, 1), _WIDEST)), html)


def _adapt(element: ElementTree.Element, prefix: str) -> None:
    """No namespaces, which HTML does not have; ids of its own; the colours of the page."""
    element.tag = element.tag.removeprefix(SVG)
    element.tail = element.text = None  # only the file's line breaks
    if (link := element.attrib.pop(LINK, None)) is not None:
        element.set("href", f"#{prefix}{link[1:]}" if link.startswith("#") else link)
    if (own := element.get("id")) is not None:
        element.set("id", prefix + own)
    for name, value in element.attrib.items():
        element.set(name, value.replace("url(#", f"url(#{prefix}"))
    if (style := element.get("style")) is not None:
        for colour, role in NEUTRAL.items():
            style = style.replace(colour, f"var(--{role})")
        element.set("style", style)


def _picture(path: Path) -> HtmlFigure:
    content = read_run_file(path, _MOST_BYTES)
    try:
        # Pillow knows formats that have other programs read them.
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            width, height = image.size
            if width * height > _MOST_PIXELS:
                raise ValueError("more pixels than a figure has")
            caption = str(image.info.get("Title", path.stem))
            image.load()
    # SyntaxError for a broken part inside, ValueError for a text that unpacks to too much.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise InputError(
            f"{path}: is damaged or too large; accepted: a whole PNG file of no more than "
            f"{_MOST_PIXELS} pixels."
        ) from None
    data = base64.b64encode(content).decode("ascii")
    html = Markup('<img src="data:image/png;base64,{}" alt="{}" width="{}" height="{}">').format(
        data, caption, width, height
    )
    return HtmlFigure(path.stem, caption, round(width / DOTS_PER_INCH * _PIXELS_PER_INCH), html)
