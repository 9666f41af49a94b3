"""Federated comparisons in Flower's Simulation runtime on this machine, with ``flwr run``.

``flwr run`` submits runs to a SuperLink. A SuperLink that the command starts keeps running and
receives all later runs on the machine. A comparison therefore starts and stops its own one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil

from feduplink.errors import InputError
from feduplink.federated import FederatedHistory, FinishedRound
from feduplink.flower.task_run import TaskResult, TaskRun, parse_round_line
from feduplink.policies import Policy, save_policy
from feduplink.progress import Callback, track
from feduplink.registry import POLICIES
from feduplink.scenario import Scenario
from feduplink.settings import ArrivalRule

#: Directory of the Flower app of a task, whose run configuration has the fields of
#: :class:`TaskRun`.
TASK_APP = Path(__file__).parent / "app"

_HOST = "127.0.0.1"
#: Name of the SuperLink in the configuration of ``flwr``.
_SUPERLINK = "simulation"
#: Time limit for the end of killed processes, s.
_KILL_TIMEOUT_S = 10.0
_POLL_INTERVAL_S = 0.1
#: Maximum length of the path of temporary files, in characters: the paths of Ray's sockets are up
#: to 80 characters longer and are limited to 107.
_MAX_TEMPORARY_ROOT = 27
#: Number of last log lines in an error message.
_LOG_LINES = 30


class FlowerError(ChildProcessError):
    """Failure of a Flower process; the message contains the last lines of its log."""


def federate_with_flower(
    task: str,
    policies: Mapping[str, Policy],
    scenario: Scenario,
    *,
    rounds: int | None = None,
    seed: int = 0,
    partition: str | None = None,
    data: Path | None = None,
    deadline_s: float | None = None,
    packet_success: ArrivalRule = "worst-phase",
    imports: Collection[str] = (),
    callbacks: Sequence[Callback] = (),
) -> FederatedHistory:
    """Compare policies in Flower's Simulation runtime, with one ``flwr run`` per policy.

    With the same arguments, the history equals that of :class:`feduplink.federated.Federation`
    with one run per policy, the exact average and all workers present. All processes that Flower
    starts have ended when this function returns or raises.

    Args:
        task: name of the task.
        policies: policies by their names in the history; they are passed to the server as files.
        scenario: the cell and its radio, with one simulated node per worker.
        rounds: number of rounds; None uses that of the task.
        seed: seed of data, initial weights, minibatches, channels and arrivals.
        partition: partition of the data between the workers; None uses the task's default.
        data: directory of the data sets; None uses that of ``FEDUPLINK_DATA``.
        deadline_s: deadline of a round on the uplink, s; None: no deadline.
        packet_success: rule that decides which SINR an upload is received at.
        imports: modules to import in Flower's processes, such as that of a user-defined task.
        callbacks: callbacks of all runs; ``detail`` of a step is a
            :class:`~feduplink.federated.FinishedRound`.

    Returns:
        Histories of all policies, with one run each.

    Raises:
        FlowerError: if a Flower process fails or a run ends without a result.
        InputError: if Ray is not installed, or a policy is defined in the main program.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError(
            "flower: Ray is not installed; accepted after pip install 'feduplink[flower]'."
        )
    modules = {name: _module_of(policy) for name, policy in policies.items()}
    histories = {}
    with start_simulation() as simulation:
        for number, (name, policy) in enumerate(policies.items()):
            directory = simulation.directory / f"run-{number}"
            save_policy(policy, directory)
            run = TaskRun(
                scenario=scenario,
                task=task,
                policy=str(directory),
                rounds=rounds,
                seed=seed,
                partition=partition,
                data=data and data.absolute(),
                deadline=deadline_s,
                packet_success=packet_success,
                imports=",".join(filter(None, [*imports, modules[name]])),
                out=directory,
            )
            histories[name] = _run_task(simulation, run, name, callbacks)
    first = next(iter(histories.values()))
    runs = {name: next(iter(found.policies.values())) for name, found in histories.items()}
    return FederatedHistory(first.task, first.metric_name, runs)


def _module_of(policy: Policy) -> str:
    """Module of the policy's class for import in another process; empty for a registered name."""
    name = policy.registered_name
    module = "" if name in POLICIES.names() else name.partition(":")[0]
    if module == "__main__":
        raise InputError(
            f"policies: {name} is defined in the main program; accepted with Flower: classes and "
            "functions of modules that other processes can import."
        )
    return module


