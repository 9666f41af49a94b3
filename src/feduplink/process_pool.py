"""Processes that work for this one and end with it, whatever ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection


@contextlib.contextmanager
def process_pool(count: int, initializer: Callable[[], object]) -> Iterator[ProcessPoolExecutor]:
    """``count`` processes, each of which begins with ``initializer``, a function of a module.

    If the block raises, they end at once, in the middle of what they do. All of them hold one end
    of a pipe whose other end only this process has: when it closes, because this process closed it
    or was ended in any way, SIGKILL included, they exit.
    """
    apart = get_context("spawn")
    theirs, ours = apart.Pipe(duplex=False)
    with theirs, ours:
        pool = ProcessPoolExecutor(count, apart, _begin, (theirs, initializer))
        try:
            yield pool
        except BaseException:
            ours.close()
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()


def _begin(lifeline: Connection, initializer: Callable[[], object]) -> None:
    # Ctrl-C in a terminal reaches all processes; the one that started the others ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    initializer()


def _end_with(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)
