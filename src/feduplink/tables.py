"""Tables as plain text, Markdown, HTML and on a terminal."""

from __future__ import annotations

import html
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

#: Colour of a cell by its first word.
_VERDICT_COLOURS = {
    "feasible": "green",
    "infeasible": "red",
    "inconclusive": "yellow",
    "silent": "red",
}
#: Width of the console if standard output is not a terminal, characters.
_PLAIN_WIDTH = 120


def three_digits(value: float) -> str:
    """Format a number with three significant digits, keeping trailing zeros.

    >>> [three_digits(value) for value in (8.8, 0.3, 228.0, 12345.6)]
    ['8.80', '0.300', '228', '12,346']
    """
    return f"{value:#.3g}".removesuffix(".") if abs(value) < 999.5 else f"{value:,.0f}"


@dataclass(frozen=True)
class TextTable:
    """A table of text cells, with the row label in the first column.

    Attributes:
        title: title above the table.
        columns: column headers; a line break marks the preferred position for wrapping. The line
            after a second break is a unit, which is omitted on narrow terminals.
        rows: one cell per column each.
        remarks: explanations of the columns, sentences without initial capital and full stop.
        notes: remarks on these rows in particular; a note may begin with a row label.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of_entries(cls, title: str, entries: Mapping[str, str]) -> TextTable:
        """Table of two columns without headers: names and values."""
        return cls(title, ("", ""), list(entries.items()))

    @property
    def headers(self) -> list[str]:
        """Column headers, each on one line."""
        return [column.replace("\n", " ") for column in self.columns]

    def plain(self) -> str:
        """Plain text with aligned columns: the first left-aligned, the others right-aligned."""
        lines = [self.headers, *self.rows] if any(self.headers) else list(self.rows)
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        shown = [
            "  ".join(
                cell.rjust(width) if place else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()
            for cells in lines
        ]
        return "\n".join([self.title, *shown, *self.remarks, *self.notes])

    def markdown(self) -> str:
        """Markdown: title, table, the remarks as one paragraph, one paragraph per note."""
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        rows = [f"| {' | '.join(cells)} |" for cells in (self.headers, rule, *self.rows)]
        remarks = [f"{remark[0].upper()}{remark[1:]}." for remark in self.remarks]
        notes = [f"{note}." for note in self.notes]  # a row label keeps its lower case
        paragraphs = [self.title, "\n".join(rows), "\n".join(remarks), *notes]
        return "\n\n".join(filter(None, paragraphs)) + "\n"

    def html(self) -> str:
        """HTML for a notebook, with all text escaped."""

        def row(tag: str, cells: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        head = f"<thead>{row('th', self.headers)}</thead>" if any(self.headers) else ""
        body = "".join(row("td", cells) for cells in self.rows)
        sentences = [*self.remarks, *self.notes]
        remarks = "".join(f"<div><small>{html.escape(text)}</small></div>" for text in sentences)
        title = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{title}{head}<tbody>{body}</tbody></table>{remarks}"


def console() -> Console:
    """Console on standard output; plain text of 120 characters if that is not a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    # Markup is disabled because a path may contain brackets.
    return Console(width=width, highlight=False, soft_wrap=True, markup=False, emoji=False)


def wrapped(text: str, console: Console) -> str:
    """Wrap text at the width of a terminal; text for a file or a pipe is returned unchanged."""
    if not console.is_terminal:
        return text
    lines = (
        textwrap.wrap(line, console.width, subsequent_indent="  ") for line in text.splitlines()
    )
    return "\n".join("\n".join(line) for line in lines)


def terminal_table(table: TextTable) -> RenderableType:
    """The table as a rich renderable, which wraps headers on narrow terminals."""
    from rich.console import Group
    from rich.text import Text

    remarks = [Text(text, style="italic dim") for text in (*table.remarks, *table.notes)]
    return Group(Text(table.title, style="bold"), _FittedTable(table), *remarks)


class _FittedTable:
    """The rows of a table, fitted to the width of a console.

    If the table is too wide, headers are wrapped, then the gap between columns is reduced from two
    spaces to one, then row labels are wrapped. Other cells are never wrapped.
    """

    def __init__(self, table: TextTable) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self.table.rows or [[""] * len(self.table.columns)]
        cells = [max(map(len, column)) for column in zip(*rows, strict=True)]
        broken, whole = self.table.columns, self.table.headers
        without_units = [" ".join(column.split("\n")[:2]) for column in broken]
        layouts = (
            (whole, [len(header) for header in whole], 2),
            (broken, [max(map(len, column.split("\n"))) for column in broken], 2),
            (whole, _longest_words(whole), 2),
            (whole, _longest_words(whole), 1),
            (without_units, _longest_words(without_units), 1),
        )
        for shown, headers, gap in layouts:
            widths = [max(sizes) for sizes in zip(headers, cells, strict=True)]
            left = options.max_width - sum(widths[1:]) - gap * (len(widths) - 1)
            drawn = self._drawn(shown, [max(1, min(widths[0], left)), *widths[1:]], gap)
            if left >= widths[0]:
                break
        yield drawn

    def _drawn(self, columns: Sequence[str], widths: Sequence[int], gap: int) -> Table:
        """The table with these headers, column widths and gap, in characters."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        drawn = Table(
            box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap - 1, 0, 0), pad_edge=False
        )
        for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
            justify: Literal["left", "right"] = "right" if place else "left"
            drawn.add_column(column, justify=justify, overflow="fold", width=width)
        for name, *cells in self.table.rows:
            colours = (_VERDICT_COLOURS.get(cell.partition(" ")[0], "") for cell in cells)
            styled = (Text(c, colour) for c, colour in zip(cells, colours, strict=True))
            drawn.add_row(Text(name), *styled)
        return drawn


def _longest_words(columns: Sequence[str]) -> list[int]:
    """Length of the longest word of each header."""
    return [max(map(len, column.split() or [""])) for column in columns]


def print_records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of text cells, with long cells folded."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console().print(drawn)
