"""Runs that can be interrupted and continued: the same rules for all commands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from feduplink.errors import InputError


def check_beginning(checkpoint: Path, what: str, *, resume: bool) -> None:
    """Refuse to begin where ``checkpoint`` says that ``what`` has begun already."""
    if checkpoint.exists() and not resume:
        raise InputError(
            f"out: {checkpoint.parent} already holds {what}; accepted: --resume to continue it, or "
            "another --out."
        )


@contextlib.contextmanager
def resume_hint(checkpoint: Path) -> Iterator[None]:
    """An interrupt of the block says how to continue."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        how = "There is no checkpoint yet; run the same command again."
        if checkpoint.exists():
            how = "The same command with --resume continues from the last checkpoint."
        raise type(interrupt)(how) from None