def _run_task(
    simulation: Simulation, run: TaskRun, name: str, callbacks: Sequence[Callback]
) -> FederatedHistory:
    """Run a task and return its history."""
    rounds = run.rounds or run.loaded_task.rounds
    title = f"federated learning of {run.loaded_task.name} with {name} in Flower"
    log = []
    with (
        track(title, rounds, "rounds", callbacks) as progress,
        simulation.run(TASK_APP, run.run_config(), nodes=run.scenario.workers) as lines,
    ):
        for line in lines:
            log.append(line)
            if found := parse_round_line(line):
                number, error = found
                finished = FinishedRound(number, {name: (error,)})
                progress.advance(number, finished.mean_errors, finished)
    # The exit status of `flwr run` only reports whether the run was submitted.
    try:
        return TaskResult.read(run.out).history
    except InputError:
        raise FlowerError(f"the Flower run of {name} failed:\n{_tail(log)}") from None


@dataclass(frozen=True)
class Simulation:
    """Running SuperLink with Flower's Simulation runtime.

    Attributes:
        directory: temporary directory for all files of Flower.
        environment: environment variables of Flower's commands, with the address of the SuperLink.
    """

    directory: Path
    environment: Mapping[str, str]

    @contextlib.contextmanager
    def run(
        self, app: Path, config: Mapping[str, str | int | float], *, nodes: int
    ) -> Iterator[Iterable[str]]:
        """Context of a run of an app.

        Args:
            app: directory of the Flower app.
            config: run configuration.
            nodes: number of simulated nodes.

        Yields:
            Lines of the log; the iteration ends with the run.
        """
        file = self.directory / "run-config.toml"
        # Strings and numbers have the same syntax in TOML and JSON.
        lines = (
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in config.items()
        )
        file.write_text("\n".join(lines), encoding="utf-8")
        command = [
            *("flwr", "run", str(app), _SUPERLINK, "--stream", "--run-config", str(file)),
            *("--federation-config", f"num-supernodes={nodes} client-resources-num-cpus=1"),
        ]
        with _process(command, self.environment, subprocess.PIPE) as process:
            assert process.stdout is not None
            yield process.stdout


@contextlib.contextmanager
def start_simulation() -> Iterator[Simulation]:
    """Context of a running SuperLink; at its end all processes of the SuperLink are killed.

    Yields:
        The running SuperLink.

    Raises:
        FlowerError: if the SuperLink does not start.
    """
    root = tempfile.gettempdir()
    if len(root) > _MAX_TEMPORARY_ROOT:
        root = "/tmp"
    with tempfile.TemporaryDirectory("", "fu-", root, ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        port = _free_port()
        (directory / "config.toml").write_text(
            f'[superlink.{_SUPERLINK}]\naddress = "{_HOST}:{port}"\ninsecure = true\n'
        )
        environment = _environment(directory)
        command = [
            *("flower-superlink", "--simulation", "--insecure"),
            *("--host", _HOST, "--port", str(port)),
        ]
        log = directory / "superlink.log"
        with log.open("w") as output, _process(command, environment, output) as superlink:
            with track("start of the SuperLink"):
                _wait_until_listening(superlink, port, log)
            yield Simulation(directory, environment)


def _environment(directory: Path) -> dict[str, str]:
    """Environment variables of all Flower processes."""
    commands = str(Path(sys.executable).parent)
    # Without this variable Ray starts on this machine even if a cluster is configured.
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return {
        **inherited,
        "PATH": os.pathsep.join([commands, os.environ.get("PATH", "")]),
        # The processes can import the same modules as this program.
        "PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path),
        "TMPDIR": str(directory),
        # Nodes run in parallel on the cores of this machine.
        "OMP_NUM_THREADS": "1",
        "NO_PROXY": _HOST,
        "no_proxy": _HOST,
        "FLWR_HOME": str(directory),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        # The app has no dependencies besides this package, which is installed.
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_until_listening(superlink: subprocess.Popen[str], port: int, log: Path) -> None:
    while superlink.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((_HOST, port)):
            return
        time.sleep(_POLL_INTERVAL_S)
    tail = _tail(log.read_text(encoding="utf-8").splitlines())
    raise FlowerError(f"the SuperLink ended:\n{tail}")


@contextlib.contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str], stdout: int | TextIO
) -> Iterator[subprocess.Popen[str]]:
    """Context of a process, at whose end the process and its descendants are killed.

    Flower's processes are killed because they may take minutes to terminate during a run. They
    leave only temporary files.
    """
    with subprocess.Popen(
        command,
        env=environment,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        # Ctrl-C in a terminal then interrupts only this program, which kills the others.
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            is_running = process.poll() is None
            tree = psutil.Process(process.pid).children(recursive=True) if is_running else []
            process.kill()
            for descendant in tree:
                with contextlib.suppress(psutil.NoSuchProcess):
                    descendant.kill()
            psutil.wait_procs(tree, _KILL_TIMEOUT_S)


def _tail(log: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in log[-_LOG_LINES:])
