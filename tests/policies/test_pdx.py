from __future__ import annotations

import torch

from feduplink import Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices, maximise
from feduplink.policies import UnrolledNetwork, UnrolledPolicy
from feduplink.policies.pdx import lagrangian_at_gates


def shipped(scenario: Scenario) -> UnrolledPolicy:
    policy = shipped_pdx()
    assert isinstance(policy, UnrolledPolicy)
    price = torch.full((2, scenario.workers), 1e-3, dtype=torch.float64)
    price[1] = 5e-5
    return UnrolledPolicy(scenario, policy.network, Multipliers(price, scenario.worker_weights))


def test_shipped_policy_is_for_the_default_scenario_and_under_a_megabyte():
    policy = shipped_pdx()
    assert policy.scenario.workers == 8
    assert sum(t.nbytes for t in policy.tensors().values()) < 1e6


def test_is_near_the_maximum_of_the_lagrangian_where_silence_pays():
    scenario = Scenario(interference=8, rate_min=0.25, ee_min=20)
    policy = shipped(scenario)
    policy.multipliers.constraints[:] = torch.tensor([[0.03], [4e-4]])
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(3)).double()
    batch, prices = (
        ChannelBatch.from_scenario(scenario, csi),
        policy.Prices.from_problem(Problem.from_scenario(scenario), scenario, multipliers),
    )
    best = maximise(batch, prices)
    power = policy.allocate(csi)
    assert batch.value(power, prices).mean() > batch.value(best, prices).mean() - 0.005
    assert (best > 0).double().mean() < 0.96
    assert abs((power > 0).double().mean() - (best > 0).double().mean()) < 0.05


def test_permuting_the_workers_permutes_the_powers():
    scenario = Scenario(weights=tuple(float(k) for k in range(1, 9)), rate_min=0.3, ee_min=30)
    policy = shipped(scenario)
    csi = draw_csi(scenario, 50, torch.Generator().manual_seed(4)).double()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    weights = tuple(scenario.worker_weights[order].tolist())
    permuted = UnrolledPolicy(
        scenario.replace(weights=weights),
        policy.network,
        Multipliers(
            policy.multipliers.constraints[:, order], policy.multipliers.objective_weight[order]
        ),
    )
    expected = policy.allocate(csi)[:, order]
    power = permuted.allocate(csi[:, order][:, :, order])
    torch.testing.assert_close(power, expected, rtol=1e-3, atol=1e-9)


def test_the_loss_at_open_gates_is_the_lagrangian_of_the_link_model():
    scenario = Scenario(workers=3)
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi)
    prices = Prices(
        *(torch.rand(3, generator=torch.Generator().manual_seed(k)).double() for k in range(4))
    )
    power = torch.rand(5, 3, generator=torch.Generator().manual_seed(9)).double() * scenario.pmax_w
    unit = (prices.success + prices.rate + prices.efficiency / scenario.static_power_w).mean()
    output = ((power / scenario.pmax_w).log(), torch.full((5, 3), 50.0).double())
    reached = lagrangian_at_gates(batch, prices, output)
    torch.testing.assert_close(reached * 3 * unit, batch.value(power, prices))


def test_same_seed_same_network():
    first, second = UnrolledNetwork.initialised(5), UnrolledNetwork.initialised(5)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
