"""What is left of a deployment: its processes, found by their environment, and its ports."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

from feduplink.flower.flower_deployment import FlowerDeployment
from feduplink.flower.guarded_process import GuardedProcess


def processes_of(directory: Path) -> list[str]:
    """Command lines of all processes, guards included, that belong to the deployment there."""
    return list(commands_of(directory).values())


def commands_of(directory: Path) -> dict[int, str]:
    """The same by process."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(directory).encode() in (process / "environ").read_bytes():
                command = (process / "cmdline").read_text().replace("\0", " ")
                found[int(process.name)] = command
    return found


def ports_of(deployment: FlowerDeployment) -> list[int]:
    """On which its SuperLink and SuperNodes listen."""
    return [int(deployment.address.split(":")[1]), *(node.port for node in deployment._nodes)]


def listening(ports: list[int]) -> list[int]:
    """Those of the ports on which somebody answers."""
    found = []
    for port in ports:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            found.append(port)
    return found


def assert_nothing_is_left(directory: Path, ports: list[int], *, within_s: float = 0.0) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and (processes_of(directory) or directory.exists()):
        time.sleep(0.05)
    assert processes_of(directory) == []
    assert listening(ports) == []
    assert not directory.exists()


def ended(process: GuardedProcess) -> int | None:
    """Its exit status, once it has ended; None if it does not within a minute."""
    deadline = time.monotonic() + 60
    while process.running and time.monotonic() < deadline:
        time.sleep(0.02)
    return process.exit_status
