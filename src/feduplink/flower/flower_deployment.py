"""A whole Flower deployment on this machine: one SuperLink and N SuperNodes, as processes.

All connections to the SuperLink are TLS, and it takes only SuperNodes whose key it was told. Every
process has a guard (:mod:`feduplink.flower.process_guard`), so that nothing outlives the ``with``
block, however that ends, nor the program, if it is killed. A SuperNode that dies is started again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from feduplink.flower.certificates import (
    NodeKey,
    write_node_key,
    write_private,
    write_server_certificate,
)
from feduplink.flower.free_ports import HOST, free_ports
from feduplink.flower.guarded_process import GuardedProcess
from feduplink.flower.superlink_client import App, ConfigValue, SuperLinkClient, without_proxy

_Answer = TypeVar("_Answer")

#: A SuperNode that died is started again after this, s.
RESTART_AFTER_S = 1.0

# Every process imports Flower, seconds each on a busy core.
_START_WITHIN_S = 120.0
_START_WITHIN_S_PER_NODE = 5.0
_LOOK_EVERY_S = 0.2
_SUPERLINK_ATTEMPTS = 3
# For a SuperLink that lives: one request takes up to 30 s before Flower gives it up.
_ANSWER_WITHIN_S = 120.0


class DeploymentError(ChildProcessError):
    """A process of the deployment, or a run on it, failed; the message has the end of its log."""


@dataclass
class _Node:
    """A worker's SuperNode, and the process that is it at present.

    Every start has a key and thereby an id of its own. So a message to a process that died can
    never seem to be on its way to the next one, which does not know of it.
    """

    index: int
    port: int
    key: NodeKey
    id: int
    process: GuardedProcess
    starts: int
    dead_since: float | None = None


class FlowerDeployment:
    """One SuperLink and ``nodes`` SuperNodes on loopback; a context manager.

    SuperNode i has ``partition-id`` i and ``num-partitions`` of ``nodes`` in its configuration.

    Args:
        nodes: how many SuperNodes.
        preload: modules that ClientApps will need; imported once, not in every round.

    Attributes:
        directory: of certificates, keys and logs; temporary.
        address: of the SuperLink, host:port.

    """

    def __init__(self, nodes: int, *, preload: Sequence[str] = ()) -> None:
        self._count, self._preload = nodes, tuple(preload)
        self._nodes: list[_Node] = []
        self._executor: GuardedProcess | None = None
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as exits:
            exits.enter_context(_ended_in_order_by_sigterm())
            self.directory = Path(tempfile.mkdtemp(prefix="feduplink-flower-"))
            exits.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self._certificate = write_server_certificate(self.directory / "certificates")
            self._start_superlink(exits)
            exits.callback(self._stop_nodes)
            self._secret = self.directory / "keys" / "executor"
            write_private(self._secret, secrets.token_bytes(32))
            for index, port in enumerate(free_ports(self._count)):
                self._nodes.append(self._start_node(index, port, starts=1))
            self._start_executor(exits)
            supervisor = threading.Thread(target=self._supervise, daemon=True)
            supervisor.start()
            exits.callback(supervisor.join)
            exits.callback(self._stopping.set)
            self._wait(
                lambda: len(self._answer(self.online)) == self._count,
                "the SuperNodes did not connect",
            )
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._exits.close()

    def run(
        self,
        app: App,
        config: Mapping[str, ConfigValue] | None = None,
        *,
        watch: Callable[[], None] = lambda: None,
    ) -> str:
        """Run an app to its end; the log of its ServerApp.

        ``watch`` is called a few times per second. A run that is left by an exception is stopped.
        """
        run = self.client.start_run(app, config or {})
        try:
            while (status := self._answer(lambda: self.client.status(run))).status != "finished":
                watch()
                self._check()
                time.sleep(_LOOK_EVERY_S)
        except BaseException:
            with contextlib.suppress(OSError):
                self.client.stop_run(run)
            raise
        watch()
        log = self._answer(lambda: self.client.log(run))
        if status.outcome != "completed":
            raise DeploymentError(
                f"The Flower run {status.outcome}: {status.details}\n{_tail(log)}"
            )
        return log

    def online(self) -> set[int]:
        """Indices of the SuperNodes that the SuperLink takes as connected."""
        connected = self.client.online()
        return {node.index for node in self._nodes if node.id in connected}

    def kill(self, index: int) -> None:
        """SIGKILL to SuperNode ``index``, which is started again after :data:`RESTART_AFTER_S`."""
        with self._lock:
            self._nodes[index].process.kill()

    def starts(self, index: int) -> int:
        """How often SuperNode ``index`` was started."""
        return self._nodes[index].starts

    def processes(self) -> list[GuardedProcess]:
        """The SuperLink, the executor of ClientApps and the SuperNodes."""
        with self._lock:
            nodes = [node.process for node in self._nodes]
        return [self._superlink, *([self._executor] if self._executor else []), *nodes]

    def _start_superlink(self, exits: contextlib.ExitStack) -> None:
        """Start it; once more on another port if something else took the first one."""
        for _ in range(_SUPERLINK_ATTEMPTS):
            (port,) = free_ports(1)
            self.address = f"{HOST}:{port}"
            superlink = GuardedProcess(
                "superlink",
                [
                    *("flower-superlink", "--host", HOST, "--port", str(port)),
                    *("--ssl-ca-certfile", str(self._certificate.authority)),
                    *("--ssl-certfile", str(self._certificate.certificate)),
                    *("--ssl-keyfile", str(self._certificate.key)),
                    "--enable-supernode-auth",
                    # The app is feduplink's own, which is installed: nothing to fetch.
                    "--disable-runtime-dependency-installation",
                ],
                self._environment("superlink"),
                self.directory,
                remove=self.directory,
            )
            self._superlink = superlink
            exits.callback(superlink.stop)
            self.client = SuperLinkClient(self.address, self._certificate.authority)
            exits.callback(self.client.close)
            with contextlib.suppress(DeploymentError):
                self._wait(self.client.answers, "the SuperLink did not answer")
                return
        raise DeploymentError(
            f"superlink did not start in {_SUPERLINK_ATTEMPTS} attempts.\n{superlink.log_tail()}"
        )

    def _start_executor(self, exits: contextlib.ExitStack) -> None:
        self._executor = GuardedProcess(
            "clientapp-executor",
            [
                *(sys.executable, "-m", "feduplink.flower.clientapp_executor"),
                *(str(self._secret), ",".join(self._preload)),
                *(f"{HOST}:{node.port}" for node in self._nodes),
            ],
            self._environment("clientapp-executor"),
            self.directory,
        )
        exits.callback(self._executor.stop)

    def _start_node(self, index: int, port: int, *, starts: int) -> _Node:
        key = write_node_key(self.directory / "keys", f"node-{index}-{starts}")
        node = self.client.register(key, f"worker {index}")
        process = GuardedProcess(
            f"supernode-{index}",
            [
                *("flower-supernode", "--superlink", self.address),
                *("--root-certificates", str(self._certificate.authority)),
                *("--auth-supernode-private-key", str(key.private)),
                *("--node-config", f"partition-id={index} num-partitions={self._count}"),
                *("--host", HOST, "--port", str(port)),
                # Whoever has the secret runs its ClientApp: the executor.
                *("--isolation", "process", "--superexec-auth-secret-file", str(self._secret)),
            ],
            self._environment(f"supernode-{index}"),
            self.directory,
        )
        return _Node(index, port, key, node, process, starts)

    def _environment(self, name: str) -> dict[str, str]:
        # Each has a home of its own: Flower unpacks apps there, and two at once would collide.
        home = self.directory / "homes" / name
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        return {
            **os.environ,
            **without_proxy(os.environ),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            # Modules that this program found, its processes find too.
            "PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path),
            "PYTHONUNBUFFERED": "1",
            "FLWR_HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            # How soon the SuperLink starts a ServerApp, s.
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            # All nodes share this machine's cores.
            "OMP_NUM_THREADS": "1",
        }

    def _supervise(self) -> None:
        """Start SuperNodes that died again, until told to stop; a thread of its own."""
        while not self._stopping.wait(_LOOK_EVERY_S):
            try:
                for index in range(self._count):
                    self._revive(index)
            except ConnectionError:
                continue  # if the SuperLink has ended, whoever waits for it is told; else try again
            except Exception as failure:
                self._failure = f"The SuperNodes are no longer supervised: {failure}"
                return

    def _revive(self, index: int) -> None:
        node = self._nodes[index]
        if node.process.running:
            return
        if node.dead_since is None:
            self.client.declare_dead(node.id, node.key)
            node.dead_since = time.monotonic()
        elif time.monotonic() - node.dead_since > RESTART_AFTER_S:
            with self._lock:
                self._nodes[index] = self._start_node(index, node.port, starts=node.starts + 1)

    def _stop_nodes(self) -> None:
        for node in self._nodes:
            node.process.release()
        for node in self._nodes:
            node.process.stop()

    def _answer(self, ask: Callable[[], _Answer]) -> _Answer:
        """What the SuperLink answers; asked again while it lives, as on a busy machine it may
        not answer in time.
        """
        deadline = time.monotonic() + _ANSWER_WITHIN_S
        while True:
            try:
                return ask()
            except ConnectionError:
                self._check()
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_EVERY_S)

    def _check(self) -> None:
        for process in self.processes()[: 1 + bool(self._executor)]:
            if not process.running:
                raise DeploymentError(
                    f"{process.name} ended with status {process.exit_status}.\n{process.log_tail()}"
                )
        if self._failure is not None:
            raise DeploymentError(self._failure)

    def _wait(self, done: Callable[[], bool], otherwise: str) -> None:
        """Until ``done``; if a process fails for good or it takes too long, say so."""
        within_s = _START_WITHIN_S + _START_WITHIN_S_PER_NODE * self._count
        deadline = time.monotonic() + within_s
        while not done():
            self._check()
            for node in self._nodes:
                if node.starts > 2:
                    raise DeploymentError(
                        f"SuperNode {node.index} ends as soon as it begins.\n"
                        f"{node.process.log_tail()}"
                    )
            if time.monotonic() > deadline:
                logs = [process.log_tail() for process in self.processes()]
                raise DeploymentError(f"After {within_s:.0f} s {otherwise}.\n" + "\n".join(logs))
            time.sleep(_LOOK_EVERY_S / 2)


@contextlib.contextmanager
def _ended_in_order_by_sigterm() -> Iterator[None]:
    """In the block SIGTERM is an exit as by ``sys.exit``, so that what is to be undone is.

    Only in the main thread, and only if nobody else handles it.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    leave = functools.partial(sys.exit, 128 + signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: leave())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.splitlines()[-lines:])
