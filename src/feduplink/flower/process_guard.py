"""Runs one command and sees to it that nothing of it outlives whoever started it.

Run as a script, with the standard library only, because one guard stands beside every process of
a deployment: ``python -I -S process_guard.py PID_FILE DIRECTORY COMMAND...``. Its standard input is
a pipe that the starter holds open; when that closes, because the starter closed it or was ended in
any way, SIGKILL included, the command and all its descendants are killed. They are killed as well
when the command itself ends. A descendant that left its process group or lost its parent is found
too: the guard is, on Linux, the subreaper of all of them. DIRECTORY, unless empty, is removed when
the starter is gone: it may hold private keys.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def main(pid_file: str, directory: str, command: list[str]) -> int:
    """Run the command; the exit status is its own, 128 + N if signal N ended it."""
    _adopt_orphans()
    wakeup, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    silence = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    pid = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=silence,
        # Python ignores some signals and this handles others; the command begins as usual.
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD],
    )
    temporary = Path(f"{pid_file}.new")
    temporary.write_text(str(pid))
    temporary.replace(pid_file)
    status: int | None = None
    starter_is_there = True
    while status is None and starter_is_there:
        ready, _, _ = select.select([sys.stdin.fileno(), wakeup], [], [])
        if wakeup in ready:
            signals = os.read(wakeup, 512)
            starter_is_there = not {signal.SIGTERM, signal.SIGINT} & set(signals)
        if sys.stdin.fileno() in ready:
            starter_is_there = bool(os.read(sys.stdin.fileno(), 512)) and starter_is_there
        status = _reap().get(pid)
    status = _kill_descendants(pid, status)
    if directory and not starter_is_there:
        shutil.rmtree(directory, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends; only Linux knows this."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap() -> dict[int, int]:
    """Wait status by process of all children that have ended."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def _kill_descendants(pid: int, status: int | None) -> int:
    """Kill until none is left; the wait status of the command."""
    while True:
        for descendant in _descendants(os.getpid()) or ([pid] if status is None else []):
            with contextlib.suppress(ProcessLookupError):
                os.kill(descendant, signal.SIGKILL)
        try:
            ended, found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0 if status is None else status
        if ended == pid:
            status = found
        if not ended:
            time.sleep(0.01)


def _descendants(root: int) -> list[int]:
    """All processes below ``root``, from /proc; none where there is no /proc."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may hold spaces and parentheses; the parent is second after.
            _, parent = entry.read_text().rpartition(")")[2].split()[:2]
            children[int(parent)].append(int(entry.parent.name))
    found, left = [], [root]
    while left:
        below = children[left.pop()]
        found += below
        left += below
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
