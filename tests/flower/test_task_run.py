from __future__ import annotations

from pathlib import Path

import pytest

from feduplink import InputError, Scenario
from feduplink.flower import TaskResult, TaskRun

SCENARIO = Scenario(workers=3, pmax_dbw=(-20, -30, -40))


def test_a_run_configuration_and_back():
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
        timeout=60.0,
        out=Path("there"),
    )
    config = run.run_config()
    assert config["packet-success"] == "every-phase"
    assert all(isinstance(value, str | int | float) for value in config.values())
    assert TaskRun.from_run_config(config) == run


def test_what_is_not_given_is_left_out():
    config = TaskRun(scenario=SCENARIO, out=Path("there")).run_config()
    assert "deadline" not in config and "rounds" not in config
    assert TaskRun.from_run_config(config).deadline is None


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
    ],
)
def test_refusals(changes: dict[str, object], message: str):
    config = {**TaskRun(scenario=SCENARIO, out=Path("there")).run_config(), **changes}
    with pytest.raises(InputError, match=message):
        TaskRun.from_run_config(config)


def test_a_directory_without_a_result(tmp_path: Path):
    with pytest.raises(InputError, match=r"has no flower.json; accepted"):
        TaskResult.read(tmp_path)
