"""Commands in a process of their own, forked from this one, which has imported everything."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from feduplink.cli import command_line


@dataclass(frozen=True)
class Ended:
    """Exit status, negative for a signal, and all that was printed."""

    status: int
    said: str


def forked(words: list[object], before: Callable[[], object] = lambda: None) -> Ended:
    """Run a command in another process, which begins with ``before``."""
    theirs, ours = os.pipe()  # not a file: some tests let the process write none
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        status = 99
        try:
            os.dup2(ours, 1)
            os.dup2(ours, 2)
            # What pytest put in their place writes elsewhere.
            sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            before()
            status = command_line.main([str(word) for word in words])
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
    os.close(ours)
    with os.fdopen(theirs) as pipe:
        said = pipe.read()
    _, ended = os.waitpid(pid, 0)
    return Ended(os.waitstatus_to_exitcode(ended), said)
