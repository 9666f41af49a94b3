"""Bounds over boxes of powers, against powers drawn in these boxes."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feduplink.optimum import BoundedBoxes, MonotoneBound, PowerBoxes

from .reference import Instance, wide_instance

_POINTS = 400


def _random_boxes(seed: int) -> tuple[Instance, PowerBoxes, torch.Tensor]:
    """Boxes of an instance without success, some of them down to silence, and powers in each."""
    instance = wide_instance(3 * seed + 1 + seed % 2, workers=3)
    generator = torch.Generator().manual_seed(seed)
    decades = torch.rand(30, 2, 3, generator=generator, dtype=torch.float64) * -8
    ends = (instance.batch.pmax_w * 10**decades).sort(1).values
    low = torch.where(torch.rand(30, 3, generator=generator) < 0.4, 0.0, ends[:, 0])
    channel = torch.zeros(30, dtype=torch.int64)
    share = torch.rand(_POINTS, 30, 3, generator=generator, dtype=torch.float64)
    share[:8] = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * 3)[:, None]
    powers = low + (ends[:, 1] - low) * share ** (1 + 4 * torch.rand(_POINTS, 1, 1).double())
    return instance, PowerBoxes(channel, low, ends[:, 1], channel), powers


def _values(instance: Instance, powers: torch.Tensor) -> torch.Tensor:
    return instance.batch.value(powers.reshape(-1, 3), instance.prices).reshape(powers.shape[:-1])


def _bounded(instance: Instance, boxes: PowerBoxes) -> BoundedBoxes:
    return MonotoneBound(instance.batch, instance.prices).on(boxes)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_values_in_a_box_are_at_most_its_bounds(seed: int):
    instance, boxes, powers = _random_boxes(seed)
    values = _values(instance, powers).amax(0)
    bounded = _bounded(instance, boxes)
    assert (bounded.upper >= values).all()
    if bounded.bound.concave:
        assert (bounded.tangent()[0] >= values).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_a_raised_lower_limit_removes_values_under_the_threshold_only(seed: int):
    instance, boxes, powers = _random_boxes(seed)
    values = _values(instance, powers)
    bounded = _bounded(instance, boxes)
    threshold = 0.7 * bounded.upper
    raised = bounded.raised_low(threshold)
    cut = (powers < raised).any(-1)
    assert (values[cut] <= threshold.expand_as(values)[cut] * (1 + 1e-12) + 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_the_best_limits_contain_a_best_power(seed: int):
    """Powers moved into the narrower box, or to silence, have no smaller value."""
    instance, boxes, powers = _random_boxes(seed)
    bounded = _bounded(instance, boxes)
    if not bounded.bound.concave:
        return
    low, high = bounded.best_limits()
    moved = torch.minimum(torch.maximum(powers, low), high)
    gained = _values(instance, moved) - _values(instance, powers)
    assert (gained >= -1e-9 * (1 + _values(instance, powers).abs())).all()


def test_the_bound_of_a_single_point_is_its_value():
    instance, boxes, _ = _random_boxes(1)
    point = PowerBoxes(boxes.channel, boxes.high, boxes.high, boxes.node)
    torch.testing.assert_close(
        _bounded(instance, point).upper, _values(instance, boxes.high), rtol=1e-9, atol=1e-9
    )
