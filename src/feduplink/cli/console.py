"""Where commands print."""

from __future__ import annotations

import sys

from rich.console import Console

#: Width of tables in files and pipes, characters.
_PLAIN_WIDTH = 120


def console() -> Console:
    """Standard output; away from a terminal plain text, wide enough for the tables."""
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    # What is printed is never markup: a path may hold brackets.
    return Console(width=width, highlight=False, soft_wrap=True, markup=False, emoji=False)
