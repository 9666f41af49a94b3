from __future__ import annotations

import pytest
import torch
from feduplink.optimum.settling import settled

from feduplink import Scenario, draw_csi, judge
from feduplink.lagrangian import ChannelBatch, Multipliers, MultiStart
from feduplink.optimum import calibration, shipped_pdx, solution, solve_dual
from feduplink.optimum.dual import PRIMAL_TOLERANCE

SCENARIO = Scenario(workers=4, rate_min=0.9, ee_min=70)
CSI = draw_csi(SCENARIO, 300, torch.Generator().manual_seed(1))


def _power(multipliers: Multipliers) -> torch.Tensor:
    prices = multipliers.prices(SCENARIO)
    return MultiStart(ChannelBatch.from_scenario(SCENARIO, CSI), prices).best(prices)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_settled_multipliers_meet_the_constraints_near_the_optimum(factor: float):
    """From the solution, and from prices that are half too low."""
    optimum = solve_dual(SCENARIO, CSI)
    constraints = factor * optimum.multipliers.constraints
    near = Multipliers(constraints, optimum.multipliers.objective_weight)
    if factor < 1:
        assert judge(_power(near), CSI, SCENARIO).violation > PRIMAL_TOLERANCE
    tops = MultiStart(ChannelBatch.from_scenario(SCENARIO, CSI), near.prices(SCENARIO))
    found = settled(SCENARIO, CSI, near, tops)
    assert (found.constraints >= 0).all()
    assert torch.equal(found.objective_weight, near.objective_weight)
    verdict = judge(_power(found), CSI, SCENARIO)
    assert verdict.violation <= PRIMAL_TOLERANCE
    assert verdict.objective > optimum.judgement.objective - 0.01


def test_a_worker_without_threshold_is_never_charged():
    scenario = SCENARIO.replace(rate_min=(0.9, 0.0, 0.9, 0.9), ee_min=(70.0, 0.0, 70.0, 70.0))
    near = solve_dual(scenario, CSI).multipliers
    tops = MultiStart(
        ChannelBatch.from_scenario(scenario, CSI),
        Prices.from_problem(Problem.from_scenario(scenario), scenario, near),
    )
    assert settled(scenario, CSI, near, tops).constraints[:, 1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rate_min", [0.0, 0.9])
def test_without_thresholds_there_is_nothing_to_settle(
    rate_min: float, monkeypatch: pytest.MonkeyPatch
):
    settlings = []

    def watched(scenario: Scenario, _csi: object, near: Multipliers, _maximiser: object):
        settlings.append(scenario.workers)
        return near

    monkeypatch.setattr(solution, "settled", watched)
    monkeypatch.setattr(calibration, "settled", watched)
    scenario = Scenario(workers=4, rate_min=rate_min, ee_min=0.0)
    policies = [DualPolicy.learned(scenario, CSI[:50]), shipped_pdx(scenario, CSI[:50])]
    assert len(settlings) == (2 if rate_min else 0)
    if not rate_min:
        for policy in policies:
            assert policy.scenario == scenario
            assert not policy.multipliers.constraints.any()
