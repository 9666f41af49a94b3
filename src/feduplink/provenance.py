"""Where a result comes from: the command, the versions, the machine in outline, and the time.

Nothing here tells whose machine it was: no host, no user, no path but what was typed.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from feduplink.version import __version__


@dataclass(frozen=True)
class _Work:
    """What is being done, and since when."""

    command: str | None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=lambda: time.monotonic())


_current: ContextVar[_Work | None] = ContextVar("feduplink-work", default=None)


@contextlib.contextmanager
def command(words: Sequence[str]) -> Iterator[None]:
    """``feduplink WORDS...`` runs in this block: its results say so, and count seconds from here.

    >>> with command(["demo", "--out", "my runs"]):
    ...     provenance()["command"]
    "feduplink demo --out 'my runs'"
    """
    with _working(_Work(shlex.join(["feduplink", *words]))):
        yield


@contextlib.contextmanager
def part() -> Iterator[None]:
    """One of several jobs of a command runs in this block: results count seconds from here."""
    work = _current.get()
    with _working(_Work(work.command if work else None)):
        yield


def provenance() -> dict[str, Any]:
    """The ``provenance`` entry of ``metrics.json``.

    ``command``, ``started`` (UTC) and ``seconds`` are None outside a command, where nobody knows
    what was asked and when it began.
    """
    work = _current.get()
    return {
        "command": work.command if work else None,
        "started": work.started.isoformat(timespec="seconds") if work else None,
        "seconds": round(time.monotonic() - work.clock, 3) if work else None,
        "feduplink": __version__,
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "numpy": metadata.version("numpy"),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
    }


@contextlib.contextmanager
def _working(work: _Work) -> Iterator[None]:
    token = _current.set(work)
    try:
        yield
    finally:
        _current.reset(token)
