from __future__ import annotations

import pytest
import torch

from feduplink.learning import AnyScenario
from feduplink.learning.network_loss import NetworkLoss, RecordedLosses
from feduplink.policies import UnrolledNetwork
from feduplink.policies.unrolled_network import lagrangian_at_gates


def test_the_later_iterations_count_more_and_the_last_one_is_reported():
    network = UnrolledNetwork.initialised(0)
    batch, prices = AnyScenario().draw(16, torch.Generator().manual_seed(1))
    loss, reached = RecordedLosses(network)(batch, prices)
    values = [lagrangian_at_gates(batch, prices, out).mean() for out in network(batch, prices)]
    torch.testing.assert_close(reached, values[-1].detach())
    sensitivities = torch.autograd.grad(loss, [network.steps[k].read.weight for k in (0, 5)])
    assert all(bool(part.abs().sum() > 0) for part in sensitivities)
    assert min(values) * 2.55 <= -loss <= max(values) * 2.55  # the weights add up to 2.55


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
        plain, _ = NetworkLoss(network)(*tensors, torch.stack(priced))
        loss, _ = recorded(batch, prices)
        parameters = list(network.parameters())
        for one, other in zip(
            torch.autograd.grad(loss, parameters),
            torch.autograd.grad(plain, parameters),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
