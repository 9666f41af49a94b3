"""Tables on the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from feduplink.feasibility import VERDICTS
from feduplink.text_table import TextTable

_COLOURS = {VERDICTS[True]: "green", VERDICTS[False]: "red", VERDICTS[None]: "yellow"}


def terminal_table(table: TextTable) -> Table:
    """The table as rich draws it; cells that begin with a verdict have its colour."""
    drawn = Table(
        title=table.title,
        title_justify="left",
        title_style="bold",
        caption=Text("\n".join(table.remarks), style="table.caption") if table.remarks else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,  # 80 columns hold it, with the optimum too
    )
    name, *figures = table.columns
    drawn.add_column(name, overflow="fold")
    for column in figures:
        drawn.add_column(column, justify="right", no_wrap=True)
    for name, *cells in table.rows:
        drawn.add_row(name, *(Text(cell, style=_colour(cell)) for cell in cells))
    return drawn


def _colour(cell: str) -> str:
    return _COLOURS.get(cell.partition(" ")[0], "")
