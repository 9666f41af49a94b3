"""Settings of a run as Flower's configuration, its log lines and its result as a file."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import pytest
import torch

from feduplink import InputError, Scenario
from feduplink.federated import FederatedHistory, RunHistory, UplinkRecord
from feduplink.flower import TASK_APP, TaskResult, TaskRun
from feduplink.flower.task_run import parse_round_line, round_line

SCENARIO = Scenario(workers=3, pmax_dbw=(-20, -30, -40))


def test_run_configuration_restores_the_settings():
    run = TaskRun(
        scenario=SCENARIO,
        policy="tdma",
        rounds=7,
        seed=5,
        partition="iid",
        data=Path("sets"),
        kappa=0.5,
        deadline=3.0,
        packet_success="every-phase",
        imports="json,math",
        timeout=60.0,
        out=Path("there"),
    )
    config = run.run_config()
    assert config["packet-success"] == "every-phase"
    assert all(isinstance(value, str | int | float) for value in config.values())
    assert TaskRun.from_run_config(config) == run


def test_none_is_omitted_from_the_run_configuration():
    config = TaskRun(scenario=SCENARIO, out=Path("there")).run_config()
    assert "deadline" not in config and "rounds" not in config
    assert TaskRun.from_run_config(config).deadline is None


def test_the_app_has_every_field_with_its_default():
    app = tomllib.loads((TASK_APP / "pyproject.toml").read_text(encoding="utf-8"))
    config = app["tool"]["flwr"]["app"]["config"]
    assert {name.replace("-", "_") for name in config} == TaskRun.model_fields.keys()
    run = TaskRun.from_run_config({**config, "out": "there"})
    assert run == TaskRun(scenario=Scenario(), out=Path("there"))


def test_a_scenario_may_be_yaml():
    config = {"scenario": SCENARIO.to_yaml(), "out": "there"}
    assert TaskRun.from_run_config(config).scenario == SCENARIO


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds: .* greater than or equal to 1"),
        ({"sede": 1}, "sede: no such field, did you mean seed. accepted: scenario, task, policy"),
        ({"scenario": "workers: 0"}, "workers: .* greater than or equal to 1"),
        ({"scenario": "{"}, "scenario: .* is not YAML"),
        ({"scenario": "8"}, "scenario: .*"),
        ({"packet-success": "sometimes"}, "packet_success: .*worst-phase"),
        ({"imports": "no_such_module"}, "imports: no_such_module cannot be imported"),
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, object], message: str):
    config = {**TaskRun(scenario=SCENARIO, out=Path("there")).run_config(), **changes}
    with pytest.raises(InputError, match=message):
        TaskRun.from_run_config(config)


@pytest.mark.parametrize("error", [0.1 + 0.2, 1e-300, math.inf])
def test_parse_round_line_inverts_round_line(error: float):
    assert parse_round_line(f"INFO :      {round_line(12, error)}\n") == (12, error)
    assert parse_round_line("INFO :      [ROUND 1/3]\n") is None


def result() -> TaskResult:
    """Two rounds of three workers, with undefined times as of ``ideal``."""
    uplink = UplinkRecord(
        success=torch.tensor([[1.0, 0.5, 0.0], [1.0, 1.0, 0.25]], dtype=torch.float64),
        transmitting=torch.tensor([[True, True, False], [True, True, True]]),
        airtime_s=torch.full((2,), math.nan, dtype=torch.float64),
        energy_j=torch.tensor([0.5, 0.25], dtype=torch.float64),
        sent_bytes=torch.tensor([8.0, 12.0], dtype=torch.float64),
        arrived=torch.tensor([[True, False, False], [True, True, False]]),
    )
    history = FederatedHistory(
        "digits", "error", {"max": (RunHistory.from_uplink([0.5, math.nan], uplink),)}
    )
    model = {"0.weight": torch.randn(2, 3, generator=torch.Generator().manual_seed(0))}
    return TaskResult(history, torch.ones(2, 3, dtype=torch.bool), uplink, model)


def test_a_result_is_read_as_it_was_written(tmp_path: Path):
    written = result()
    written.write(tmp_path)
    read = TaskResult.read(tmp_path)
    assert read.history.to_json() == written.history.to_json()
    assert math.isnan(read.history.policies["max"][0].error[1])
    assert torch.equal(read.present, written.present)
    assert torch.equal(read.model["0.weight"], written.model["0.weight"])
    for name, values in written.uplink.tensors().items():
        torch.testing.assert_close(read.uplink.tensors()[name], values, equal_nan=True)


def test_a_directory_without_a_result_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"has no result.safetensors; accepted"):
        TaskResult.read(tmp_path)
    result().write(tmp_path)
    TaskResult.remove(tmp_path)
    with pytest.raises(InputError, match=r"has no result.safetensors; accepted"):
        TaskResult.read(tmp_path)


def test_a_damaged_result_is_refused(tmp_path: Path):
    result().write(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"Flower result: .* is damaged"):
        TaskResult.read(tmp_path)
