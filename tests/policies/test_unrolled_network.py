from __future__ import annotations

import torch

from feduplink import Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.policies import UnrolledNetwork
from feduplink.policies.unrolled_network import lagrangian_at_gates


def test_the_loss_at_open_gates_is_the_lagrangian_of_the_link_model():
    scenario = Scenario(workers=3)
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi)
    prices = Prices(
        *(torch.rand(3, generator=torch.Generator().manual_seed(k)).double() for k in range(4))
    )
    power = torch.rand(5, 3, generator=torch.Generator().manual_seed(9)).double() * scenario.pmax_w
    unit = (prices.success + prices.rate + prices.efficiency / scenario.static_power_w).mean()
    open_gates = torch.full((5, 3), 50.0).double()
    logits = torch.stack(((power / scenario.pmax_w).logit(), open_gates), dim=-1)
    reached = lagrangian_at_gates(batch, prices, logits)
    torch.testing.assert_close(reached * 3 * unit, batch.value(power, prices))


def test_same_seed_same_network():
    first, second = UnrolledNetwork.initialised(5), UnrolledNetwork.initialised(5)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
