"""Prices on transmit power, and prices per channel."""

from __future__ import annotations

import itertools

import pytest
import torch

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, Prices, gradient_and_hessian, maximise
from feduplink.optimum import certify


def priced(workers: int, channels: int = 5) -> tuple[ChannelBatch, Prices]:
    scenario = Scenario(workers=workers)
    batch = ChannelBatch.from_scenario(scenario, make_channels(scenario, channels, seed=3).test)
    free = torch.zeros(workers, dtype=torch.float64)
    rates = torch.rand(channels, workers, generator=torch.Generator().manual_seed(1)).double()
    return batch, Prices(free, rates, free, free + 0.1, power_cost=free + 20.0)


def test_derivatives_are_those_of_the_value():
    batch, prices = priced(4)
    log_power = torch.full((5, 4), -6.0, dtype=torch.float64, requires_grad=True)
    gradient, hessian = gradient_and_hessian(batch, log_power.detach().exp(), prices)
    value = batch.value(log_power.exp(), prices).sum()
    (exact,) = torch.autograd.grad(value, log_power, create_graph=True)
    torch.testing.assert_close(gradient, exact.detach())
    rows = [
        torch.autograd.grad(exact[:, i].sum(), log_power, retain_graph=True)[0] for i in range(4)
    ]
    torch.testing.assert_close(hessian, torch.stack(rows, 1))


def grid(batch: ChannelBatch, prices: Prices, levels: int) -> torch.Tensor:
    """The largest Lagrangian on a grid of powers, (N,)."""
    relative = torch.cat((torch.zeros(1), torch.logspace(-4, 0, levels))).tolist()
    points = itertools.product(relative, repeat=len(batch.pmax_w))
    power = torch.tensor(list(points), dtype=torch.float64)[:, None] * batch.pmax_w
    interference = 1 + (batch.cross @ power[..., None])[..., 0]
    return batch.worker_values(batch.direct * power / interference, power, prices).sum(-1).amax(0)


def test_each_channel_is_maximised_at_its_own_prices():
    batch, prices = priced(3)
    found = maximise(batch, prices)
    value = batch.value(found, prices)
    assert (value >= grid(batch, prices, 30)).all()
    for row in range(5):
        alone = maximise(batch.take(slice(row, row + 1)), prices.take(slice(row, row + 1)))
        torch.testing.assert_close(alone[0], found[row])


def test_the_certificate_encloses_it():
    batch, prices = priced(3)
    found = certify(batch, prices, channel_gap=0.01)
    assert (found.upper >= grid(batch, prices, 30)).all()
    assert (found.upper - found.lower <= 0.01).all()


def test_who_knows_no_price_on_power_refuses_it():
    _, prices = priced(2)
    with pytest.raises(InputError, match="takes no price on transmit power"):
        prices.check_usual("pdx")
