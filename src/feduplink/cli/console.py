"""Where commands print."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: Width of tables in files and pipes, characters.
_PLAIN_WIDTH = 120


def console() -> Console:
    """Standard output; away from a terminal plain text, wide enough for the tables.

    Commands show progress bars only if ``console().is_terminal``.
    """
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(width=width, highlight=False, soft_wrap=True)


def progress_bar() -> Progress:
    """A bar a task, with its field ``figures`` beside it; silent away from a terminal."""
    out = console()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=out,
        disable=not out.is_terminal,
    )
