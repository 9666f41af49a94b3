from __future__ import annotations

import torch

from feduplink import Scenario, draw_csi, evaluate
from feduplink.optimum import shipped_pdx, solve_dual


def test_the_shipped_network_meets_the_constraints_of_a_scenario_near_its_optimum():
    """Multipliers from some channels, judged on others."""
    scenario = Scenario(workers=5, rate_min=0.9, ee_min=70)
    tuning, unseen = draw_csi(scenario, 4000, torch.Generator().manual_seed(1)).chunk(2)
    verdict = evaluate(shipped_pdx(scenario, tuning, margin=0.0), unseen, scenario)
    assert verdict.feasible is not False
    assert verdict.violation < 0.05  # both samples tell a mean to within 2 %
    assert verdict.objective > solve_dual(scenario, unseen).dual_value - 0.01


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
