"""A SuperLink and SuperNodes as processes on this machine, against the real Flower."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from feduplink import Scenario
from feduplink.federated import Federation, FederationSettings, load_task
from feduplink.flower import TaskResult, TaskRun
from feduplink.flower.certificates import write_node_key, write_server_certificate
from feduplink.flower.flower_deployment import DeploymentError, FlowerDeployment
from feduplink.flower.free_ports import free_ports
from feduplink.flower.guarded_process import GuardedProcess
from feduplink.flower.loopback_federation import run_task
from feduplink.flower.superlink_client import App, RunStatus
from feduplink.flower.task_progress import finished_rounds
from feduplink.policies import load_policy

from .left_behind import assert_nothing_is_left, ended, ports_of, processes_of

CLIENT = "feduplink.flower.client_app"
SEED = 3


@pytest.fixture(scope="module")
def deployment(scenario: Scenario) -> Iterator[FlowerDeployment]:
    with FlowerDeployment(scenario.workers, preload=[CLIENT]) as started:
        yield started


def task_run(scenario: Scenario, policy: Path, rounds: int, out: Path) -> TaskRun:
    return TaskRun(
        scenario=scenario, task="digits", policy=str(policy), rounds=rounds, seed=SEED, out=out
    )


def assert_same_as_local(result: TaskResult, scenario: Scenario, policy: Path, rounds: int) -> None:
    """Who arrived, what it cost, the errors, and every weight of the final model to 1e-6."""
    federation = Federation(
        load_task("digits", workers=scenario.workers),
        {"pdx": load_policy(policy)},
        scenario,
        FederationSettings(rounds=rounds),
        seed=SEED,
    )
    history = federation.run()
    assert result.history.to_json() == history.to_json()
    arrived = [set(torch.nonzero(row)[:, 0].tolist()) for row in federation.state.uplink[0].arrived]
    assert [set(found.arrived) for found in result.uplink] == arrived
    for name, expected in federation.state.model(0).items():
        torch.testing.assert_close(result.model[name], expected, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_two_workers_are_those_of_the_local_engine_and_leave_nothing(tmp_path: Path):
    scenario = Scenario(workers=2, waterfall=0.4)
    with FlowerDeployment(2, preload=[CLIENT]) as deployment:
        directory, ports = deployment.directory, ports_of(deployment)
        assert len(processes_of(directory)) >= 8  # four commands, each with its guard
        run = TaskRun(scenario=scenario, policy="max", rounds=1, seed=SEED, out=tmp_path)
        result = run_task(deployment, run, name="max")
    assert_nothing_is_left(directory, ports)
    local = Federation(
        load_task("digits", workers=2),
        {"max": run.sender()[1]},
        scenario,
        FederationSettings(rounds=1),
        seed=SEED,
    )
    assert local.run().to_json() == result.history.to_json()
    for name, expected in local.state.model(0).items():
        torch.testing.assert_close(result.model[name], expected, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_ten_rounds_with_pdx_are_those_of_the_local_engine(
    deployment: FlowerDeployment, scenario: Scenario, saved_pdx: Path, tmp_path: Path
):
    result = run_task(deployment, task_run(scenario, saved_pdx, 10, tmp_path), name="pdx")
    assert_same_as_local(result, scenario, saved_pdx, 10)


def supernode(deployment: FlowerDeployment, directory: Path, authority: Path) -> GuardedProcess:
    """A SuperNode with a key that the SuperLink was not told; it asks once and gives up."""
    (port,) = free_ports(1)
    key = write_node_key(directory, "stranger")
    return GuardedProcess(
        "stranger",
        [
            *("flower-supernode", "--superlink", deployment.address, "--max-retries", "0"),
            *("--root-certificates", str(authority)),
            *("--auth-supernode-private-key", str(key.private)),
            *("--host", "127.0.0.1", "--port", str(port), "--isolation", "process"),
        ],
        deployment._environment("stranger"),
        directory,
    )


@pytest.mark.slow
def test_a_supernode_with_an_unknown_key_is_refused(deployment: FlowerDeployment, tmp_path: Path):
    before = deployment.client.online()
    stranger = supernode(deployment, tmp_path, deployment.directory / "certificates" / "ca.crt")
    assert ended(stranger) == 1, stranger.log_tail()
    assert "Failed to initialize the connection to the SuperLink" in stranger.log_tail()
    assert "CERTIFICATE_VERIFY_FAILED" not in stranger.log_tail()
    assert deployment.client.online() == before
    stranger.stop()


@pytest.mark.slow
def test_a_supernode_with_a_wrong_certificate_is_refused(
    deployment: FlowerDeployment, tmp_path: Path
):
    before = deployment.client.online()
    stranger = supernode(deployment, tmp_path, write_server_certificate(tmp_path).authority)
    assert ended(stranger) == 1, stranger.log_tail()
    assert "CERTIFICATE_VERIFY_FAILED" in stranger.log_tail()
    assert deployment.client.online() == before
    stranger.stop()


def training_for_the(time_number: int, deployment: FlowerDeployment, worker: int) -> bool:
    """Whether a worker's SuperNode has its n-th message and has not sent the reply."""
    log = next(p for p in deployment.processes() if p.name == f"supernode-{worker}").log.read_text()
    received, sent = log.count("Received successfully"), log.count("Sending: train message")
    return received - sent == 1 and received == time_number


