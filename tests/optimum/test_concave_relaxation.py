"""The concave relaxation over boxes is an upper bound, and its ascent ends at its maximum."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from feduplink.optimum import Boxes, Relaxation, RelaxedBoxes, ascend, split

from .reference import Instance, random_instance

_ASCENT_SAMPLES = 300


def _relaxed(seed: int) -> RelaxedBoxes:
    """Relaxations of the roots of random channels."""
    instance = random_instance(seed, workers=4, channels=6)
    relaxation = Relaxation(instance.batch, instance.prices)
    boxes, empty = relaxation.tightened(relaxation.roots())
    boxes = boxes.take(~empty)
    weight = torch.full_like(boxes.t_low, 0.5)
    batch = instance.batch.take(boxes.channel)
    return RelaxedBoxes.of_boxes(batch, instance.prices, boxes, weight, relaxation.negligible)


@pytest.mark.parametrize("seed", [0, 2, 6, 12, 14, 18])
def test_ascent_ends_where_no_point_of_the_box_is_higher(seed: int):
    relaxed = _relaxed(seed)
    guess = relaxed.batch.pmax_w.expand_as(relaxed.boxes.t_low)
    summit = ascend(relaxed, guess, 60)
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(
        _ASCENT_SAMPLES, *relaxed.boxes.t_low.shape, generator=generator, dtype=torch.float64
    )
    # A millionth of all prices, of which the slack has 1e-8 per worker.
    rounding = 100 * relaxed.slack / relaxed.boxes.t_low.shape[-1]
    for share in shares:
        t = relaxed.boxes.t_low + share * (relaxed.t_high - relaxed.boxes.t_low)
        elsewhere, _ = relaxed.expand(relaxed.powers(t))
        assert (elsewhere.value <= summit.value + rounding).all()


@pytest.mark.parametrize("seed", [0, 6, 12])
def test_more_steps_of_ascent_never_lower_the_value(seed: int):
    relaxed = _relaxed(seed)
    guess = relaxed.batch.pmax_w.expand_as(relaxed.boxes.t_low)
    values = [ascend(relaxed, guess, steps).value for steps in (1, 2, 4, 8)]
    for fewer, more in itertools.pairwise(values):
        assert (more >= fewer).all()
    assert (values[-1] > values[0]).any()


_SAMPLES = 400


def _powers(boxes: Boxes, generator: torch.Generator) -> Tensor:
    """Powers in the boxes, (S, M, L) W: ends, points between them, and silence where allowed."""
    shape = (_SAMPLES, *boxes.t_low.shape)
    share = torch.rand(shape, generator=generator, dtype=torch.float64) * 1.4 - 0.2
    t = boxes.t_low + share.clamp(0, 1) * (boxes.t_high - boxes.t_low)
    resting = boxes.may_be_silent & (torch.rand(shape, generator=generator) < 0.4)
    return torch.where(resting | boxes.silent, 0.0, t.exp())


def _within(boxes: Boxes, power: Tensor, log_sinr: Tensor) -> Tensor:
    """Which powers are in the boxes, (S, M)."""
    on_air = power > 0
    t = torch.where(on_air, power, 1.0).log()
    inside = (t >= boxes.t_low) & (t <= boxes.t_high)
    inside &= (log_sinr >= boxes.s_low) & (log_sinr <= boxes.s_high)
    return torch.where(on_air, inside & ~boxes.silent, boxes.may_be_silent | boxes.silent).all(-1)


@pytest.mark.parametrize("seed", [0, 2, 4, 6, 8, 14])
def test_bounds_hold_in_the_box_and_cuts_remove_values_under_the_threshold_only(seed: int):
    instance: Instance = random_instance(seed, workers=3, channels=5)
    batch, prices = instance.batch, instance.prices
    generator = torch.Generator().manual_seed(seed)
    relaxation = Relaxation(batch, prices)
    boxes, guess = relaxation.roots(), batch.pmax_w.expand_as(batch.direct)
    compared = lost = 0
    for _ in range(5):
        before, _ = relaxation.tightened(boxes)
        weight = torch.rand(guess.shape, generator=generator, dtype=torch.float64)
        power = _powers(before, generator)
        some = batch.take(before.channel)
        value = some.value(power, prices)
        inside = _within(before, power, some.sinr(power).log())
        highest = torch.where(inside, value, -torch.inf).amax(0)
        # Some of the samples are above the threshold, most are not.
        threshold = torch.where(highest.isfinite(), 0.9 * highest, 0.0)
        bounds, cut = relaxation.bound(boxes, guess, weight, threshold)
        assert (highest <= bounds.upper + 1e-9).all()
        left = _within(bounds.boxes, power, some.sinr(power).log())
        gone = inside & ~left
        assert not (gone & ~cut).any()
        assert (value[gone] <= threshold.expand_as(value)[gone] + 1e-9).all()
        compared, lost = compared + int(inside.sum()), lost + int(gone.sum())
        boxes = split(bounds, bounds.boxes.node.repeat(2))
        guess = bounds.tangents.at_log_power.exp().repeat(2, 1)
    assert compared > 0
    if bool((prices.success > 0).any()):
        assert lost > 0
