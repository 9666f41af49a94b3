"""Finished runs as one self-contained HTML page.

What a run holds may come from elsewhere. Its drawings are images of the page, in which a browser
neither runs scripts nor loads anything; all texts are escaped; links to files are not followed.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from feduplink.errors import InputError
from feduplink.registry import POLICIES
from feduplink.storage.files import read_limited, write_text
from feduplink.storage.run_directory import FinishedRun

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markdown_it import MarkdownIt
    from markupsafe import Markup, escape
except ModuleNotFoundError as error:
    raise InputError(
        f"page: {error.name} is not installed; accepted after pip install 'feduplink[page]'."
    ) from None

_TITLE = "{http://www.w3.org/2000/svg}title"

#: Largest size of a file: some ten times that of our longest tables and drawings, and some hundred
#: times that of our Markdown, which takes longest to render.
_MAX_BYTES = 1 << 27
_MAX_MARKDOWN_BYTES = 1 << 18
#: Longer tables are for programs, not for readers.
_MAX_ROWS = 200
#: It has one row per epoch; the plot of convergence shows them.
_HISTORY_FILE = "history.csv"
#: A wider drawing, px, scrolls on a phone; a narrower one is scaled to its width.
_MAX_SCALED_WIDTH = 500.0
_PX_PER_PT = 96 / 72
#: Between a sign or a number and what belongs to it: no line ends there.
_INSEPARABLE = re.compile(
    r"(?<=[<>]=) (?=\d)|(?<=\d) (?=%|(?:s|ms|J|mJ|dB|dBm|dBW|W|mW|bit/s/Hz|Mbit/J)\b)"
)


@dataclass(frozen=True)
class HtmlFigure:
    """A figure for a page.

    Attributes:
        name: name of its file, without the suffix.
        caption: description of the figure.
        source: the SVG drawing as a ``data:`` URL.
        is_wide: whether it would be too small to be read if a phone showed all of it.

    """

    name: str
    caption: str
    source: str
    is_wide: bool = True


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with a header."""

    name: str
    header: list[str]
    rows: list[list[str]]


def read_figures(directory: Path) -> list[HtmlFigure]:
    """Return the SVG files of a run by name, with their titles as captions."""
    figures = []
    for path in _files(directory, ".svg"):
        content = read_limited(path, "report", _MAX_BYTES)
        try:
            drawing = ElementTree.fromstring(content)
        except ElementTree.ParseError:
            raise InputError(f"{path}: is damaged; accepted: a whole SVG file.") from None
        data = base64.b64encode(content).decode("ascii")
        source = f"data:image/svg+xml;base64,{data}"
        caption = drawing.findtext(_TITLE) or path.stem
        figures.append(HtmlFigure(path.stem, caption, source, _is_wide(drawing.get("width", ""))))
    return figures


def _is_wide(width: str) -> bool:
    """Whether a drawing of this width, such as ``360pt``, is wider than a phone can scale."""
    try:
        return float(width.removesuffix("pt")) * _PX_PER_PT > _MAX_SCALED_WIDTH
    except ValueError:  # another unit, or none
        return True


def read_markdown(directory: Path, anchor: str = "") -> list[Markup]:
    """Return the Markdown files of a run by name, each table in a box of its own that scrolls.

    Args:
        directory: of the run.
        anchor: of the section of the page, which tells the labels of the boxes apart.

    """
    return [
        _rendered_markdown(
            _text(path, _MAX_MARKDOWN_BYTES), ", ".join(filter(None, (path.stem, anchor)))
        )
        for path in _files(directory, ".md")
    ]


