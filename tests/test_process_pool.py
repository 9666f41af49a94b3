from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from feduplink.process_pool import process_pool


def nothing() -> None:
    pass


def sleep_long(file: str) -> None:
    with Path(file).open("a") as out:
        out.write(f"{os.getpid()}\n")
    time.sleep(600)


def wait_for(file: Path, count: int) -> list[int]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        lines = file.read_text().split() if file.exists() else []
        if len(lines) == count:
            return [int(line) for line in lines]
        time.sleep(0.02)
    raise AssertionError("the processes did not begin")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 300
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(alive, pids))


def test_results_are_returned_in_order():
    with process_pool(2, nothing) as pool:
        assert list(pool.map(abs, [-1, 2, -3])) == [1, 2, 3]


def test_a_failure_ends_the_processes(tmp_path: Path):
    file = tmp_path / "pids"
    with pytest.raises(RuntimeError, match="enough"), process_pool(2, nothing) as pool:
        for _ in range(4):
            pool.submit(sleep_long, str(file))
        pids = wait_for(file, 2)
        raise RuntimeError("enough")
    assert gone(pids)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
from feduplink.process_pool import process_pool
from test_process_pool import nothing, sleep_long
if __name__ == "__main__":
    with process_pool(2, nothing) as pool:
        list(pool.map(sleep_long, [sys.argv[1]] * 2))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_processes_end_with_their_parent(tmp_path: Path, number: signal.Signals):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, script, tmp_path / "pids", Path(__file__).parent],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    try:
        pids = wait_for(tmp_path / "pids", 2)
    finally:
        process.send_signal(number)
    process.wait(300)
    assert gone(pids)
