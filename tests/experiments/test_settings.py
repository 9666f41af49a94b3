from __future__ import annotations

import dataclasses

import pytest
import torch

from feduplink import FullPower, Scenario, evaluate, judge
from feduplink.channels import draw_splits
from feduplink.experiments import Bench, settings
from feduplink.experiments.policies import COMPARED, policies_for
from feduplink.experiments.settings import OPTIMUM, Figures, judged_setting, judged_settings
from feduplink.optimum import DualSolution, solve_dual
from feduplink.optimum.repair import MET

SCENARIO = Scenario()


def test_a_setting_is_what_evaluation_says(bench: Bench):
    setting = judged_setting(bench, SCENARIO, 0)
    assert tuple(setting.policies) == (*COMPARED, OPTIMUM)
    csi = draw_splits(SCENARIO, bench.scale.channels, seed=0).test
    for name, policy in policies_for(bench, SCENARIO, 0).items():
        expected = Figures.of(evaluate(policy, csi, SCENARIO)).model_dump()
        found = setting.policies[name].model_dump()
        repaired = found.pop("repaired_objective")
        expected.pop("repaired_objective")
        assert found == expected, name
        if setting.policies[name].shortfall <= 0:
            assert repaired == found["objective"]


def test_no_policy_that_meets_the_constraints_is_above_the_optimum(bench: Bench):
    found = judged_setting(bench, SCENARIO, 0).policies
    best = found[OPTIMUM]
    assert best.shortfall <= MET
    assert best.repaired_objective == best.objective
    met = [name for name in found if found[name].shortfall <= MET]
    assert {"rand", "orth"} <= set(met)
    assert all(found[name].objective <= best.objective for name in met)
    assert all(figures.repaired_objective <= best.objective for figures in found.values())


def test_a_better_policy_becomes_the_optimum(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """Without a threshold full power is feasible; a search that finds next to nothing is beaten."""
    scenario = SCENARIO.replace(workers=2, rate_min=0, ee_min=0)

    def poor(scenario: Scenario, csi: torch.Tensor) -> DualSolution:
        silent = torch.zeros(csi.shape[:-1], dtype=torch.float64)
        return dataclasses.replace(
            solve_dual(scenario, csi), power=silent, judgement=judge(silent, csi, scenario)
        )

    monkeypatch.setattr(settings, "solve_dual", poor)
    full = {"max": FullPower(scenario)}
    found = settings.judged_policies(bench, full, scenario, 0).policies
    assert found["max"].objective > 0.5
    assert found[OPTIMUM] == found["max"]


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
