"""Flower's Simulation runtime, with the real ``flwr run``."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from flwr.app import Context, RecordDict
from quadratic_app import client_app, server_app
from quadratic_app.strategies import STRATEGIES
from torch import Tensor

from feduplink import FullPower, InputError, PowerPolicy, Scenario
from feduplink.cli.command_line import main
from feduplink.federated import Federation, FederationSettings, load_task
from feduplink.flower import FlowerError, federate_with_flower
from feduplink.flower.simulation import Simulation, start_simulation
from feduplink.policies import Ideal
from feduplink.progress import Callback, Step, Work

from .conftest import FOUR_STRATEGIES
from .in_process_grid import InProcessGrid

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
WORKERS, ROUNDS = 2, 2


def processes_of(directory: Path) -> list[str]:
    """Command lines of the processes whose temporary files are below ``directory``."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR", "").startswith(str(directory)):
                found.append(" ".join(process.cmdline()))
    return found


@pytest.fixture
def temporary(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """An empty directory for temporary files with a short path; nothing may be left there."""
    tmp_path_factory.getbasetemp()  # pytest's own is elsewhere
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)
        assert processes_of(Path(directory)) == []
        assert not list(Path(directory).glob("fu-*"))


class Errors(Callback):
    """Keeps the errors of the rounds."""

    def __init__(self) -> None:
        self.errors: list[float] = []

    def on_step(self, work: Work, step: Step) -> None:
        self.errors += step.figures.values()


@pytest.mark.slow
def test_flower_run_equals_the_federation_and_leaves_no_processes(temporary: Path):
    scenario = Scenario(workers=WORKERS, waterfall=0.4)
    policies = {"full power": FullPower(scenario)}
    callback = Errors()
    found = federate_with_flower(
        "digits", policies, scenario, rounds=ROUNDS, seed=3, callbacks=[callback]
    )
    expected = Federation(
        load_task("digits", workers=WORKERS),
        policies,
        scenario,
        FederationSettings(rounds=ROUNDS),
        seed=3,
    ).run()
    assert found.to_json() == expected.to_json()
    assert tuple(callback.errors) == found.policies["full power"][0].error


@pytest.mark.slow
def test_table_and_metrics_of_the_command_equal_the_federation(
    temporary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """An access scheme, a policy that is tuned, and one of a class of the user's own."""
    policies = ["--policies", "ideal,openloop,wmmse_policy:Wmmse"]
    printed, metrics = [], []
    for engine in ("local", "flower"):
        out = tmp_path / engine
        options = ["--workers", "2", "--rounds", "2", "--seed", "5", "--out", str(out)]
        assert main(["federate", "--engine", engine, *policies, *options]) == 0
        printed.append(capsys.readouterr().out.replace(str(out), "OUT"))
        found = json.loads((out / "metrics.json").read_text())
        assert found.pop("engine") == engine
        del found["provenance"]
        metrics.append(found)
    assert printed[0] == printed[1]
    assert metrics[0] == metrics[1]


@pytest.mark.slow
def test_failed_run_reports_the_cause_and_leaves_no_processes(temporary: Path):
    scenario = Scenario(workers=1)
    with pytest.raises(FlowerError, match="imports: no_such_module cannot be imported"):
        federate_with_flower(
            "digits", {"ideal": Ideal(scenario)}, scenario, imports=["no_such_module"]
        )


def test_a_policy_of_the_main_program_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch):
    class Silent(PowerPolicy):
        name = "silent"
        __module__ = "__main__"

        def powers(self, csi: Tensor) -> Tensor:
            return torch.zeros(csi.shape[:-1])

    scenario = Scenario(workers=1)
    with pytest.raises(InputError, match="defined in the main program; accepted"):
        federate_with_flower("digits", {"silent": Silent(scenario)}, scenario)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_command_leaves_no_processes(
    number: signal.Signals, status: int, temporary: Path, tmp_path: Path
):
    out = tmp_path / "out"
    words = ["--workers", "2", "--rounds", "100000", "--policies", "ideal", "--out", str(out)]
    command = subprocess.Popen(
        [sys.executable, "-m", "feduplink", "federate", "--engine", "flower", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A test runner in the background may ignore Ctrl-C, which children would inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        while not any("ClientAppActor" in line for line in processes_of(temporary)):
            assert command.poll() is None
            time.sleep(0.2)
        command.send_signal(number)
        _, printed = command.communicate()
    finally:
        command.kill()
    assert command.returncode == status
    assert "Traceback" not in printed
    assert not out.exists() or list(out.iterdir()) == []


@pytest.fixture(scope="module")
def simulation() -> Iterator[Simulation]:
    with start_simulation() as started:
        yield started


@pytest.fixture(scope="module")
def simulated(simulation: Simulation) -> dict[str, Any]:
    """Results of every strategy, one after the other in the same run."""
    out = simulation.directory / "found.json"
    config = {"workers": WORKERS, "rounds": ROUNDS, "out": str(out)}
    with simulation.run(FOUR_STRATEGIES, config, nodes=WORKERS) as log:
        lines = list(log)
    assert out.exists(), "".join(lines)
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same ServerApp and ClientApp called in this process."""
    out = tmp_path_factory.mktemp("in-process") / "found.json"
    config = {"workers": WORKERS, "rounds": ROUNDS, "out": str(out)}
    grid = InProcessGrid(client_app.app, WORKERS)
    server_app.app(grid, Context(1, 1, {}, RecordDict(), config))
    return json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_over_the_uplink_equal_those_in_process(
    name: str, simulated: dict[str, Any], in_process: dict[str, Any]
):
    assert simulated[name] == in_process[name]
    assert len(simulated[name]["arrived"]) == ROUNDS


@pytest.mark.slow
def test_the_example_learns(simulation: Simulation):
    config = {"workers": WORKERS, "rounds": ROUNDS}
    with simulation.run(EXAMPLE, config, nodes=WORKERS) as lines:
        log = "".join(lines)
    rounds = [ast.literal_eval(found) for found in re.findall(r"round \d+: (\{.*\})", log)]
    assert len(rounds) == ROUNDS, log
    assert rounds[-1]["accuracy"] > 0.7
    for metrics in rounds:
        assert metrics["uplink-present"] == WORKERS
        assert metrics["uplink-airtime-s"] > 0
        assert ("loss" in metrics) == (metrics["uplink-arrivals"] > 0)


def test_the_example_is_short():
    files = EXAMPLE.rglob("*.py")
    assert 0 < sum(len(file.read_text().splitlines()) for file in files) < 100
