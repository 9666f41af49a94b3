"""Flower's own SuperLink and SuperNodes as processes on this machine, for ``flwr run``."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import feduplink
from feduplink.flower.free_ports import free_ports

#: Seconds until a SuperLink has to answer.
_START_WITHIN_S = 60
_BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class FlowerProcesses:
    """A running SuperLink, known to ``flwr`` as ``here``.

    Attributes:
        environment: in which commands find it.
        directory: with a log of every process.

    """

    environment: dict[str, str]
    directory: Path

    def flwr_run(self, app: Path, config: str) -> str:
        """Run an app until it ends; its log."""
        done = subprocess.run(
            [_BIN / "flwr", "run", app, "here", "--stream", "--run-config", config],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        log = done.stdout + done.stderr
        assert done.returncode == 0, log
        return log


@contextlib.contextmanager
def flower_processes(nodes: int, directory: Path) -> Iterator[FlowerProcesses]:
    """A SuperLink and its SuperNodes, whose ``partition-id`` are 0, 1, ..."""
    link, *runtimes = free_ports(1 + nodes)
    environment = {
        **os.environ,
        "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(feduplink.__file__).parents[1]),
        "FLWR_HOME": str(directory),
        "FLWR_TELEMETRY_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    (directory / "config.toml").write_text(
        f'[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    with contextlib.ExitStack() as processes:

        def start(name: str, *command: str) -> None:
            processes.enter_context(_process(command, environment, directory / f"{name}.log"))

        start(
            "superlink",
            *("flower-superlink", "--insecure", "--port", str(link)),
            "--disable-runtime-dependency-installation",
        )
        _wait_for(link)
        for index, runtime in enumerate(runtimes):
            start(
                f"supernode-{index}",
                *("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{link}"),
                *("--port", str(runtime), "--node-config", f"partition-id={index}"),
            )
        yield FlowerProcesses(environment, directory)


@contextlib.contextmanager
def _process(command: tuple[str, ...], environment: dict[str, str], log: Path) -> Iterator[None]:
    """A process and those that it starts, which are of its session; all end with the block."""
    with log.open("w") as file:
        process = subprocess.Popen(
            [_BIN / command[0], *command[1:]],
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(port: int) -> None:
    end = time.monotonic() + _START_WITHIN_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")
