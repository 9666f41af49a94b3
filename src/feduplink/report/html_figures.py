"""Figures as HTML: drawings inline, so that they take the colours of the page around them."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from markupsafe import Markup
from PIL import Image

from feduplink.errors import InputError
from feduplink.report.style import DOTS_PER_INCH, NEUTRAL

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
#: What a figure of ours is drawn with; a drawing with anything else is not let into the page.
_DRAWN_WITH = {"svg", "g", "defs", "clipPath", "pattern", "path", "rect", "use", "image"}
#: Not needed inside a page: the page has the caption, and the style applies to all of it.
_LEFT_OUT = {"title", "metadata", "style"}

#: A reference to anything but a part of the same drawing.
_FOREIGN = re.compile(r"url\((?!#)")

#: CSS pixels.
_PIXELS_PER_INCH = 96
_PIXELS_PER_POINT = _PIXELS_PER_INCH / 72


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
    names = {path.stem for path in directory.iterdir() if path.suffix in (".svg", ".png")}
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
        root = ElementTree.fromstring(path.read_bytes())
    except ElementTree.ParseError:
        raise InputError(f"{path}: is damaged; accepted: a whole SVG file.") from None
    caption = root.findtext(f"{_SVG}title") or path.stem
    _leave_out(root)
    if not _is_ours(root):
        return None
    for element in root.iter():
        _adapt(element, prefix)
    width = float(root.attrib.pop("width").removesuffix("pt")) * _PIXELS_PER_POINT
    del root.attrib["height"]
    root.attrib |= {"role": "img", "aria-label": caption}
    html = Markup(ElementTree.tostring(root, encoding="unicode"))
    return HtmlFigure(path.stem, caption, round(width), html)


def _leave_out(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.removeprefix(_SVG) in _LEFT_OUT:
                parent.remove(child)


def _is_ours(root: ElementTree.Element) -> bool:
    """Whether it is drawn as ours are, and brings nothing that runs or comes from elsewhere."""
    return root.get("width", "").endswith("pt") and all(
        element.tag.removeprefix(_SVG) in _DRAWN_WITH
        and element.get(_LINK, "#").startswith(("#", "data:image/png;base64,"))
        and not any(name.startswith("on") or name == "href" for name in element.attrib)
        and not any(_FOREIGN.search(value) for value in element.attrib.values())
        for element in root.iter()
    )


def _adapt(element: ElementTree.Element, prefix: str) -> None:
    """No namespaces, which HTML does not have; ids of its own; the colours of the page."""
    element.tag = element.tag.removeprefix(_SVG)
    element.tail = element.text = None  # only the file's line breaks
    if (link := element.attrib.pop(_LINK, None)) is not None:
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
    try:
        with Image.open(path) as image:
            width, height = image.size
            caption = str(image.info.get("Title", path.stem))
            image.load()
    except (OSError, SyntaxError):  # the latter for a broken part inside
        raise InputError(f"{path}: is damaged; accepted: a whole PNG file.") from None
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    html = Markup('<img src="data:image/png;base64,{}" alt="{}" width="{}" height="{}">').format(
        data, caption, width, height
    )
    return HtmlFigure(path.stem, caption, round(width / DOTS_PER_INCH * _PIXELS_PER_INCH), html)