@pytest.mark.slow
def test_a_worker_killed_in_round_three_is_not_heard_and_comes_back(
    scenario: Scenario, saved_pdx: Path, tmp_path: Path
):
    killed: list[float] = []

    def watch() -> None:
        if not killed and training_for_the(3, deployment, 1):
            deployment.kill(1)
            killed.append(time.monotonic())

    with FlowerDeployment(scenario.workers, preload=[CLIENT]) as deployment:
        run = task_run(scenario, saved_pdx, 10, tmp_path)
        result = run_watched(deployment, run, watch)
        assert deployment.starts(1) == 2
    present = [set(found.present) for found in result.uplink]
    assert killed
    assert present[:3] == [{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 2, 3}]
    assert 1 not in result.uplink[2].arrived
    assert present[-1] == {0, 1, 2, 3}
    assert any(1 in found.arrived for found in result.uplink[3:])


def run_watched(
    deployment: FlowerDeployment, run: TaskRun, watch: Callable[[], None]
) -> TaskResult:
    config = run.run_config()
    app = App("feduplink.flower.server_app:app", f"{CLIENT}:app", config, {})
    deployment.run(app, config, watch=watch)
    return TaskResult.read(run.out)


@dataclass
class RandomKill:
    """Kills a worker's SuperNode ``delay_s`` after ``rounds`` rounds have finished."""

    deployment: FlowerDeployment
    worker: int
    out: Path
    rounds: int
    delay_s: float
    reached: float | None = None
    done: bool = False

    def __call__(self) -> None:
        if self.reached is None and len(finished_rounds(self.out)) >= self.rounds:
            self.reached = time.monotonic()
        if self.reached is not None and time.monotonic() - self.reached > self.delay_s:
            if not self.done:
                self.deployment.kill(self.worker)
            self.done = True

    def __str__(self) -> str:
        when = f"{self.delay_s:.1f} s after round {self.rounds}" if self.done else "after the end"
        return f"worker {self.worker} killed {when}"


@pytest.mark.slow
def test_twenty_kills_at_random_moments_and_twenty_runs_finish(
    deployment: FlowerDeployment, scenario: Scenario, saved_pdx: Path, tmp_path: Path
):
    """In a random round of three, up to 3 s after the one before ended; a round takes 1 to 4 s."""
    draw = random.Random(13)
    missed = 0
    for number in range(20):
        run = task_run(scenario, saved_pdx, 3, tmp_path / str(number))
        worker = draw.randrange(scenario.workers)
        kill = RandomKill(deployment, worker, run.out, draw.randrange(3), draw.uniform(0.0, 3.0))
        begun, starts = time.monotonic(), deployment.starts(worker)
        result = run_watched(deployment, run, kill)
        took = time.monotonic() - begun
        lost = [found.number for found in result.uplink if worker not in found.present]
        print(f"run {number}, {took:.0f} s: {kill}, not heard in rounds {lost}", flush=True)
        missed += len(lost)
        if not kill.done:
            deployment.kill(worker)
        assert len(result.uplink) == 3
        others = set(range(scenario.workers)) - {worker}
        assert all(others <= set(found.present) for found in result.uplink)
        deadline = time.monotonic() + 60
        while len(deployment.online()) < scenario.workers or deployment.starts(worker) == starts:
            assert time.monotonic() < deadline, "the worker did not come back"
            time.sleep(0.2)
    assert missed > 0  # else no kill was felt, and nothing was tested


FAILING = """
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
client, server = ClientApp(), ServerApp()

@server.main()
def main(grid, context):
    raise ValueError("the bridge is out")
"""


@pytest.mark.slow
def test_a_run_that_fails_says_why_and_leaves_nothing(tmp_path: Path):
    (tmp_path / "failing_app.py").write_text(FAILING)
    app = App(
        "failing_app:server",
        "failing_app:client",
        {},
        {"failing_app.py": tmp_path / "failing_app.py"},
    )
    with (
        pytest.raises(DeploymentError, match="the bridge is out"),
        FlowerDeployment(1) as deployment,
    ):
        directory, ports = deployment.directory, ports_of(deployment)
        deployment.run(app)
    assert_nothing_is_left(directory, ports)


@pytest.mark.slow
def test_a_superlink_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path):
    run = TaskRun(scenario=Scenario(workers=1), policy="max", rounds=1, out=tmp_path)
    with FlowerDeployment(1) as deployment:
        superlink = deployment.processes()[0]
        with pytest.raises(DeploymentError) as failure:
            run_watched(deployment, run, superlink.kill)
    assert str(failure.value).startswith("superlink ended with status 137.\n")
    assert "POST /v1/control/list-runs" in str(failure.value)


@pytest.mark.slow
def test_a_superlink_that_lives_and_does_not_answer_is_asked_again(
    deployment: FlowerDeployment,
    scenario: Scenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    status, missed = deployment.client.status, iter([True, True])

    def sometimes(run: int) -> RunStatus:
        if next(missed, False):
            raise ConnectionError("The SuperLink does not answer: timed out")
        return status(run)

    monkeypatch.setattr(deployment.client, "status", sometimes)
    run = TaskRun(scenario=scenario, policy="max", rounds=1, out=tmp_path)
    assert len(run_watched(deployment, run, lambda: None).uplink) == 1
    assert not any(missed)


INTERRUPTED = """
import time
from feduplink.flower.flower_deployment import FlowerDeployment
with FlowerDeployment(2) as deployment:
    ports = [deployment.address.split(":")[1], *(node.port for node in deployment._nodes)]
    print(deployment.directory, *ports, flush=True)
    time.sleep(100)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_ended_leaves_nothing(number: signal.Signals):
    program = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A test runner in the background may ignore Ctrl-C, which children would inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert program.stdout is not None
        directory, *ports = program.stdout.readline().split()
        assert len(processes_of(Path(directory))) >= 8
        program.send_signal(number)
        program.wait(60)
    finally:
        program.kill()
    # In order it is all gone when the program is; killed, the guards need a moment.
    within_s = 60.0 if number == signal.SIGKILL else 0.0
    assert_nothing_is_left(Path(directory), [int(port) for port in ports], within_s=within_s)
