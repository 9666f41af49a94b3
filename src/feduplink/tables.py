"""Tables of words and numbers: plain text, Markdown, HTML, and rich tables on a terminal."""

from __future__ import annotations

import html
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

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
        columns: their headers; a line break shows where a narrow header may be broken, with a
            hyphen before it inside a word.
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
        return [column.replace("-\n", "").replace("\n", " ") for column in self.columns]

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
    """The table for a console: rich wraps its headers where the terminal is narrow."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for place, column in enumerate(table.headers):
        # Headers wrap before cells do.
        width = max(len(row[place]) for row in table.rows) if place else None
        justify: Literal["left", "right"] = "right" if place else "left"
        drawn.add_column(column, justify=justify, overflow="fold", min_width=width)
    for name, *cells in table.rows:
        styled = (Text(cell, _VERDICT_COLOURS.get(cell.partition(" ")[0], "")) for cell in cells)
        drawn.add_row(Text(name), *styled)
    remarks = [Text(text, style="italic dim") for text in (*table.remarks, *table.notes)]
    return Group(Text(table.title, style="bold"), drawn, *remarks)


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
