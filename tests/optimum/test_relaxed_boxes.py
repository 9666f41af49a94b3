"""Bounds over boxes hold at every point of them, and what is cut off a box does not matter."""

import pytest
import torch
from torch import Tensor

from feduplink.optimum import Boxes, Relaxation, split

from .reference import Instance, random_instance

_SAMPLES = 400


def _powers(boxes: Boxes, generator: torch.Generator) -> Tensor:
    """Powers in the boxes, (S, M, L) W: ends, points between them, and silence where allowed."""
    shape = (_SAMPLES, *boxes.t_low.shape)
    share = torch.rand(shape, generator=generator, dtype=torch.float64) * 1.4 - 0.2
    t = boxes.t_low + share.clamp(0, 1) * (boxes.t_high - boxes.t_low)
    resting = boxes.may_rest & (torch.rand(shape, generator=generator) < 0.4)
    return torch.where(resting | boxes.silent, 0.0, t.exp())


def _within(boxes: Boxes, power: Tensor, log_sinr: Tensor) -> Tensor:
    """Which powers are in the boxes, (S, M)."""
    on_air = power > 0
    t = torch.where(on_air, power, 1.0).log()
    inside = (t >= boxes.t_low) & (t <= boxes.t_high)
    inside &= (log_sinr >= boxes.s_low) & (log_sinr <= boxes.s_high)
    return torch.where(on_air, inside & ~boxes.silent, boxes.may_rest | boxes.silent).all(-1)


@pytest.mark.parametrize("seed", [0, 2, 4, 6, 8, 14])
def test_bounds_hold_and_cuts_lose_nothing(seed: int):
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
        # Some of what was sampled is above the threshold, most of it is not.
        threshold = torch.where(highest.isfinite(), 0.9 * highest, 0.0)
        after, bounds, cut = relaxation.bound(boxes, guess, weight, threshold)
        assert (highest <= bounds.upper + 1e-9).all()
        left = _within(after, power, some.sinr(power).log())
        gone = inside & ~left
        assert not (gone & ~cut).any()
        assert (value[gone] <= threshold.expand_as(value)[gone] + 1e-9).all()
        compared, lost = compared + int(inside.sum()), lost + int(gone.sum())
        boxes = split(after, bounds, after.node.repeat(2))
        guess = bounds.tangents.at_log_power.exp().repeat(2, 1)
    assert compared > 0
    if bool((prices.success > 0).any()):
        assert lost > 0
