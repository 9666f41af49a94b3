"""Server and client app of a task, in process: the same run as that of the local engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from flwr.app import Context, RecordDict

from feduplink import InputError, Scenario
from feduplink.federated import Federation, FederationSettings, load_task, presence
from feduplink.flower import TaskResult, TaskRun, task_result
from feduplink.flower.client_app import app as client_app
from feduplink.flower.server_app import app as server_app
from feduplink.flower.task_progress import finished_rounds
from feduplink.storage.files import only_writer

from .in_process_grid import InProcessGrid

ROUNDS = 10


def run_in_process(
    run: TaskRun, fails: Callable[[int, int], bool] = lambda worker, exchange: False
) -> TaskResult:
    config = run.run_config()
    grid = InProcessGrid(client_app, run.scenario.workers, config, fails)
    server_app(grid, Context(1, 1, {}, RecordDict(), config))
    return TaskResult.read(run.out)


def local_engine(run: TaskRun, present: torch.Tensor | None = None) -> Federation:
    name, sender = run.sender()
    settings = FederationSettings(
        runs=1,
        rounds=run.rounds,
        present=present,
        deadline_s=run.deadline,
        packet_success=run.packet_success,
    )
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


@pytest.mark.parametrize("policy", ["ideal", "ofdma", "rand"])
def test_schemes_and_policies_that_draw(scenario: Scenario, policy: str, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy=policy, rounds=3, seed=1, kappa=2.0, out=tmp_path)
    check_alike(run_in_process(run), local_engine(run))


def test_a_worker_that_is_away_for_two_rounds(scenario: Scenario, tmp_path: Path):
    """Its Adam waits for it, on the node."""
    run = TaskRun(scenario=scenario, policy="max", rounds=5, out=tmp_path)
    away = presence(5, scenario.workers, {1: {0, 2, 3}, 3: {0, 1, 2, 3}})
    found = run_in_process(run, lambda worker, exchange: not bool(away[exchange - 1, worker]))
    check_alike(found, local_engine(run, away))
    assert [len(r.present) for r in found.uplink] == [4, 3, 3, 4, 4]


def test_a_deadline_and_phases(scenario: Scenario, tmp_path: Path):
    run = TaskRun(
        scenario=scenario,
        policy="max",
        rounds=4,
        deadline=8.0,
        packet_success="every-phase",
        out=tmp_path,
    )
    found = run_in_process(run)
    check_alike(found, local_engine(run))
    assert max(r.airtime_s or 0.0 for r in found.uplink) == 8.0


def test_nothing_ever_arrives(scenario: Scenario, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy="max", rounds=2, deadline=1e-3, out=tmp_path)
    found = run_in_process(run)
    assert [r.arrived for r in found.uplink] == [(), ()]
    check_alike(found, local_engine(run))


def test_too_few_nodes(scenario: Scenario, tmp_path: Path):
    config = TaskRun(scenario=scenario, policy="max", timeout=0.1, out=tmp_path).run_config()
    with pytest.raises(InputError, match=r"nodes: 3 connected within 0.1 s; accepted: 4, one per"):
        server_app(InProcessGrid(client_app, 3, config), Context(1, 1, {}, RecordDict(), config))


def test_a_node_of_no_worker(scenario: Scenario, tmp_path: Path):
    config = TaskRun(scenario=scenario, policy="max", rounds=1, out=tmp_path).run_config()
    with pytest.raises(InputError, match="partition-id: 4 is not accepted; accepted: 0 to 3"):
        server_app(InProcessGrid(client_app, 5, config), Context(1, 1, {}, RecordDict(), config))


def test_a_run_whose_nodes_are_gone_ends(scenario: Scenario, tmp_path: Path):
    class OneRound(InProcessGrid):
        def get_node_ids(self) -> list[int]:
            return [] if self.exchanges else super().get_node_ids()

    run = TaskRun(scenario=scenario, policy="max", rounds=2, timeout=0.1, out=tmp_path)
    config = run.run_config()
    with pytest.raises(InputError, match=r"nodes: 0 connected within 0.1 s; accepted: 1, "):
        server_app(OneRound(client_app, 4, config), Context(1, 1, {}, RecordDict(), config))
    assert len(finished_rounds(tmp_path)) == 1
    with pytest.raises(InputError, match=r"has no flower\.json"):
        TaskResult.read(tmp_path)


def test_a_second_run_in_the_same_place(scenario: Scenario, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy="ideal", rounds=1, out=tmp_path)
    with (
        only_writer(tmp_path),
        pytest.raises(InputError, match="another process is writing to"),
    ):
        run_in_process(run)
    run_in_process(run)
    run_in_process(run)
    assert len(finished_rounds(tmp_path)) == 1


def test_a_history_is_never_beside_the_model_of_another_run(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = TaskRun(scenario=scenario, policy="ideal", rounds=1, out=tmp_path)
    found = run_in_process(run)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(task_result, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        found.write(tmp_path)
    with pytest.raises(InputError, match=r"has no flower\.json"):
        TaskResult.read(tmp_path)
