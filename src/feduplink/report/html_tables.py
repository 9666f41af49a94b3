"""The tables of a run as HTML."""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from feduplink.errors import InputError

#: Longer tables are for programs, not for readers.
_MOST_ROWS = 200
#: It has one row per epoch; the plot of convergence shows them.
_LEFT_OUT = "history.csv"


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
    return [Markup(markdown.render(_text_of(path))) for path in sorted(directory.glob("*.md"))]


def read_csv_tables(directory: Path) -> list[CsvTable]:
    """The CSV files of a run that are short enough to be read, by name."""
    paths = [path for path in sorted(directory.glob("*.csv")) if path.name != _LEFT_OUT]
    tables = [_csv_table(path) for path in paths]
    return [table for table in tables if len(table.rows) <= _MOST_ROWS]


def _csv_table(path: Path) -> CsvTable:
    """The table, or of one that is too long as many rows as tell."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = itertools.islice(csv.reader(file), _MOST_ROWS + 2)
        columns = list(zip(header, *rows, strict=True))
    except (ValueError, csv.Error):  # also bytes that are no text, and no header at all
        raise InputError(
            f"{path}: is damaged; accepted: CSV in UTF-8 with a header and rows of its length."
        ) from None
    numeric = [all(map(_is_number, cells)) for _name, *cells in columns]
    return CsvTable(path.name, header, numeric, rows)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no text; accepted: UTF-8.") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell
    return True
