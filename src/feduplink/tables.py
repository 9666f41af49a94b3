"""Tables of words and numbers, as plain text, Markdown and HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
        remarks: what the reader has to know, a sentence each without its capital and full stop.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()

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
        return "\n".join([self.title, *shown, *self.remarks])

    def markdown(self) -> str:
        """Title and table, without the remarks."""
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        rows = [f"| {' | '.join(cells)} |" for cells in (self.headers, rule, *self.rows)]
        return "\n".join([self.title, "", *rows]) + "\n"

    def html(self) -> str:
        """For a notebook; everything is escaped."""

        def row(tag: str, cells: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        head = f"<thead>{row('th', self.headers)}</thead>" if any(self.headers) else ""
        body = "".join(row("td", cells) for cells in self.rows)
        remarks = "".join(f"<div><small>{html.escape(text)}</small></div>" for text in self.remarks)
        title = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{title}{head}<tbody>{body}</tbody></table>{remarks}"
