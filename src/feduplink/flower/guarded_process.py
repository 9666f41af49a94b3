"""Processes that end with whoever started them, their descendants included."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from feduplink.flower import process_guard

#: A guard begins, and kills and reaps, within a fraction of this, s.
_START_WITHIN_S = 60.0
_STOP_WITHIN_S = 20.0


class GuardedProcess:
    """A command with its descendants, its log, and the guard that kills them all.

    Args:
        name: what messages call it.
        command: program and arguments; found in ``environment``'s PATH.
        environment: all of it.
        directory: of the log ``NAME.log``, which a later process of the same name continues.
        remove: a directory that goes if whoever started this is killed.

    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        *,
        remove: Path | None = None,
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._pid_file = directory / f"{name}.pid"
        self._pid_file.unlink(missing_ok=True)
        guard = [sys.executable, "-I", "-S", process_guard.__file__, str(self._pid_file)]
        with self.log.open("ab") as log:
            self._guard = subprocess.Popen(
                [*guard, str(remove or ""), *command],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal reaches the starter only, which then stops all in order.
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return self._guard.poll() is None

    @property
    def exit_status(self) -> int | None:
        """Of the command, 128 + N if signal N ended it; None while it runs."""
        return self._guard.poll()

    @property
    def pid(self) -> int:
        """Of the command itself."""
        deadline = time.monotonic() + _START_WITHIN_S
        while time.monotonic() < deadline:
            running = self.running
            with contextlib.suppress(FileNotFoundError):
                return int(self._pid_file.read_text())
            if not running:
                break
            time.sleep(0.01)
        raise RuntimeError(f"{self.name} did not begin: {self.log_tail()}")

    def kill(self) -> None:
        """SIGKILL to the command, as when it crashes or the machine runs out of memory."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Have the guard kill the command and its descendants, without waiting for it."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()

    def stop(self) -> None:
        """:meth:`release`, and wait until nothing is left."""
        self.release()
        try:
            self._guard.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
            raise RuntimeError(f"{self.name} could not be stopped.") from None

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
