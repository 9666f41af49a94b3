"""Where commands print."""

from __future__ import annotations

import sys
import textwrap

from rich.console import Console

#: Width of tables in files and pipes, characters.
_PLAIN_WIDTH = 120


def console() -> Console:
    """Standard output; away from a terminal plain text, wide enough for the tables."""
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    # What is printed is never markup: a path may hold brackets.
    return Console(width=width, highlight=False, soft_wrap=True, markup=False, emoji=False)


def wrapped(text: str, console: Console) -> str:
    """Sentences in lines that end between words, each line of the text by itself.

    On a terminal: what goes to a file or a pipe is for programs.
    """
    if not console.is_terminal:
        return text
    lines = (
        textwrap.wrap(line, console.width, subsequent_indent="  ") for line in text.splitlines()
    )
    return "\n".join("\n".join(line) for line in lines)
