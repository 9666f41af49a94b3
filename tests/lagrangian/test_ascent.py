from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from feduplink.lagrangian import climb, maximise, newton_ascent, newton_step, sweep
from optimum.reference import best_on_grid, random_instance


@pytest.mark.parametrize("seed", range(12))
def test_a_concave_quadratic_in_a_box(seed: int):
    """Limits stop some workers, and the others must go round them: steps must not jam."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(5, 5))
    curvature = torch.from_numpy(roots @ roots.T + 0.01 * np.eye(5))
    centre = torch.from_numpy(rng.normal(size=5))
    low, high = -torch.from_numpy(rng.uniform(0, 1, 5)), torch.from_numpy(rng.uniform(0, 1, 5))
    high[0] = low[0]  # no room at all

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
def test_neither_sweeping_nor_climbing_lowers_the_lagrangian(seed: int, workers: int):
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
def test_the_best_of_two_workers_is_found(seed: int):
    instance = random_instance(seed, workers=2, channels=4)
    found = instance.batch.value(maximise(instance.batch, instance.prices), instance.prices)
    best = torch.tensor([best_on_grid(instance, k, 120) for k in range(4)], dtype=torch.float64)
    assert (found >= best - 2e-3 * best.abs()).all()


def test_a_limit_that_stops_one_worker_turns_the_others():
    """Of g·d − ½ dᵀ C d: unlimited (7/3, −2/3); with d₁ ≤ 1 the best d₂ is 0, not −2/3."""
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
