from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.lagrangian import ChannelBatch
from feduplink.scheduling import (
    AscentSteps,
    ascend,
    phase_cost,
    phase_prices,
    phase_rates,
)


def batch_of(workers: int, count: int, seed: int) -> ChannelBatch:
    scenario = Scenario(workers=workers)
    return ChannelBatch.from_scenario(scenario, make_channels(scenario, count, seed=seed).test)


def worth(batch: ChannelBatch, power: torch.Tensor, prices: torch.Tensor, kappa: float):
    rates = phase_rates(batch, power)
    return (rates @ prices[..., None])[..., 0] - phase_cost(batch, power, kappa) + 1


@given(st.integers(0, 10**6), st.sampled_from([0.0, 3.0, 50.0]))
@settings(max_examples=25, deadline=None)
def test_the_best_switch_of_one_worker_is_taken(seed: int, kappa: float):
    batch = batch_of(4, 2, seed % 7)
    generator = torch.Generator().manual_seed(seed)
    power = torch.rand(2, 3, 4, generator=generator, dtype=torch.float64) * batch.pmax_w
    power = power * (torch.rand(2, 3, 4, generator=generator) > 0.4)
    prices = 3 * torch.rand(2, 4, generator=generator, dtype=torch.float64)
    found = AscentSteps(batch, power, prices, kappa).switch_one(power)
    before, after = worth(batch, power, prices, kappa), worth(batch, found, prices, kappa)
    assert (after >= before - 1e-9).all()
    assert ((found != power).sum(-1) <= 1).all()
    for worker in range(4):
        off = power.clone()
        off[..., worker] = 0.0
        assert (after >= worth(batch, off, prices, kappa) - 1e-9).all()


@pytest.mark.parametrize("kappa", [0.0, 10.0])
def test_ascent_converges_to_a_local_maximum(kappa: float):
    """There the slopes of the Lagrangian in log-power are zero or point beyond a limit."""
    batch = batch_of(5, 6, 1)
    prices = torch.full((6, 5), 2.0, dtype=torch.float64)
    power = batch.pmax_w.expand(6, 1, 5) * 0.3
    for _ in range(200):
        power = ascend(batch, power, prices, kappa)
    point = power[:, 0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(
        batch.value(point, phase_prices(batch, prices, kappa)).sum(), point
    )
    slope = slope * power[:, 0]
    full, low = power[:, 0] >= batch.pmax_w, power[:, 0] <= 1.1e-6 * batch.pmax_w
    inside = ~full & ~low & (power[:, 0] > 0)
    assert slope[inside].abs().max() < 1e-4
    assert (slope[full] >= -1e-9).all()


def test_arrays_and_tensors_give_the_same_ascent():
    batch = batch_of(6, 1, 3)
    prices = torch.rand(1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    power = torch.diag(batch.pmax_w)[None]

    class OneRound:
        direct, cross = batch.direct[0].numpy(), batch.cross[0].numpy()
        pmax_w, static_power_w = batch.pmax_w.numpy(), batch.static_power_w.numpy()

    expected = ascend(batch, power, prices, 5.0)[0].numpy()
    found = ascend(OneRound(), power[0].numpy(), prices[0].numpy(), 5.0)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
