"""Tables of words and numbers: plain text, Markdown, HTML, and rich tables on a terminal."""

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

#: Colours of cells that begin with a verdict.
_VERDICT_COLOURS = {
    "feasible": "green",
    "infeasible": "red",
    "inconclusive": "yellow",
    "silent": "red",
}
#: Width of tables in files and pipes, characters.
_PLAIN_WIDTH = 120


def three_digits(value: float) -> str:
    """A number for a table, with zeros at its end where they say how exact it is.

    >>> [three_digits(value) for value in (8.8, 0.3, 228.0, 12345.6)]
    ['8.80', '0.300', '228', '12,346']
    """
    return f"{value:#.3g}".removesuffix(".") if abs(value) < 999.5 else f"{value:,.0f}"


@dataclass(frozen=True)
class TextTable:
    """A row per thing, its name first.

    Attributes:
        title: what it is about.
        columns: their headers; a line break shows where a narrow header is broken first.
        rows: as many cells each.
        remarks: explanations of the columns, a sentence each without its capital and full stop.
        notes: what is particular to these rows, as remarks; a note may begin with a row's name.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of_entries(cls, title: str, entries: Mapping[str, str]) -> TextTable:
        """Names and values below each other."""
        return cls(title, ("", ""), list(entries.items()))

    @property
    def headers(self) -> list[str]:
        """The columns' headers on one line."""
        return [column.replace("\n", " ") for column in self.columns]

    def plain(self) -> str:
        """Aligned columns; the names are flush left, the rest flush right."""
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
        """Title and table, the remarks in one paragraph, and a paragraph per note."""
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        rows = [f"| {' | '.join(cells)} |" for cells in (self.headers, rule, *self.rows)]
        remarks = [f"{remark[0].upper()}{remark[1:]}." for remark in self.remarks]
        notes = [f"{note}." for note in self.notes]  # names stay as they are written in the table
        paragraphs = [self.title, "\n".join(rows), "\n".join(remarks), *notes]
        return "\n\n".join(filter(None, paragraphs)) + "\n"

    def html(self) -> str:
        """For a notebook; everything is escaped."""

        def row(tag: str, cells: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        head = f"<thead>{row('th', self.headers)}</thead>" if any(self.headers) else ""
        body = "".join(row("td", cells) for cells in self.rows)
        sentences = [*self.remarks, *self.notes]
        remarks = "".join(f"<div><small>{html.escape(text)}</small></div>" for text in sentences)
        title = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{title}{head}<tbody>{body}</tbody></table>{remarks}"


def console() -> Console:
    """Standard output; away from a terminal plain text, wide enough for the tables."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    # What is printed is never markup: a path may hold brackets.
    return Console(width=width, highlight=False, soft_wrap=True, markup=False, emoji=False)


def wrapped(text: str, console: Console) -> str:
    """Wrap sentences at the width of a terminal; text for a file or a pipe is not changed."""
    if not console.is_terminal:
        return text
    lines = (
        textwrap.wrap(line, console.width, subsequent_indent="  ") for line in text.splitlines()
    )
    return "\n".join("\n".join(line) for line in lines)


def terminal_table(table: TextTable) -> RenderableType:
    """The table for a console: narrow terminals wrap its headers and set columns closer."""
    from rich.console import Group
    from rich.text import Text

    remarks = [Text(text, style="italic dim") for text in (*table.remarks, *table.notes)]
    return Group(Text(table.title, style="bold"), _FittedTable(table), *remarks)


class _FittedTable:
    """The rows of a table on a console: a narrow one wraps headers, then names.

    Cells other than names stay on one line. Columns are two spaces apart, or one where that does
    not fit.
    """

    def __init__(self, table: TextTable) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self.table.rows or [[""] * len(self.table.columns)]
        cells = [max(map(len, column)) for column in zip(*rows, strict=True)]
        longest_word = [max(map(len, column.split() or [""])) for column in self.table.columns]
        longest_line = [max(map(len, column.split("\n"))) for column in self.table.columns]
        whole = [len(header) for header in self.table.headers]
        layouts = ((whole, 2), (longest_line, 2), (longest_word, 2), (longest_word, 1))
        for headers, gap in layouts:
            widths = [max(sizes) for sizes in zip(headers, cells, strict=True)]
            left = options.max_width - sum(widths[1:]) - gap * (len(widths) - 1)
            if left >= widths[0]:
                break
        yield self._drawn([max(1, min(widths[0], left)), *widths[1:]], gap)

    def _drawn(self, widths: Sequence[int], gap: int) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        drawn = Table(
            box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap - 1, 0, 0), pad_edge=False
        )
        for place, (column, width) in enumerate(zip(self.table.headers, widths, strict=True)):
            justify: Literal["left", "right"] = "right" if place else "left"
            drawn.add_column(column, justify=justify, overflow="fold", width=width)
        for name, *cells in self.table.rows:
            colours = (_VERDICT_COLOURS.get(cell.partition(" ")[0], "") for cell in cells)
            styled = (Text(c, colour) for c, colour in zip(cells, colours, strict=True))
            drawn.add_row(Text(name), *styled)
        return drawn


def print_records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of texts, with long ones folded."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console().print(drawn)
