from __future__ import annotations

import pytest
import torch

from feduplink import InputError, Problem, Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, DualPoint, Multipliers, maximise
from feduplink.policies import UnrolledPolicy, shipped_network, shipped_pdx


def shipped(scenario: Scenario, rate_price: float = 1e-3, ee_price: float = 5e-5) -> UnrolledPolicy:
    price = torch.tensor([[rate_price], [ee_price]], dtype=torch.float64)
    multipliers = Multipliers(price.expand(2, scenario.workers), scenario.worker_weights)
    thresholds = Problem.from_scenario(scenario).thresholds
    return UnrolledPolicy(scenario, shipped_network(), DualPoint(multipliers, thresholds))


def test_shipped_policy_is_for_the_default_scenario_and_small():
    policy = shipped_pdx()
    assert policy.scenario == Scenario()
    assert sum(t.nbytes for t in policy.tensors().values()) < 2e6


def test_is_near_the_maximum_of_the_lagrangian_where_silence_pays():
    scenario = Scenario(interference=8, rate_min=0.25, ee_min=20)
    policy = shipped(scenario, 0.03, 4e-4)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(3)).double()
    batch, prices = ChannelBatch.from_scenario(scenario, csi), policy.prices(csi)
    best = maximise(batch, prices)
    power = policy.allocate(csi)
    assert batch.value(power, prices).mean() > batch.value(best, prices).mean() - 0.005
    assert (best > 0).double().mean() < 0.96
    assert abs((power > 0).double().mean() - (best > 0).double().mean()) < 0.05


def test_measures_it_does_not_know_are_refused_in_one_sentence():
    scenario = Scenario(workers=3, constraints="link.own_measures:AveragePower <= 0.001")
    csi = draw_csi(scenario, 10, torch.Generator().manual_seed(1))
    with pytest.raises(InputError, match=r"^pdx: knows packet success, .*; not accepted: power\.$"):
        shipped_pdx(scenario, csi)


def test_for_other_numbers_of_workers_it_takes_average_ones():
    """Two workers of one price each in a scenario of two; three cost the mean of them."""
    scenario = Scenario(workers=2, rate_min=(0.2, 0.4), ee_min=0.0)
    multipliers = Multipliers(
        torch.tensor([[1e-3, 3e-3], [0.0, 0.0]]).double(), torch.tensor([0.25, 0.75]).double()
    )
    point = DualPoint(multipliers, Problem.from_scenario(scenario).thresholds)
    policy = UnrolledPolicy(scenario, shipped_network(), point)
    prices = policy.prices(torch.ones(1, 3, 3))
    torch.testing.assert_close(prices.success, torch.full((3,), 0.5).double())
    torch.testing.assert_close(prices.rate, torch.full((3,), 2e-3).double())
    torch.testing.assert_close(prices.activation_cost, torch.full((3,), 2e-3 * 0.3).double())
