"""The tables of a run as HTML."""

from __future__ import annotations

import csv
import io
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from feduplink.errors import InputError
from feduplink.report.run_files import read_run_text, run_files

#: Longer tables are for programs, not for readers.
_MOST_ROWS = 200
#: Bytes of a file: some hundred times what tables of ours have, and ten times what lists have.
_MOST_MARKDOWN, _MOST_CSV = 1 << 18, 1 << 27
#: It has one row per epoch; the plot of convergence shows them.
_LEFT_OUT = "history.csv"
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
    paths = [path for path in run_files(directory, ".csv") if path.name != _LEFT_OUT]
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
