from __future__ import annotations

import torch

from feduplink import Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.policies import ChannelFeatures, UnrolledNetwork


def test_the_loss_at_open_gates_is_the_lagrangian_of_the_link_model():
    scenario = Scenario(workers=3)
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi)
    prices = Prices(
        *(torch.rand(3, generator=torch.Generator().manual_seed(k)).double() for k in range(4))
    )
    power = (
        torch.rand(5, 3, generator=torch.Generator().manual_seed(9)).double() * scenario.max_power
    )
    unit = (prices.success + prices.rate + prices.efficiency / scenario.static_power_w).mean()
    open_gates = torch.full((5, 3), 50.0).double()
    backoff = -(power / scenario.max_power).logit()
    reached = ChannelFeatures(batch, prices).lagrangian_at_gates(
        torch.stack((backoff, open_gates), dim=-1)
    )
    torch.testing.assert_close(reached * 3 * unit, batch.value(power, prices))


def test_the_better_initial_point_is_taken():
    """Two workers that drown each other: both on the air is worse than one of them alone."""
    scenario = Scenario(workers=2)
    csi = torch.tensor([[[1e6, 1e6], [1e6, 1e6]], [[1e6, 1e-3], [1e-3, 1e6]]])
    batch = ChannelBatch.from_scenario(scenario, csi).to(torch.float32)
    prices = Prices(torch.zeros(2), torch.ones(2), torch.zeros(2), torch.zeros(2))
    full_on = torch.tensor([-9.0, 9.0])
    both = full_on.expand(2, 2, 2)
    alone = torch.stack((full_on, torch.tensor([-9.0, -9.0]))).expand(2, 2, 2)
    channel = ChannelFeatures(batch, prices)
    power = channel.better_end(torch.stack((both, alone)))
    assert (power[0] > 0).tolist() == [True, False]
    assert (power[1] > 0).tolist() == [True, True]
    torch.testing.assert_close(
        power, ChannelFeatures(batch, prices).better_end(torch.stack((alone, both)))
    )


def test_the_first_of_equally_good_initial_points_is_taken():
    """Rounding does not decide: powers that differ by 1e-4 are worth the same to five digits."""
    scenario = Scenario(workers=1)
    batch = ChannelBatch.from_scenario(scenario, torch.full((1, 1, 1), 1e6)).to(torch.float32)
    prices = Prices(torch.zeros(1), torch.ones(1), torch.zeros(1), torch.zeros(1))
    less, more = (torch.tensor([[[backoff, 9.0]]]) for backoff in (-8.0, -9.0))
    first, second = (
        ChannelFeatures(batch, prices).better_end(torch.stack(ends))
        for ends in ((less, more), (more, less))
    )
    torch.testing.assert_close(first, torch.sigmoid(torch.tensor([[8.0]])))
    torch.testing.assert_close(second, torch.sigmoid(torch.tensor([[9.0]])))


def test_second_initial_point_has_the_most_valuable_worker_alone():
    scenario = Scenario(workers=3)
    csi = draw_csi(scenario, 20, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi).to(torch.float32)
    prices = Prices(torch.tensor([0.1, 0.1, 0.1]), torch.ones(3), torch.zeros(3), torch.zeros(3))
    network = UnrolledNetwork.initialised(0)
    torch.nn.init.zeros_(network.start.weight)
    torch.nn.init.zeros_(network.start.bias)
    everyone, alone = (network(batch, prices)[0][..., 1] > 0).unbind()
    assert everyone.all()
    assert torch.equal(alone, batch.direct == batch.direct.amax(-1, keepdim=True))


def test_equal_seeds_give_equal_networks():
    first, second = UnrolledNetwork.initialised(5), UnrolledNetwork.initialised(5)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
