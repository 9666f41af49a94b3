"""Maximisation of the Lagrangian, with prices on power and per channel too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.lagrangian import (
    ChannelBatch,
    MultiStart,
    Prices,
    climb,
    gradient_and_hessian,
    maximise,
    newton_ascent,
    newton_step,
    sweep,
    switched_from_each,
)
from optimum.reference import best_on_grid, random_instance


def excluding() -> tuple[ChannelBatch, Prices]:
    """Worker 0 is worth most alone, workers 1 and 2 together are worth more."""
    direct = torch.tensor([[150.0, 100.0, 100.0]], dtype=torch.float64)
    cross = torch.full((1, 3, 3), 1e4, dtype=torch.float64)
    cross[:, 1, 2] = cross[:, 2, 1] = 0.0
    cross.diagonal(dim1=-2, dim2=-1).zero_()
    ones = torch.ones(3, dtype=torch.float64)
    batch = ChannelBatch(direct, cross, ones, 0.023, ones, 1.0)
    return batch, Prices(0 * ones, ones, 0 * ones, 0 * ones)


def test_workers_that_exclude_each_other_are_switched_at_once():
    batch, prices = excluding()
    best = MultiStart(batch, prices).best(prices)
    torch.testing.assert_close(best, torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64))


def test_switching_starts_from_every_worker():
    batch, prices = excluding()
    starts = switched_from_each(batch, prices)
    assert len(starts) == 3
    for start in starts:
        assert ((start == 0) | (start == batch.pmax_w)).all()


@pytest.mark.parametrize("seed", range(12))
def test_newton_ascent_maximises_a_concave_quadratic_in_a_box(seed: int):
    """Some coordinates are at their limits and must not stop the others."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(5, 5))
    curvature = torch.from_numpy(roots @ roots.T + 0.01 * np.eye(5))
    centre = torch.from_numpy(rng.normal(size=5))
    low, high = -torch.from_numpy(rng.uniform(0, 1, 5)), torch.from_numpy(rng.uniform(0, 1, 5))
    high[0] = low[0]  # an empty interval

    def value(power: torch.Tensor) -> torch.Tensor:
        off = power.log() - centre
        return -0.5 * ((off @ curvature) * off).sum(-1)

    def derivatives(power: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return -(power.log() - centre) @ curvature, -curvature.expand(len(power), 5, 5)

    start = (0.5 * (low + high)).exp()[None]
    top = newton_ascent(value, derivatives, start, low.exp()[None], high.exp()[None], steps=60)
    exact = minimize(
        lambda t: float(-value(torch.from_numpy(t).exp()[None])),
        np.zeros(5),
        bounds=list(zip(low.tolist(), high.tolist(), strict=True)),
        options={"ftol": 1e-14, "gtol": 1e-10, "maxiter": 1000},
    )
    assert float(value(top)) == pytest.approx(-exact.fun, rel=1e-5, abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), workers=st.integers(1, 5))
def test_sweeps_and_climbs_never_lower_the_lagrangian(seed: int, workers: int):
    instance = random_instance(seed, workers, channels=6)
    batch, prices = instance.batch, instance.prices
    generator = torch.Generator().manual_seed(seed)
    power = batch.pmax_w * torch.rand(6, workers, generator=generator, dtype=torch.float64)
    power[torch.rand(power.shape, generator=generator) < 0.3] = 0.0
    before = batch.value(power, prices)
    swept = sweep(batch, prices, power)
    after = batch.value(swept, prices)
    rounding = 1e-12 * (1 + before.abs())
    assert (after >= before - rounding).all()
    climbed = climb(batch, prices, swept, steps=3)
    assert (batch.value(climbed, prices) >= after - rounding).all()
    assert ((climbed > 0) == (swept > 0)).all()
    assert (climbed <= batch.pmax_w).all()


@pytest.mark.parametrize("seed", range(12))
def test_two_workers_reach_the_best_of_a_grid(seed: int):
    instance = random_instance(seed, workers=2, channels=4)
    found = instance.batch.value(maximise(instance.batch, instance.prices), instance.prices)
    best = torch.tensor([best_on_grid(instance, k, 120) for k in range(4)], dtype=torch.float64)
    assert (found >= best - 2e-3 * best.abs()).all()


def test_the_newton_step_accounts_for_active_limits():
    """Of g·d − ½ dᵀ C d: without limits (7/3, −2/3); with d₁ ≤ 1 the best d₂ is 0, not −2/3."""
    curvature = torch.tensor([[[2.0, 1.0], [1.0, 2.0]]], dtype=torch.float64)
    gradient = torch.tensor([[4.0, 1.0]], dtype=torch.float64)
    everyone = torch.ones_like(gradient, dtype=torch.bool)
    wide = torch.full_like(gradient, 9.0)
    free = newton_step(curvature, gradient, everyone, -wide, wide)
    assert torch.allclose(free, torch.tensor([[7 / 3, -2 / 3]], dtype=torch.float64), atol=1e-6)
    narrow = torch.tensor([[1.0, 9.0]], dtype=torch.float64)
    stopped = newton_step(curvature, gradient, everyone, -wide, narrow)
    assert torch.allclose(stopped, torch.tensor([[1.0, 0.0]], dtype=torch.float64), atol=1e-6)
    alone = newton_step(curvature, gradient, everyone & (gradient < 2), -wide, wide)
    assert torch.allclose(alone, torch.tensor([[0.0, 0.5]], dtype=torch.float64), atol=1e-6)


def priced(workers: int, channels: int = 5) -> tuple[ChannelBatch, Prices]:
    scenario = Scenario(workers=workers)
    batch = ChannelBatch.from_scenario(scenario, make_channels(scenario, channels, seed=3).test)
    free = torch.zeros(workers, dtype=torch.float64)
    rates = torch.rand(channels, workers, generator=torch.Generator().manual_seed(1)).double()
    return batch, Prices(free, rates, free, free + 0.1, power_cost=free + 20.0)


def test_derivatives_with_a_price_on_power_are_those_of_autograd():
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


def test_prices_per_channel_apply_to_their_own_channel():
    batch, prices = priced(3)
    found = maximise(batch, prices)
    value = batch.value(found, prices)
    assert (value >= grid(batch, prices, 30)).all()
    for row in range(5):
        alone = maximise(batch.take(slice(row, row + 1)), prices.take(slice(row, row + 1)))
        torch.testing.assert_close(alone[0], found[row])
