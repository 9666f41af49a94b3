"""Drawings that may become part of a page: only what figures of ours are drawn with.

An allow-list of elements, of attributes and of what these may say. Sanitisers for HTML do not know
which styles and references a drawing needs, and take its case-sensitive names for HTML's; ours
needs nine elements.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"

_ELEMENTS = {"svg", "g", "defs", "clipPath", "pattern", "path", "rect", "use", "image"}
#: Not needed inside a page: the page has the caption, and the style applies to all of it.
_LEFT_OUT = {"title", "metadata", "style"}

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NUMBERS = rf"\s*{_NUMBER}(?:[\s,]+{_NUMBER})*\s*"
_NAME = r"[\w.-]+"
_REFERENCE = rf"url\(#{_NAME}\)"
_PAINT = rf"(?:none|#[0-9a-fA-F]{{3,8}}|{_REFERENCE})"
_ATTRIBUTES = {
    name: re.compile(pattern)
    for name, pattern in {
        "id": _NAME,
        "width": rf"{_NUMBER}(?:pt)?",
        "height": rf"{_NUMBER}(?:pt)?",
        "x": _NUMBER,
        "y": _NUMBER,
        "viewBox": _NUMBERS,
        "version": r"1\.1",
        "d": r"[MLHVCSQTAZmlhvcsqtaz0-9eE+\-.,\s]*",
        "transform": rf"(?:\s*(?:matrix|translate|scale|rotate)\({_NUMBERS}\))*\s*",
        "clip-path": _REFERENCE,
        "patternUnits": "userSpaceOnUse",
        "fill": _PAINT,
        LINK: rf"#{_NAME}|data:image/png;base64,[A-Za-z0-9+/=\s]*",
    }.items()
}
_STYLES = {
    name: re.compile(pattern)
    for name, pattern in {
        "fill": _PAINT,
        "stroke": _PAINT,
        "stroke-width": _NUMBER,
        "stroke-linecap": "butt|round|square",
        "stroke-linejoin": "miter|round|bevel",
        "stroke-dasharray": rf"none|{_NUMBERS}",
        "stroke-dashoffset": _NUMBER,
        "stroke-miterlimit": _NUMBER,
        "stroke-opacity": _NUMBER,
        "fill-opacity": _NUMBER,
        "fill-rule": "evenodd|nonzero",
        "opacity": _NUMBER,
        "image-rendering": "[a-z-]+",
    }.items()
}
#: Ours are a few levels deep; what is written out by recursion must not be without end.
_DEEPEST = 50


def parse_drawing(text: str) -> tuple[ElementTree.Element, str | None] | None:
    """The drawing and its title; None if it is none of ours. ``ParseError`` if it is no XML."""
    if "<!entity" in text.lower():  # with which a line can stand for gigabytes
        return None
    root = ElementTree.fromstring(text)
    if root.tag != f"{SVG}svg" or _is_deep(root):
        return None
    title = root.findtext(f"{SVG}title")
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.removeprefix(SVG) in _LEFT_OUT:
                parent.remove(child)
    return (root, title) if all(map(_is_ours, root.iter())) else None


def _is_deep(root: ElementTree.Element) -> bool:
    level = [root]
    for _ in range(_DEEPEST):
        level = [child for element in level for child in element]
    return bool(level)


def _is_ours(element: ElementTree.Element) -> bool:
    return element.tag.removeprefix(SVG) in _ELEMENTS and all(
        _is_accepted_style(value)
        if name == "style"
        else name in _ATTRIBUTES and _ATTRIBUTES[name].fullmatch(value)
        for name, value in element.attrib.items()
    )


def _is_accepted_style(text: str) -> bool:
    declarations = (part.partition(":") for part in text.split(";") if part.strip())
    return all(
        name.strip() in _STYLES and _STYLES[name.strip()].fullmatch(value.strip())
        for name, _, value in declarations
    )
