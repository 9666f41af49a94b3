"""Importing what takes seconds."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

from feduplink.progress import track


@contextlib.contextmanager
def loading(title: str, module: str) -> Iterator[None]:
    """The block imports ``module``, for the first time or again; ``title`` says so meanwhile.

    The first time it is left out of garbage collection for good. A quarter of a million objects of
    PyTorch and matplotlib live as long as the process; the collector would look through all of them
    several times while they are made and once more at the end, a second in all.
    """
    # Only once: it would keep for good what a calling program has left to be collected by now.
    once = contextlib.nullcontext() if module in sys.modules else _uncollected()
    with track(f"loading {title}", transient=True), once:
        yield


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
