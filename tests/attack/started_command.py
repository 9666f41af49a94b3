"""A command that is forked from here, killed at a moment of its progress, and looked after.

It may end itself before the n-th of its steps in writing files: a temporary file made, flushed,
renamed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feduplink.cli import command_line

NEVER = 10**9
_TICKS = os.sysconf("SC_CLK_TCK")
#: In which an interpreter imports PyTorch on a busy machine.
_STARTED_WITHIN_S = 60.0


@dataclass(frozen=True)
class StartedCommand:
    """A command in a process and a session of its own.

    Attributes:
        pid: of it.
        log: what it says.
        steps: file with the number of its steps in writing files, once it has ended by itself.
        has_others: whether it starts processes.
        spent: processor time, once it has ended.
    """

    pid: int
    log: Path
    steps: Path
    has_others: bool
    spent: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Processor time of it and those that it waited for."""
        return self.spent[0]

    def signal_at(self, seconds: float, number: signal.Signals) -> None:
        """Send the signal when so much processor time has been spent, if it is still there."""
        while self._spent() < seconds:
            if not _is_running(self.pid):
                return
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int:
        _, status, usage = os.wait4(self.pid, 0)
        self.spent.append(usage.ru_utime + usage.ru_stime)
        return os.waitstatus_to_exitcode(status)

    def orphans(self) -> list[str]:
        """Those of its session that are still there after a while.

        One that was just starting ends when it has imported what it needs, and knows its parent.
        """
        deadline = time.monotonic() + _STARTED_WITHIN_S
        while (left := list(_session(self.pid))) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def _spent(self) -> float:
        others = map(int, _session(self.pid)) if self.has_others else ()
        return sum(_times(pid) for pid in {self.pid, *others})


def start(
    words: Sequence[str],
    directory: Path,
    *,
    before: Callable[[], None],
    has_others: bool,
    step: int = NEVER,
) -> StartedCommand:
    """Start a command, which begins with ``before`` and ends before its ``step``."""
    handle, name = tempfile.mkstemp(prefix="log-", dir=directory)
    log, steps = Path(name), Path(f"{name}.steps")
    sys.stdout.flush()
    if pid := os.fork():
        os.close(handle)
        return StartedCommand(pid, log, steps, has_others)
    status = 99
    try:
        os.setsid()
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ["FEDUPLINK_CACHE"] = str(directory / "cache")
        before()
        counted = count_steps(step)
        status = command_line.main(words)
        steps.write_text(str(counted()))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def count_steps(last: int) -> Callable[[], int]:
    """From here on count steps in writing files, and end this process before the ``last``."""
    numbers, done = itertools.count(1), [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            done[0] = next(numbers)
            if done[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    tempfile.mkstemp = counted(tempfile.mkstemp)
    os.fsync = counted(os.fsync)
    Path.replace = counted(Path.replace)  # type: ignore[method-assign]
    return lambda: done[0]


def _session(leader: int) -> Iterator[str]:
    """Processes of a session that have not ended."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            state, _parent, _group, session = entry.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                yield entry.parent.name


def _times(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def _is_running(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
