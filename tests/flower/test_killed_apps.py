"""Halves of a Flower app, and the command that runs it, that are ended in the middle of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feduplink import InputError, Scenario
from feduplink.flower import TaskResult, TaskRun
from feduplink.flower.flower_deployment import DeploymentError, FlowerDeployment
from feduplink.flower.loopback_federation import loopback_deployment, run_task
from feduplink.flower.task_progress import finished_rounds
from feduplink.progress import Callback, Step, Work

from .left_behind import commands_of, processes_of

WORKERS = 2


@pytest.fixture(scope="module")
def deployment() -> Iterator[FlowerDeployment]:
    with loopback_deployment(WORKERS) as started:
        yield started


def task(out: Path, rounds: int) -> TaskRun:
    return TaskRun(scenario=Scenario(workers=WORKERS), policy="ideal", rounds=rounds, out=out)


class After(Callback):
    """Does something once, when a round has finished."""

    def __init__(self, do: Callable[[], None]) -> None:
        self.do, self.done = do, False

    def on_step(self, work: Work, step: Step) -> None:
        if not self.done:
            self.do()
        self.done = True


def signal_serverapp(deployment: FlowerDeployment, number: signal.Signals) -> None:
    (pid,) = (
        pid
        for pid, command in commands_of(deployment.directory).items()
        if "flwr-serverapp" in command
    )
    os.kill(pid, number)


def kill_a_clientapp(deployment: FlowerDeployment, after_s: float) -> None:
    """One that begins now; those that are there may have replied already."""
    executor = deployment.processes()[1].pid
    children = Path(f"/proc/{executor}/task/{executor}/children")
    before = set(children.read_text().split())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if begun := set(children.read_text().split()) - before:
            time.sleep(after_s)
            os.kill(int(begun.pop()), signal.SIGKILL)
            return
    raise TimeoutError("no ClientApp in a minute")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_serverapp_that_is_ended_is_told_and_the_next_run_is_whole(
    deployment: FlowerDeployment, number: signal.Signals, tmp_path: Path
):
    after = After(lambda: signal_serverapp(deployment, number))
    with pytest.raises(DeploymentError, match=r"^The Flower run (failed|stopped): "):
        run_task(deployment, task(tmp_path, 100), name="ideal", callbacks=[after])
    assert after.done
    assert {path.name for path in tmp_path.iterdir()} == {"rounds.jsonl"}
    with pytest.raises(InputError, match=r"has no flower\.json"):
        TaskResult.read(tmp_path)
    again = run_task(deployment, task(tmp_path, 2), name="ideal")
    assert [found.arrived for found in again.uplink] == [(0, 1), (0, 1)]
    assert len(finished_rounds(tmp_path)) == 2
    names = {"rounds.jsonl", "flower.json", "model.safetensors"}
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.slow
def test_a_clientapp_that_is_killed_is_run_again_or_absent_in_its_round(
    deployment: FlowerDeployment, tmp_path: Path
):
    """Its SuperNode hands out again what nobody has worked on, and replies for one that stopped."""
    alone = run_task(deployment, task(tmp_path / "alone", 3), name="ideal")
    for number, after_s in enumerate((0.0, 1.0)):
        kill = After(lambda after_s=after_s: kill_a_clientapp(deployment, after_s))
        out = tmp_path / str(number)
        found = run_task(deployment, task(out, 3), name="ideal", callbacks=[kill])
        assert kill.done
        present = sorted(len(uplink.present) for uplink in found.uplink)
        assert present in ([2, 2, 2], [1, 2, 2])
        if present == [2, 2, 2]:
            assert found.history == alone.history
            assert all((found.model[name] == alone.model[name]).all() for name in alone.model)


@pytest.mark.slow
def test_an_executor_that_dies_is_named(tmp_path: Path):
    with loopback_deployment(WORKERS) as deployment:
        after = After(deployment.processes()[1].kill)
        with pytest.raises(DeploymentError, match=r"^clientapp-executor ended with status 137"):
            run_task(deployment, task(tmp_path, 100), name="ideal", callbacks=[after])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_command_that_is_ended_leaves_nothing(
    number: signal.Signals, status: int, tmp_path: Path
):
    """Neither processes nor files, in ``--out`` and among temporary files."""
    temporary, out = tmp_path / "tmp", tmp_path / "out"
    temporary.mkdir()
    words = ["--workers", WORKERS, "--rounds", 200, "--policies", "openloop", "--out", out]
    command = subprocess.Popen(
        [sys.executable, "-m", "feduplink", "federate", "--engine", "flower", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and not list(temporary.rglob("rounds.jsonl")):
            time.sleep(0.1)
        (deployed,) = temporary.glob("feduplink-flower-*")
        assert len(processes_of(deployed)) >= 8
        command.send_signal(number)
        _, said = command.communicate(timeout=60)
    finally:
        command.kill()
    assert command.returncode == status
    assert "Traceback" not in said
    while time.monotonic() < deadline and (processes_of(deployed) or deployed.exists()):
        time.sleep(0.1)
    assert processes_of(deployed) == []
    assert list(temporary.iterdir()) == []
    assert not out.exists() or list(out.iterdir()) == []
