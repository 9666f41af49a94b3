from __future__ import annotations

import pytest
import torch

from feduplink.policies import UnrolledNetwork, lagrangian_at_gates, price_unit
from feduplink.training import AnyScenario, NetworkLoss, RecordedLosses


def test_the_better_start_of_the_later_iterations_counts_most():
    network = UnrolledNetwork.initialised(0)
    batch, prices = AnyScenario().draw(16, torch.Generator().manual_seed(1))
    loss, reached, power = RecordedLosses(network)(batch, prices)
    unit = batch.direct.shape[-1] * price_unit(prices, batch.static_power_w)
    ends = [
        unit.clamp_max(8.0) * lagrangian_at_gates(batch, prices, out)
        for out in network(batch, prices)
    ]
    last = 0.8 * ends[-1].amax(0) + 0.2 * ends[-1].mean(0)
    torch.testing.assert_close(reached, last.mean().detach())
    torch.testing.assert_close(power, network.powers(batch, prices).detach())
    sensitivities = torch.autograd.grad(loss, [network.steps[k].read.weight for k in (0, 4)])
    assert all(bool(part.abs().sum() > 0) for part in sensitivities)
    means = [end.amax(0).mean() for end in ends]
    assert -loss <= max(means) * 2.3  # the weights add up to 2.3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_once_per_size_it_is_the_same():
    network = UnrolledNetwork.initialised(0).cuda()
    generator = torch.Generator(device="cuda").manual_seed(1)
    recorded, curriculum = RecordedLosses(network), AnyScenario(workers=(2, 8))
    for _ in range(6):
        batch, prices = curriculum.draw(32, generator)
        radio = batch.direct.new_tensor([batch.waterfall, batch.amplifier_inefficiency])
        priced = (prices.success, prices.rate, prices.efficiency, prices.activation_cost)
        tensors = (batch.direct, batch.cross, batch.pmax_w, batch.static_power_w, radio)
        plain, *_ = NetworkLoss(network)(*tensors, torch.stack(priced))
        loss, *_ = recorded(batch, prices)
        parameters = list(network.parameters())
        for one, other in zip(
            torch.autograd.grad(loss, parameters),
            torch.autograd.grad(plain, parameters),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
