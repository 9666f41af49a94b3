from __future__ import annotations

import dataclasses

import pytest

from feduplink import Scenario, evaluate
from feduplink.channels import draw_splits
from feduplink.experiments import Bench, settings
from feduplink.experiments.policies import COMPARED, policies_for
from feduplink.experiments.settings import OPTIMUM, Figures, judged_setting, judged_settings
from feduplink.optimum.dual import PRIMAL_TOLERANCE

SCENARIO = Scenario()


def test_a_setting_is_what_evaluation_says(bench: Bench):
    setting = judged_setting(bench, SCENARIO, 0)
    assert tuple(setting.policies) == (*COMPARED, OPTIMUM)
    csi = draw_splits(SCENARIO, bench.scale.channels, seed=0).test
    for name, policy in policies_for(bench, SCENARIO, 0).items():
        assert setting.policies[name] == Figures.of(evaluate(policy, csi, SCENARIO)), name


def test_no_policy_that_meets_the_constraints_is_above_the_optimum(bench: Bench):
    found = judged_setting(bench, SCENARIO, 0).policies
    assert found[OPTIMUM].violation <= PRIMAL_TOLERANCE
    met = [name for name in found if found[name].violation <= PRIMAL_TOLERANCE]
    assert {"rand", "orth"} <= set(met)
    assert all(found[name].objective <= found[OPTIMUM].objective + 0.005 for name in met)


def test_a_setting_is_judged_once(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    first = judged_setting(bench, SCENARIO, 0)
    monkeypatch.setattr(settings, "policies_for", None)
    assert judged_setting(bench, SCENARIO, 0) == first


def test_settings_come_by_scenario_and_seed(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    def echoed(_bench: Bench, scenario: Scenario, seed: int) -> tuple[float, int]:
        return scenario.interference, seed

    monkeypatch.setattr(settings, "judged_setting", echoed)
    two = dataclasses.replace(bench, scale=dataclasses.replace(bench.scale, seeds=2), seed=4)
    scenarios = {factor: Scenario(interference=factor) for factor in (1.0, 8.0, 2.0)}
    assert judged_settings(two, scenarios) == [
        [(factor, 4), (factor, 5)] for factor in (1.0, 8.0, 2.0)
    ]
