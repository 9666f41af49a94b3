"""ServerApp and ClientApp of a task, in process: the run of the local engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from feduplink import InputError, Scenario
from feduplink.federated import Federation, FederationSettings, load_task, presence
from feduplink.flower import TaskResult, TaskRun
from feduplink.flower.client_app import app as client_app
from feduplink.flower.client_app import train
from feduplink.flower.server_app import app as server_app
from feduplink.storage.files import only_writer

from .hostile_uploads import BROKEN, LIAR, UNFIT, Lie, lying
from .in_process_grid import InProcessGrid

ROUNDS = 10


def run_in_process(
    run: TaskRun,
    fails: Callable[[int, int], bool] = lambda worker, exchange: False,
    app: ClientApp = client_app,
) -> TaskResult:
    config = run.run_config()
    grid = InProcessGrid(app, run.scenario.workers, config, fails)
    server_app(grid, Context(1, 1, {}, RecordDict(), config))
    return TaskResult.read(run.out)


def local_engine(run: TaskRun, present: torch.Tensor | None = None) -> Federation:
    name, policy = run.make_policy()
    settings = FederationSettings(
        runs=1,
        rounds=run.rounds,
        present=present,
        deadline_s=run.deadline,
        packet_success=run.packet_success,
    )
    task = load_task(run.task, workers=run.scenario.workers)
    federation = Federation(task, {name: policy}, run.scenario, settings, seed=run.seed)
    federation.run()
    return federation


def assert_same_as_local(found: TaskResult, local: Federation) -> None:
    """The same arrivals, costs and errors; the models are equal but for the order of sums."""
    assert torch.equal(found.uplink.arrived, local.state.uplink[0].arrived)
    assert found.history.to_json() == local.history().to_json()
    for name, weight in local.state.model(0).items():
        torch.testing.assert_close(found.model[name], weight, rtol=0, atol=1e-6)


def test_ten_rounds_of_digits_with_pdx(scenario: Scenario, saved_pdx: Path, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy=str(saved_pdx), rounds=ROUNDS, seed=3, out=tmp_path)
    found = run_in_process(run)
    assert_same_as_local(found, local_engine(run))
    # Some uploads were lost, so that the comparison includes lost uploads.
    assert 0 < found.uplink.arrived.sum() < ROUNDS * scenario.workers


@pytest.mark.parametrize("policy", ["ideal", "ofdma", "rand"])
def test_access_schemes_and_random_policies_equal_the_federation(
    scenario: Scenario, policy: str, tmp_path: Path
):
    run = TaskRun(scenario=scenario, policy=policy, rounds=3, seed=1, kappa=2.0, out=tmp_path)
    assert_same_as_local(run_in_process(run), local_engine(run))


def test_absent_worker_keeps_its_adam_moments(scenario: Scenario, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy="max", rounds=5, out=tmp_path)
    away = presence(5, scenario.workers, {1: {0, 2, 3}, 3: {0, 1, 2, 3}})
    found = run_in_process(run, lambda worker, exchange: not bool(away[exchange - 1, worker]))
    assert_same_as_local(found, local_engine(run, away))
    assert torch.equal(found.present, away)


def test_deadline_and_per_phase_arrivals_equal_the_federation(scenario: Scenario, tmp_path: Path):
    run = TaskRun(
        scenario=scenario,
        policy="max",
        rounds=4,
        deadline=8.0,
        packet_success="every-phase",
        out=tmp_path,
    )
    found = run_in_process(run)
    assert_same_as_local(found, local_engine(run))
    assert found.uplink.airtime_s.max() == 8.0


def test_run_without_arrivals_returns_the_initial_model(scenario: Scenario, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy="max", rounds=2, deadline=1e-3, out=tmp_path)
    found = run_in_process(run)
    assert not found.uplink.arrived.any()
    assert_same_as_local(found, local_engine(run))


@pytest.fixture(scope="module")
def without_the_liar(tmp_path_factory: pytest.TempPathFactory) -> TaskResult:
    """Three rounds in which worker 1 fails from the second one on."""
    run = three_rounds(tmp_path_factory.mktemp("alone"))
    return run_in_process(run, lambda worker, exchange: worker == LIAR and exchange > 1)


def three_rounds(out: Path) -> TaskRun:
    return TaskRun(scenario=Scenario(workers=3), policy="ideal", rounds=3, out=out)


@pytest.mark.parametrize("lie", (BROKEN | UNFIT).values(), ids=list(BROKEN | UNFIT))
def test_uploads_of_other_models_are_ignored(
    lie: Lie, without_the_liar: TaskResult, tmp_path: Path
):
    found = run_in_process(three_rounds(tmp_path), app=lying(train, lie))
    for name, expected in without_the_liar.model.items():
        assert torch.equal(found.model[name], expected)
    (ours,), (theirs,) = (
        next(iter(result.history.policies.values())) for result in (found, without_the_liar)
    )
    assert ours.error == theirs.error


def test_a_run_without_a_node_per_worker_is_refused(scenario: Scenario, tmp_path: Path):
    config = TaskRun(scenario=scenario, policy="max", timeout=0.1, out=tmp_path).run_config()
    with pytest.raises(InputError, match=r"nodes: 3 connected within 0.1 s; accepted: at least 4"):
        server_app(InProcessGrid(client_app, 3, config), Context(1, 1, {}, RecordDict(), config))


def test_run_without_nodes_ends_without_a_result(scenario: Scenario, tmp_path: Path):
    class OneRound(InProcessGrid):
        def get_node_ids(self) -> list[int]:
            return [] if self.exchanges else super().get_node_ids()

    run = TaskRun(scenario=scenario, policy="max", rounds=2, timeout=0.1, out=tmp_path)
    run_in_process(run)
    config = run.run_config()
    with pytest.raises(InputError, match=r"nodes: 0 connected within 0.1 s; accepted: at least 1"):
        server_app(OneRound(client_app, 4, config), Context(1, 1, {}, RecordDict(), config))
    with pytest.raises(InputError, match=r"has no result\.safetensors"):
        TaskResult.read(tmp_path)


def test_concurrent_runs_in_one_directory_are_refused(scenario: Scenario, tmp_path: Path):
    run = TaskRun(scenario=scenario, policy="ideal", rounds=1, out=tmp_path)
    with (
        only_writer(tmp_path),
        pytest.raises(InputError, match="another process is writing to"),
    ):
        run_in_process(run)
    run_in_process(run)
    run_in_process(run)


def test_a_second_run_replaces_the_result_of_the_first(scenario: Scenario, tmp_path: Path):
    for rounds in (2, 1):
        run = TaskRun(scenario=scenario, policy="ideal", rounds=rounds, out=tmp_path)
        found = run_in_process(run)
        assert found.history.rounds == rounds
        assert_same_as_local(found, local_engine(run))
