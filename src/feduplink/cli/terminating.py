"""SIGTERM and Ctrl-C end a command in order, with what it has written left to resume from."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextlib.contextmanager
def terminated_in_order() -> Iterator[None]:
    """Within the block SIGTERM raises :class:`Terminated`, and SIGINT ``KeyboardInterrupt``.

    Libraries in C++ may make an error of their own of what is raised while they convert arguments:
    whatever ends the block after a signal came is that signal. Only the main thread may decide
    about signals; in others nothing changes, and where SIGINT is ignored it stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[type[KeyboardInterrupt]] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        came.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        raise came[-1]

    handled = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        handled.append(signal.SIGINT)
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    except Exception:
        if came:
            raise came[-1] from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
