"""The bound is never under what some allocation reaches. Each of these tests could fail."""

from __future__ import annotations

import pytest
import torch

from feduplink.optimum import certify

from .reference import (
    Instance,
    best_local_search,
    best_on_grid,
    lagrangian,
    random_instance,
    wide_instance,
)

#: Rounding of the brute-force value.
_ROUNDING = 1e-12


def _best(instance: Instance, per_worker: int) -> torch.Tensor:
    channels = range(len(instance.batch.direct))
    values = [best_on_grid(instance, k, per_worker) for k in channels]
    return torch.tensor(values, dtype=torch.float64)


def _assert_sound(instance: Instance, best: torch.Tensor, max_boxes: int) -> None:
    certificate = certify(instance.batch, instance.prices, max_boxes=max_boxes)
    assert (certificate.upper >= best - _ROUNDING).all(), (certificate.upper - best).min()
    assert (certificate.upper >= certificate.lower).all()
    # The powers behind the lower end are real: they reach it, by the formulas of the reference.
    reached = [
        float(lagrangian(instance, k, power)) for k, power in enumerate(certificate.power.numpy())
    ]
    assert certificate.lower.tolist() == pytest.approx(reached)


@pytest.mark.parametrize(
    "seed", [*range(0, 10), *(pytest.param(s, marks=pytest.mark.slow) for s in range(10, 24))]
)
def test_two_workers_against_a_grid(seed: int):
    instance = random_instance(seed, workers=2, channels=8)
    best = _best(instance, per_worker=160)
    for max_boxes in (0, 10_000):
        _assert_sound(instance, best, max_boxes)


@pytest.mark.parametrize(
    "seed", [*range(100, 106), *(pytest.param(s, marks=pytest.mark.slow) for s in range(106, 118))]
)
def test_three_workers_against_a_grid(seed: int):
    instance = random_instance(seed, workers=3, channels=6)
    best = _best(instance, per_worker=36)
    for max_boxes in (0, 10_000):
        _assert_sound(instance, best, max_boxes)


@pytest.mark.parametrize(
    "seed", [*range(200, 202), *(pytest.param(s, marks=pytest.mark.slow) for s in range(202, 206))]
)
def test_four_workers_against_a_thousand_local_searches(seed: int):
    instance = random_instance(seed, workers=4, channels=3)
    values = [best_local_search(instance, k, starts=1000, seed=k) for k in range(3)]
    best = torch.tensor(values, dtype=torch.float64)
    for max_boxes in (0, 20_000):
        _assert_sound(instance, best, max_boxes)


def _assert_never_under_a_grid(seed: int, workers: int, max_boxes: int) -> None:
    """Gains over twelve decades, waterfalls from 1e-4 to 10, every objective."""
    instance = wide_instance(seed, workers)
    best = _best(instance, per_worker=120 if workers == 2 else 24)
    scale = 1 + float(best.abs().max())
    for record in (False, True):
        certificate = certify(
            instance.batch,
            instance.prices,
            max_boxes=max_boxes,
            target_gap=1e-3 * scale,
            record=record,
        )
        assert (certificate.upper >= best - _ROUNDING * scale).all(), (seed, record)


@pytest.mark.parametrize("seed", range(40))
def test_gains_over_twelve_decades(seed: int):
    _assert_never_under_a_grid(seed, workers=2 + seed % 2, max_boxes=1000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_instances_over_twelve_decades(block: int):
    for seed in range(100 * block, 100 * (block + 1)):
        _assert_never_under_a_grid(seed, workers=2 + seed % 2, max_boxes=3000)
