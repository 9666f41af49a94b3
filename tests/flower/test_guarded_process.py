"""Whatever ends a process or its starter, nothing of it is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from feduplink.flower.guarded_process import GuardedProcess

from .left_behind import ended, processes_of

#: A command with a child in a session of its own, whose parent ends, as Flower's are.
DETACHED = "setsid sh -c 'sleep 100 & sleep 100' & exec sleep 100"


def start(directory: Path, script: str, **options: Path) -> GuardedProcess:
    environment = {**os.environ, "MARK": str(directory)}
    return GuardedProcess("thing", ["sh", "-c", script], environment, directory, **options)


def wait_for(directory: Path, count: int) -> list[str]:
    deadline = time.monotonic() + 60
    while len(found := processes_of(directory)) != count and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def test_stopping_ends_all_descendants(tmp_path: Path):
    process = start(tmp_path, DETACHED)
    assert len(wait_for(tmp_path, 5)) == 5  # guard, command, shell and its two
    process.stop()
    assert processes_of(tmp_path) == []


def test_the_end_of_the_command_ends_its_descendants(tmp_path: Path):
    process = start(tmp_path, DETACHED)
    wait_for(tmp_path, 5)
    process.kill()
    assert ended(process) == 128 + signal.SIGKILL
    assert processes_of(tmp_path) == []
    process.stop()


def test_status_and_log_are_those_of_the_command(tmp_path: Path):
    process = start(tmp_path, "seq 30; exit 7")
    assert ended(process) == 7
    assert process.log_tail(2) == "29\n30"
    process.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_starter_that_is_killed_leaves_nothing(tmp_path: Path, number: signal.Signals):
    (tmp_path / "keys").mkdir()
    if (starter := os.fork()) == 0:
        process = start(tmp_path, DETACHED, remove=tmp_path / "keys")
        time.sleep(100)
        os._exit(process.running)
    assert len(wait_for(tmp_path, 5)) == 5
    os.kill(starter, number)
    os.waitpid(starter, 0)
    assert wait_for(tmp_path, 0) == []
    assert not (tmp_path / "keys").exists()
