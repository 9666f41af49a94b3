"""Pool of worker processes that end with their parent process."""

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
    """Start a pool of spawned processes for the duration of a block.

    Every child holds the read end of a pipe and exits as soon as the write end closes. The parent
    alone holds the write end, so that the children exit even if the parent is killed by SIGKILL.
    If the block raises, the children exit immediately and their tasks are abandoned.

    Args:
        count: number of processes.
        initializer: module-level function that every process calls first.

    Yields:
        The executor; leaving the block waits for all submitted tasks.
    """
    spawning = get_context("spawn")
    read_end, write_end = spawning.Pipe(duplex=False)
    with read_end, write_end:
        pool = ProcessPoolExecutor(count, spawning, _begin, (read_end, initializer))
        try:
            yield pool
        except BaseException:
            write_end.close()
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()


def _begin(read_end: Connection, initializer: Callable[[], object]) -> None:
    """Initialise a child process."""
    # Ctrl-C in a terminal reaches all processes; the parent ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_when_closed, args=(read_end,), daemon=True).start()
    initializer()


def _exit_when_closed(read_end: Connection) -> None:
    """Exit the process when the other end of the pipe closes."""
    with contextlib.suppress(EOFError, OSError):
        read_end.recv_bytes()
    os._exit(1)
