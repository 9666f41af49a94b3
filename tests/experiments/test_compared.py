from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch

from feduplink import Scenario, draw_csi, judge
from feduplink.channels import make_channels
from feduplink.experiments.compared import (
    COMPARED,
    LEARNED,
    READINGS,
    PolicyOutcome,
    evaluate_setting,
    make_cached_policy,
    make_compared,
    training_history,
)
from feduplink.experiments.context import ExperimentContext
from feduplink.optimum import MAX_VIOLATION
from feduplink.policies import judge_policy
from feduplink.reporting.style import OPTIMUM

SCENARIO = Scenario()
CSI = draw_csi(SCENARIO, 6, torch.Generator().manual_seed(3))
ON_CONSTRAINTS = {"feasible", "shortfall", "shortfall_error"}
ON_TEST_CHANNELS = set(PolicyOutcome.model_fields) - ON_CONSTRAINTS - {"repaired_objective"}


def _written(directory: Path) -> dict[Path, int]:
    """When each file was last written."""
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


def test_every_policy_is_usable_and_made_once(context: ExperimentContext):
    first = make_compared(context, SCENARIO, 0)
    assert tuple(first) == COMPARED
    before = _written(context.directory)
    again = make_compared(context, SCENARIO, 0)
    assert _written(context.directory) == before
    for name, policy in first.items():
        assert policy.name == name
        power = policy.allocate(CSI)
        assert power.shape == (6, 8)
        assert bool(((power >= 0) & (power <= SCENARIO.max_power * (1 + 1e-6))).all())
        assert torch.equal(power, again[name].allocate(CSI))


def test_both_readings_of_the_baselines_set_the_same_powers(context: ExperimentContext):
    for name in ("rand", "orth"):
        selected, unselected = (
            make_cached_policy(context, reading, SCENARIO, 0).allocate(CSI)
            for reading in (name, f"{name}:unselected")
        )
        active = selected > 0
        assert 0 < active.sum() < (unselected > 0).sum()
        assert torch.equal(selected[active], unselected[active])


def test_readings_and_learned_policies_are_compared():
    assert {name for baselines in READINGS.values() for name in baselines} < set(COMPARED)
    assert set(LEARNED) < set(COMPARED)


def test_another_seed_or_scenario_is_another_policy(context: ExperimentContext):
    here, seed, scenario = (
        make_cached_policy(context, "pdm", *which).allocate(CSI)
        for which in ((SCENARIO, 0), (SCENARIO, 1), (SCENARIO.replace(interference=2.0), 0))
    )
    assert not torch.equal(here, seed)
    assert not torch.equal(here, scenario)


@pytest.mark.parametrize("name", ["pdm", "pdg"])
def test_the_history_has_every_epoch(context: ExperimentContext, name: str):
    history = training_history(context, name, SCENARIO, 0)
    assert [epoch.number for epoch in history] == list(range(context.scale.epochs))
    assert all(len(epoch.constraints["rate"]) == 8 for epoch in history)
    assert all(0 < epoch.objective < 1 for epoch in history)


def test_a_setting_agrees_with_evaluate(context: ExperimentContext):
    setting = evaluate_setting(context, SCENARIO, 0)
    assert tuple(setting.policies) == (*COMPARED, OPTIMUM)
    csi = make_channels(SCENARIO, context.scale.channels, seed=0).test
    many = make_channels(SCENARIO, context.scale.verdict_channels, seed=0).test
    assert len(many) > len(csi)
    for name, policy in make_compared(context, SCENARIO, 0).items():
        found = setting.policies[name]
        on_test = judge_policy(policy, csi, SCENARIO).as_metrics()
        assert found.model_dump(include=ON_TEST_CHANNELS) == {
            n: on_test[n] for n in ON_TEST_CHANNELS
        }
        on_many = judge_policy(policy, many, SCENARIO).as_metrics()
        assert found.model_dump(include=ON_CONSTRAINTS) == {n: on_many[n] for n in ON_CONSTRAINTS}


def test_more_channels_decide_on_the_constraints_alone(generator):
    judgement = judge(SCENARIO, draw_csi(SCENARIO, 4, generator), torch.full((4, 8), 0.01))
    alone = PolicyOutcome.from_judgement(judgement)
    more = dataclasses.replace(
        judgement,
        objective=0.5,
        weighted_per=0.5,
        feasible=None,
        shortfall=-0.3,
        shortfall_error=0.4,
    )
    outcome = PolicyOutcome.from_judgement(judgement, on_more_channels=more)
    assert outcome.model_dump(include=ON_CONSTRAINTS) == {
        "feasible": None,
        "shortfall": -0.3,
        "shortfall_error": 0.4,
    }
    assert outcome.model_dump(include=ON_TEST_CHANNELS) == alone.model_dump(
        include=ON_TEST_CHANNELS
    )


def test_undefined_measures_are_none(generator):
    """One round has an infinite interval; a silent cell has no packet error rate."""
    csi = draw_csi(SCENARIO, 1, generator)
    once = PolicyOutcome.from_judgement(judge(SCENARIO, csi, torch.full((1, 8), 0.01)))
    assert (once.feasible, once.shortfall_error) == (None, None)
    silent = PolicyOutcome.from_judgement(judge(SCENARIO, csi, torch.zeros(1, 8)))
    assert silent.weighted_per is None


def test_no_feasible_policy_exceeds_the_optimum(context: ExperimentContext):
    found = evaluate_setting(context, SCENARIO, 0).policies
    csi = make_channels(SCENARIO, context.scale.channels, seed=0).test
    shortfalls = {
        name: judge_policy(policy, csi, SCENARIO).shortfall
        for name, policy in make_compared(context, SCENARIO, 0).items()
    }
    best = found[OPTIMUM]
    assert best.shortfall <= MAX_VIOLATION
    assert best.repaired_objective == best.objective
    feasible = [name for name, shortfall in shortfalls.items() if shortfall <= MAX_VIOLATION]
    assert {"rand", "orth"} <= set(feasible)
    assert all(found[name].objective <= best.objective for name in feasible)
    assert all(outcome.repaired_objective <= best.objective for outcome in found.values())


def test_a_setting_is_evaluated_once(context: ExperimentContext, tmp_path: Path):
    first = evaluate_setting(context, SCENARIO, 0)
    shutil.copytree(context.directory, tmp_path / "kept")
    copied = dataclasses.replace(context, directory=tmp_path / "kept")
    for policies in copied.directory.glob("*/policies"):
        shutil.rmtree(policies)
    assert evaluate_setting(copied, SCENARIO, 0) == first
    assert not list(copied.directory.glob("*/policies"))
