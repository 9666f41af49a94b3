"""Server and client app of a task, in process: the same run as that of the local engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from flwr.app import Context, RecordDict

from feduplink import Scenario
from feduplink.federated import Federation, FederationSettings, load_task
from feduplink.flower import TaskResult, TaskRun
from feduplink.flower.client_app import app as client_app
from feduplink.flower.server_app import app as server_app
from .in_process_grid import InProcessGrid

ROUNDS = 10


def run_in_process(run: TaskRun, fails=lambda worker, exchange: False) -> TaskResult:
    config = run.run_config()
    grid = InProcessGrid(client_app, run.scenario.workers, config, fails)
    server_app(grid, Context(1, 1, {}, RecordDict(), config))
    return TaskResult.read(run.out)


def local_engine(run: TaskRun, present: torch.Tensor | None = None) -> Federation:
    name, sender = run.sender()
    settings = FederationSettings(runs=1, rounds=run.rounds, present=present)
    task = load_task(run.task, workers=run.scenario.workers)
    federation = Federation(task, {name: sender}, run.scenario, settings, seed=run.seed)
    federation.run()
    return federation


def check_alike(found: TaskResult, local: Federation) -> None:
    arrived = local.state.uplink[0].arrived
    assert [list(r.arrived) for r in found.uplink] == [
        row.nonzero()[:, 0].tolist() for row in arrived
    ]
    assert found.history.policies.keys() == local.history().policies.keys()
    for (ours,), (theirs,) in zip(
        found.history.policies.values(), local.history().policies.values(), strict=True
    ):
        assert ours.transmitting == theirs.transmitting
        assert ours.airtime_s == theirs.airtime_s
        assert ours.energy_j == theirs.energy_j
        assert ours.sent_bytes == theirs.sent_bytes
        assert ours.error == theirs.error
    for name, weight in local.state.model(0).items():
        print(name, (found.model[name] - weight).abs().max())
        torch.testing.assert_close(found.model[name], weight, rtol=0, atol=1e-6)


def test_ten_rounds_of_digits_with_pdx(scenario: Scenario, saved_pdx: Path, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy=str(saved_pdx), rounds=ROUNDS, seed=3, out=tmp_path)
    found = run_in_process(run)
    check_alike(found, local_engine(run))
    # Uploads were lost, so that this says something.
    assert 0 < sum(len(r.arrived) for r in found.uplink) < ROUNDS * scenario.workers
