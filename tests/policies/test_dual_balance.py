from __future__ import annotations

import torch
from torch import Tensor

from feduplink import Problem, Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.policies import shipped_network
from feduplink.policies.dual_balance import Balance
from feduplink.policies.dual_descent import descended


def test_what_is_paid_for_is_met_exactly_and_nothing_is_missed():
    """Each worker with thresholds of its own, some of which need no price."""
    scenario = Scenario(
        workers=4, interference=4, rate_min=(0.3, 0.8, 1.2, 1.6), ee_min=(60, 5, 40, 20)
    )
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 2000, torch.Generator().manual_seed(1))
    batch, network = ChannelBatch.from_scenario(scenario, csi), shipped_network()

    def maximise(rows: Tensor, prices: Prices) -> Tensor:
        return network.powers(batch.take(rows), prices)

    with torch.no_grad():
        scaled, near = descended(problem, scenario, csi, maximise)
        balance = Balance(problem, scenario, csi, maximise, scaled)
        x = balance.balanced(near, balance.responses(near), len(csi), 9)
        before, after = (balance.surplus(point, len(csi)) for point in (near, x))
    paid = x > 0
    assert 2 < int(paid.sum()) < x.numel()
    assert after.min() > -0.005
    assert after[paid].abs().max() < 0.02
    assert after[paid].norm() < before[paid].norm()
