from __future__ import annotations

import torch

from feduplink import Scenario, draw_csi, evaluate
from feduplink.optimum import shipped_pdx, solve_dual


def test_the_shipped_network_meets_the_constraints_of_a_scenario_near_its_optimum():
    scenario = Scenario(workers=5, rate_min=0.9, ee_min=70)
    policy = shipped_pdx(
        scenario, draw_csi(scenario, 1500, torch.Generator().manual_seed(1)), margin=0.0
    )
    csi = draw_csi(scenario, 1500, torch.Generator().manual_seed(1))
    verdict = evaluate(policy, csi, scenario)
    assert verdict.violation < 0.005
    assert verdict.objective > solve_dual(scenario, csi).judgement.objective - 0.003


def test_without_constraints_there_is_nothing_to_pay():
    scenario = Scenario(workers=3, rate_min=0.0, ee_min=0.0)
    policy = shipped_pdx(scenario, draw_csi(scenario, 100, torch.Generator().manual_seed(1)))
    assert torch.equal(policy.multipliers.constraints, torch.zeros(2, 3).double())


def test_the_margin_aims_above_the_thresholds():
    scenario = Scenario(workers=4)
    csi = draw_csi(scenario, 500, torch.Generator().manual_seed(2))
    policy = shipped_pdx(scenario, csi, margin=2.0)
    assert (policy.scenario.rate_thresholds > scenario.rate_thresholds).all()
    assert evaluate(policy, csi, scenario).violation == 0.0
