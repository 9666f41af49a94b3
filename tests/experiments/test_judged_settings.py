from __future__ import annotations

import dataclasses

import pytest
import torch

from feduplink import FullPower, Scenario, draw_csi, judge
from feduplink.channels import make_channels
from feduplink.evaluation import judge_policy
from feduplink.experiments import judged_settings as module
from feduplink.experiments.compared_policies import COMPARED, policies_for
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.judged_settings import Figures, judged_setting, judged_settings
from feduplink.optimum import MET, DualSolution, solve_dual
from feduplink.reporting.style import OPTIMUM

SCENARIO = Scenario()
ON_CONSTRAINTS = {"feasible", "shortfall", "shortfall_error"}
ON_TEST_CHANNELS = set(Figures.model_fields) - ON_CONSTRAINTS - {"repaired_objective"}


def test_a_setting_is_what_evaluation_says(context: ExperimentContext):
    setting = judged_setting(context, SCENARIO, 0)
    assert tuple(setting.policies) == (*COMPARED, OPTIMUM)
    csi = make_channels(SCENARIO, context.scale.channels, seed=0).test
    many = make_channels(SCENARIO, context.scale.verdict_channels, seed=0).test
    assert len(many) > len(csi)
    for name, policy in policies_for(context, SCENARIO, 0).items():
        found = setting.policies[name]
        verdict = judge_policy(policy, csi, SCENARIO).as_metrics()
        assert found.model_dump(include=ON_TEST_CHANNELS) == {
            n: verdict[n] for n in ON_TEST_CHANNELS
        }
        more = judge_policy(policy, many, SCENARIO).as_metrics()
        assert found.model_dump(include=ON_CONSTRAINTS) == {n: more[n] for n in ON_CONSTRAINTS}


def test_more_channels_change_what_is_said_of_the_constraints_alone(generator):
    judgement = judge(torch.full((4, 8), 0.01), draw_csi(SCENARIO, 4, generator), SCENARIO)
    figures = Figures.from_judgement(judgement)
    more = dataclasses.replace(
        judgement,
        objective=0.5,
        weighted_per=0.5,
        feasible=None,
        shortfall=-0.3,
        shortfall_error=0.4,
    )
    told = figures.judged_on(more)
    assert told.model_dump(include=ON_CONSTRAINTS) == {
        "feasible": None,
        "shortfall": -0.3,
        "shortfall_error": 0.4,
    }
    assert told.model_dump(include=ON_TEST_CHANNELS) == figures.model_dump(include=ON_TEST_CHANNELS)


def test_what_does_not_exist_is_none(generator):
    """One round: its interval is infinite; a silent cell has no packet error rate."""
    csi = draw_csi(SCENARIO, 1, generator)
    once = Figures.from_judgement(judge(torch.full((1, 8), 0.01), csi, SCENARIO))
    assert (once.feasible, once.shortfall_error) == (None, None)
    assert Figures.from_judgement(judge(torch.zeros(1, 8), csi, SCENARIO)).weighted_per is None


def test_no_policy_that_meets_the_constraints_is_above_the_optimum(context: ExperimentContext):
    found = judged_setting(context, SCENARIO, 0).policies
    csi = make_channels(SCENARIO, context.scale.channels, seed=0).test
    shortfalls = {
        name: judge_policy(policy, csi, SCENARIO).shortfall
        for name, policy in policies_for(context, SCENARIO, 0).items()
    }
    best = found[OPTIMUM]
    assert best.shortfall <= MET
    assert best.repaired_objective == best.objective
    met = [name for name, shortfall in shortfalls.items() if shortfall <= MET]
    assert {"rand", "orth"} <= set(met)
    assert all(found[name].objective <= best.objective for name in met)
    assert all(figures.repaired_objective <= best.objective for figures in found.values())


def test_a_better_policy_becomes_the_optimum(
    context: ExperimentContext, monkeypatch: pytest.MonkeyPatch
):
    """Without a threshold full power is feasible; a search that finds next to nothing is beaten."""
    scenario = SCENARIO.replace(workers=2, rate_min=0, ee_min=0)

    def poor(scenario: Scenario, csi: torch.Tensor) -> DualSolution:
        silent = torch.zeros(csi.shape[:-1], dtype=torch.float64)
        return dataclasses.replace(
            solve_dual(scenario, csi), power=silent, judgement=judge(silent, csi, scenario)
        )

    monkeypatch.setattr(module, "solve_dual", poor)
    full = {"max": FullPower(scenario)}
    found = module.judged_policies(context, full, scenario, 0).policies
    assert found["max"].objective > 0.5
    assert found[OPTIMUM] == found["max"]


def test_a_setting_is_judged_once(context: ExperimentContext, monkeypatch: pytest.MonkeyPatch):
    first = judged_setting(context, SCENARIO, 0)
    monkeypatch.setattr(module, "policies_for", None)
    assert judged_setting(context, SCENARIO, 0) == first


def test_settings_come_by_scenario_and_seed(
    context: ExperimentContext, monkeypatch: pytest.MonkeyPatch
):
    def echoed(_bench: ExperimentContext, scenario: Scenario, seed: int) -> tuple[float, int]:
        return scenario.interference, seed

    monkeypatch.setattr(module, "judged_setting", echoed)
    two = dataclasses.replace(context, scale=dataclasses.replace(context.scale, seeds=2), seed=4)
    scenarios = {factor: Scenario(interference=factor) for factor in (1.0, 8.0, 2.0)}
    assert judged_settings(two, scenarios) == [
        [(factor, 4), (factor, 5)] for factor in (1.0, 8.0, 2.0)
    ]
