"""SIGTERM ends a command as Ctrl-C does: in order, with what it has written left to resume from."""

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
    """Within the block SIGTERM raises :class:`Terminated`.

    Only the main thread may decide about signals; in others nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