def _rendered_markdown(text: str, label: str) -> Markup:
    # This preset knows tables and takes HTML as text; images would come from elsewhere. Every
    # sentence below a table is on a line of its own.
    markdown = MarkdownIt("js-default", {"breaks": True}).disable("image")
    count = 0

    def open_table(_renderer: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
        nonlocal count
        count += 1
        number = f" {count}" if count > 1 else ""
        kind = ' class="verdict-last"' if _last_header(tokens[index:]) == "verdict" else ""
        region = f'tabindex="0" role="region" aria-label="{escape(f"Table {label}{number}")}"'
        return f'<div class="scroll" {region}><table{kind}>\n'

    markdown.add_render_rule("table_open", open_table)
    markdown.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return Markup(markdown.render(_inseparable(text)))


def _inseparable(text: str) -> str:
    """The text with no-break spaces between numbers and their units."""
    return _INSEPARABLE.sub("\N{NO-BREAK SPACE}", text)


def _last_header(tokens: Sequence[Any]) -> str:
    """Text of the last column's header of the table that the tokens begin with."""
    header = ""
    for token in tokens:
        if token.type == "thead_close":
            break
        if token.type == "inline":
            header = token.content
    return header


def read_csv_tables(directory: Path) -> list[CsvTable]:
    """Return the CSV files of a run that are short enough to be read, by name."""
    tables = []
    for path in _files(directory, ".csv"):
        text = _text(path, _MAX_BYTES)
        try:
            header, *rows = csv.reader(io.StringIO(text, newline=""))
        except (ValueError, csv.Error):  # no header, or a field of unusual length
            raise InputError(f"{path}: is damaged; accepted: CSV with a header.") from None
        if len(rows) <= _MAX_ROWS and path.name != _HISTORY_FILE:
            tables.append(CsvTable(path.name, header, rows))
    return tables


def _files(directory: Path, suffix: str) -> list[Path]:
    """Files by name, without links: a page is passed on, and shows only what is in the run."""
    return [path for path in sorted(directory.glob(f"*{suffix}")) if not path.is_symlink()]


def _text(path: Path, max_bytes: int) -> str:
    try:
        return read_limited(path, "report", max_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text; accepted: UTF-8.") from None


PAGE_FILE = "report.html"

#: More sections than these get a table of contents.
_FEW_SECTIONS = 3

#: Never by colour alone.
_VERDICT_SIGNS = {"holds": "✓", "holds in part": "◐", "does not hold": "✗", "undecided": "?"}


@dataclass(frozen=True)
class Section:
    """Content of the page on one run."""

    anchor: str
    run: FinishedRun
    figures: list[HtmlFigure]
    tables: list[Markup]
    csv_tables: list[CsvTable]

    def as_metrics(self) -> dict[str, Any]:
        """Return its entry in the ``metrics.json`` of the report."""
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
            figures=read_figures(run.directory),
            tables=read_markdown(run.directory, f"run-{number}"),
            csv_tables=read_csv_tables(run.directory),
        )
        for number, run in enumerate(runs, 1)
    ]


def write_page(directory: Path, sections: Sequence[Section]) -> Path:
    """Write the page into ``directory``; returns its path."""
    path = directory / PAGE_FILE
    write_text(path, render_page(sections))
    return path


def render_page(sections: Sequence[Section]) -> str:
    """Return the page: all claims, the contents if there are many sections, and the sections."""
    environment = Environment(
        loader=PackageLoader("feduplink", "reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": _duration,
        "setting": _setting,
        "inseparable": _inseparable,
    }
    return environment.get_template("page.html").render(
        sections=sections,
        figure_count=sum(len(section.figures) for section in sections),
        findings=[section for section in sections if section.run.metrics.findings],
        claims=[(claim, section) for section in sections for claim in section.run.metrics.claims],
        policies=_summaries(sections),
        contents=len(sections) > _FEW_SECTIONS,
        signs=_VERDICT_SIGNS,
    )


def _summaries(sections: Sequence[Section]) -> dict[str, str]:
    """Summaries of the policies of all runs whose classes are known and have one, by name."""
    used = {name for section in sections for name in section.run.metrics.policies}
    return {
        name: summary
        for name in POLICIES.names()
        if name in used and (summary := getattr(POLICIES.find(name), "summary", ""))
    }


def _duration(seconds: float) -> str:
    """Format a duration in words.

    >>> _duration(7.31), _duration(83), _duration(7500)
    ('7.31 s', '1 min 23 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


#: Units of settings by the end of their names, and of those whose names have none.
_UNITS_BY_SUFFIX = {
    "_dbm_per_hz": "dBm/Hz",
    "_j_per_bit": "J/bit",
    "_s_per_j": "s/J",
    "_dbw": "dBW",
    "_mps": "m/s",
    "_db": "dB",
    "_hz": "Hz",
    "_w": "W",
    "_s": "s",
    "_j": "J",
    "_m": "m",
}
_UNITS = {"rate_min": "nats/s/Hz", "ee_min": "nats/s/Hz/W"}


def _setting(value: object, name: str = "") -> str:
    """Format the value of a setting as it is typed on the command line, with its unit.

    >>> _setting(-20.0, "pmax_dbw"), _setting([0.7, 0.5], "rate_min"), _setting(None, "deadline_s")
    ('-20 dBW', '0.7, 0.5 nats/s/Hz', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        text = ", ".join(map(_setting, value))
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    suffixes = (unit for suffix, unit in _UNITS_BY_SUFFIX.items() if name.endswith(suffix))
    unit = _UNITS.get(name) or next(suffixes, "")
    return f"{text} {unit}".rstrip()
