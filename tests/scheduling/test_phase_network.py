from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.lagrangian import ChannelBatch
from feduplink.scheduling import (
    NetworkView,
    NetworkWeights,
    PhaseNetwork,
    PricedRounds,
    Sight,
    first_look,
    network_step,
)

#: Order of the features in the modules: whether a worker is active comes before the
#: logarithms of the value of its SINR and of harm, and harm after the value of being active.
MODULES_ORDER = [*range(10), 13, 10, 11, 14, 12, 15]
SIZES = torch.tensor([5, 5, 5, 5, 1, 3, 3, 3, -5, 3, 1, 3, 3, 1, 1, 0.5])


def by_modules(network: Any, sights: list[Sight]) -> list[Tensor]:
    """Changes of the logits by the modules as they were trained, without folded weights."""
    inputs = [torch.cat(sight.features, -1)[..., MODULES_ORDER] / SIZES for sight in sights]
    memory = functional.silu(network.embed(inputs[0]))
    changes = [network.start(memory)]
    for step, sight, seen in zip(network.steps, sights[1:], inputs[1:], strict=True):
        others = (sight.share @ memory, sight.share.mT @ memory)
        heard = step.look(torch.cat((memory, *others, seen), -1))
        heard = heard + step.look_at_phase(memory.mean(-2, keepdim=True))
        heard = heard + step.look_at_worker(memory.mean(-3, keepdim=True))
        memory = step.norm(memory + step.conclude(functional.silu(heard)))
        changes.append(step.read(memory))
    return [change * torch.tensor([-1.0, 1.0]) for change in changes]


def by_weights(weights: NetworkWeights, sights: list[Sight]) -> list[Any]:
    memory, change = first_look(weights, sights[0])
    changes = [change]
    for step, sight in zip(weights.steps, sights[1:], strict=True):
        memory, change = network_step(step, memory, sight)
        changes.append(change)
    return changes


def random_network() -> PhaseNetwork:
    """A network whose norms scale and shift."""
    network = PhaseNetwork.initialised(3).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for name, values in network.named_parameters():
        if "norm" in name:
            values += torch.randn(values.shape, generator=generator)
    return network


def rounds_of(count: int, senders: Tensor | None = None) -> tuple[PricedRounds, list[PricedRounds]]:
    """The same rounds all at once and one by one."""
    scenario = Scenario(workers=5)
    csi = make_channels(scenario, count, seed=6).test
    demand = torch.full((count, 5), 2.0, dtype=torch.float64)
    if senders is not None:
        demand = demand * senders
    batch = ChannelBatch.from_scenario(scenario, csi)
    many = PricedRounds.from_batch(batch, demand, 10.0)
    return many, list(PricedRounds.one_by_one(scenario, csi, demand.numpy(), 10.0))


def test_folded_weights_compute_the_same_as_the_modules():
    network, (many, _) = random_network(), rounds_of(3)
    view = NetworkView(many, torch.full((3, 5), 1.5, dtype=torch.float64))
    logits, sights = view.first_logits(), []
    for number in range(4):
        sights.append(view.sight(logits + number * torch.tensor([0.5, 0.1])))
    expected, found = by_modules(network, sights), by_weights(network.weights, sights)
    for change, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other, change, rtol=1e-4, atol=1e-4)


def test_arrays_and_tensors_give_the_same_phases():
    """Also where a worker has no demand."""
    network = random_network()
    many, single = rounds_of(2, torch.tensor([True, True, False, True, True]))
    prices = torch.linspace(0.5, 2.0, 5, dtype=torch.float64)
    view = NetworkView(many, prices.expand(2, 5))
    sights = [view.sight(view.first_logits())] * 4
    expected = by_weights(network.weights, sights)
    power, on_air = view.phases(view.first_logits() + expected[0])
    for place, alone in enumerate(single):
        one = NetworkView(alone, prices.numpy())
        found = by_weights(network.weights.arrays(), [one.sight(one.first_logits())] * 4)
        for change, other in zip(expected, found, strict=True):
            torch.testing.assert_close(torch.from_numpy(other), change[place], rtol=1e-4, atol=1e-4)
        phases = one.phases(one.first_logits() + found[0])
        for values, other in zip((power, on_air), phases, strict=True):
            torch.testing.assert_close(torch.from_numpy(other), values[place], rtol=1e-4, atol=0.0)
    assert not on_air[..., 2].any()
    assert on_air.diagonal(dim1=-2, dim2=-1)[:, [0, 1, 3, 4]].all()
