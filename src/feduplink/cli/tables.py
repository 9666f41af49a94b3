"""Tables on the terminal, as wide as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from feduplink.cli.console import wrapped
from feduplink.judgement import Verdict
from feduplink.tables import TextTable

_COLOURS = {
    Verdict.FEASIBLE: "green",
    Verdict.INFEASIBLE: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.SILENT: "yellow",
}

#: Names of this many characters or fewer are never replaced by a number.
_SHORT_NAME = 16


@dataclass(frozen=True)
class TerminalTable:
    """A table as rich draws it; cells that begin with a verdict have its colour.

    It takes the room that there is: with headers on one line and space between the columns in a
    wide terminal; then with headers on two lines; in a narrow one without the space and with
    divided words, then with numbers for long names, explained below, and at last with the columns
    that do not fit below the others.
    """

    table: TextTable

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """The title, the table, and what its reader has to know."""
        table = self.table
        yield Text(wrapped(table.title, console), style="bold")
        parts, legend = _fitted(table, lambda part: _fits(part, console, options))
        yield from parts
        for remark in [*legend, *table.remarks]:
            yield Text(wrapped(remark, console), style="italic dim")


def terminal_table(table: TextTable) -> TerminalTable:
    """The table, to be printed by a console."""
    return TerminalTable(table)


def _fits(part: Table, console: Console, options: ConsoleOptions) -> bool:
    return console.measure(part, options=options.update(max_width=10_000)).maximum <= (
        options.max_width
    )


def _fitted(table: TextTable, fits: Callable[[Table], bool]) -> tuple[list[Table], Sequence[str]]:
    """What is drawn below each other, and what the numbers in it stand for."""
    whole_words = [column.replace("-\n", "") for column in table.columns]
    for headers, gap in ((table.headers, 1), (whole_words, 1), (table.columns, 0)):
        if fits(drawn := _drawn(table, headers, gap)):
            return [drawn], []
    table, legend = _numbered(table)
    parts: list[Table] = []
    columns = list(range(1, len(table.columns)))
    while columns:
        # At least one, that it comes to an end.
        count = next((n for n in range(len(columns), 1, -1) if fits(_part(table, columns[:n]))), 1)
        parts.append(_part(table, columns[:count]))
        columns = columns[count:]
    return parts, legend


def _numbered(table: TextTable) -> tuple[TextTable, list[str]]:
    """The table with numbers for long names, and what they stand for."""
    long = [name for name, *_ in table.rows if len(name) > _SHORT_NAME]
    numbers = {name: f"[{number}]" for number, name in enumerate(long, 1)}
    rows = [[numbers.get(name, name), *cells] for name, *cells in table.rows]
    return replace(table, rows=rows), [f"{number} {name}" for name, number in numbers.items()]


def _part(table: TextTable, columns: Sequence[int]) -> Table:
    """The names and some of the other columns."""
    shown = [0, *columns]
    rows = [[row[place] for place in shown] for row in table.rows]
    return _drawn(replace(table, rows=rows), [table.columns[place] for place in shown])


def _drawn(table: TextTable, headers: Sequence[str], gap: int = 0) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, gap), pad_edge=False)
    name, *figures = headers
    drawn.add_column(name, no_wrap=True)
    for column in figures:
        drawn.add_column(column, justify="right", no_wrap=True)
    for name, *cells in table.rows:
        drawn.add_row(Text(name), *(Text(cell, style=_colour(cell)) for cell in cells))
    return drawn


def _colour(cell: str) -> str:
    word = cell.partition(" ")[0]
    return _COLOURS[Verdict(word)] if word in _COLOURS else ""
