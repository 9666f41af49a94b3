"""Finished runs as one self-contained HTML page.

An allow-list of elements, of attributes and of what these may say. Sanitisers for HTML do not know
which styles and references a drawing needs, and take its case-sensitive names for HTML's; ours
needs nine elements.
"""

from __future__ import annotations

import base64
import csv
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from feduplink.errors import InputError
from feduplink.progress import track
from feduplink.registry import POLICIES
from feduplink.reporting.style import DOTS_PER_INCH, NEUTRAL
from feduplink.storage.files import read_limited, write_text
from feduplink.storage.run_directory import FinishedRun

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markdown_it import MarkdownIt
    from markupsafe import Markup
    from PIL import Image
except ModuleNotFoundError as error:
    raise InputError(
        f"page: {error.name} is not installed; accepted after pip install 'feduplink[page]'."
    ) from None

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"

_ELEMENTS = {"svg", "g", "defs", "clipPath", "pattern", "path", "rect", "use", "image"}
#: Not needed inside a page: the page has the caption, and the style applies to all of it.
_DROPPED_ELEMENTS = {"title", "metadata", "style"}

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
            if child.tag.removeprefix(SVG) in _DROPPED_ELEMENTS:
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


def run_files(directory: Path, suffix: str) -> list[Path]:
    """The files that end with ``suffix``, by name."""
    return sorted(path for path in directory.iterdir() if path.suffix == suffix)


def read_run_file(path: Path, most_bytes: int) -> bytes:
    """The content of a file of the run in its directory; what a link leads to elsewhere is not.

    A page is passed on; it must not bring along what somebody had a name in a run lead to.
    """
    if not path.resolve().is_relative_to(path.parent.resolve()):
        raise InputError(f"{path}: leads out of its run; accepted: files of the run itself.")
    return read_limited(path, "report", most_bytes)


def read_run_text(path: Path, most_bytes: int) -> str:
    """The same as text in UTF-8."""
    try:
        return read_run_file(path, most_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no text; accepted: UTF-8.") from None


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


#: Longer tables are for programs, not for readers.
_MOST_ROWS = 200
#: Bytes of a file: some hundred times what tables of ours have, and ten times what lists have.
_MOST_MARKDOWN, _MOST_CSV = 1 << 18, 1 << 27
#: It has one row per epoch; the plot of convergence shows them.
_HISTORY_FILE = "history.csv"
#: Between a sign or a number and what belongs to it: no line ends there.
_INSEPARABLE = re.compile(r"(?<=[<>]=) (?=\d)|(?<=\d) (?=%)")


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with a header; ``numeric`` says of which columns all cells are numbers."""

    name: str
    header: list[str]
    numeric: list[bool]
    rows: list[list[str]]


def read_markdown(directory: Path) -> list[Markup]:
    """The Markdown files of a run by name, each table in a box of its own that scrolls."""
    # This preset knows tables and takes HTML as text; images would come from elsewhere.
    markdown = MarkdownIt("js-default").disable("image")
    markdown.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>\n')
    markdown.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return [
        Markup(markdown.render(_INSEPARABLE.sub("\N{NO-BREAK SPACE}", text)))
        for text in (read_run_text(path, _MOST_MARKDOWN) for path in run_files(directory, ".md"))
    ]


def read_csv_tables(directory: Path) -> list[CsvTable]:
    """The CSV files of a run that are short enough to be read, by name."""
    paths = [path for path in run_files(directory, ".csv") if path.name != _HISTORY_FILE]
    tables = [_csv_table(path) for path in paths]
    return [table for table in tables if len(table.rows) <= _MOST_ROWS]


def _csv_table(path: Path) -> CsvTable:
    """The table, or of one that is too long as many rows as tell."""
    try:
        lines = csv.reader(io.StringIO(read_run_text(path, _MOST_CSV), newline=""))
        header, *rows = itertools.islice(lines, _MOST_ROWS + 2)
        columns = list(zip(header, *rows, strict=True))
    except InputError:
        raise
    except (ValueError, csv.Error):  # also no header at all
        raise InputError(
            f"{path}: is damaged; accepted: CSV in UTF-8 with a header and rows of its length."
        ) from None
    numeric = [all(map(_is_number, cells)) for _name, *cells in columns]
    return CsvTable(path.name, header, numeric, rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell
    return True


PAGE_FILE = "report.html"

#: More sections than these get a table of contents.
_FEW_SECTIONS = 3

#: Never by colour alone.
_VERDICT_SIGNS = {"holds": "✓", "holds in part": "◐", "does not hold": "✗", "undecided": "?"}


@dataclass(frozen=True)
class Section:
    """All that the page shows of one run, read and ready."""

    anchor: str
    run: FinishedRun
    figures: list[HtmlFigure]
    tables: list[Markup]
    csv_tables: list[CsvTable]

    def as_metrics(self) -> dict[str, Any]:
        """Its entry in the ``metrics.json`` of the report."""
        return {
            "title": self.run.title,
            "directory": str(self.run.directory),
            "figures": [figure.name for figure in self.figures],
        }


def read_sections(runs: Sequence[FinishedRun]) -> list[Section]:
    """Read the figures and tables of the runs; an ``InputError`` names a file that is damaged."""
    return [
        Section(
            anchor=f"run-{number}",
            run=run,
            figures=read_figures(run.directory, prefix=f"run-{number}"),
            tables=read_markdown(run.directory),
            csv_tables=read_csv_tables(run.directory),
        )
        for number, run in enumerate(runs, 1)
    ]


@track("making the page", transient=True)
def write_page(directory: Path, sections: Sequence[Section]) -> Path:
    """Write the page into ``directory``; returns its path."""
    path = directory / PAGE_FILE
    write_text(path, render_page(sections))
    return path


def render_page(sections: Sequence[Section]) -> str:
    """The page: all claims, the contents if there are many sections, and the sections."""
    environment = Environment(
        loader=PackageLoader("feduplink", "reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": _duration, "setting": _setting}
    return environment.get_template("page.html").render(
        sections=sections,
        figure_count=sum(len(section.figures) for section in sections),
        claims=[(claim, section) for section in sections for claim in section.run.metrics.claims],
        policies=_summaries(sections),
        contents=len(sections) > _FEW_SECTIONS,
        signs=_VERDICT_SIGNS,
    )


def _summaries(sections: Sequence[Section]) -> dict[str, str]:
    """What the policies of all runs do, as far as their classes are known and say so."""
    names = dict.fromkeys(name for section in sections for name in section.run.metrics.policies)
    found = {}
    for name in names:
        if name in POLICIES.names() and (summary := getattr(POLICIES.find(name), "summary", "")):
            found[name] = str(summary)
    return found


def _duration(seconds: float) -> str:
    """In words, as exact as anybody asks for.

    >>> _duration(7.31), _duration(83), _duration(7500)
    ('7.31 s', '1 min 23 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _setting(value: object) -> str:
    """The value of a setting as it is typed on the command line."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_setting, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
