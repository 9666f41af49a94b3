"""Steps up the relaxation never fall, and end where no point of the box is higher."""

import itertools

import pytest
import torch

from feduplink.optimum import Relaxation, RelaxedBoxes, ascend

from .reference import random_instance

_SAMPLES = 300


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
def test_no_point_of_the_box_is_higher(seed: int):
    relaxed = _relaxed(seed)
    guess = relaxed.batch.pmax_w.expand_as(relaxed.boxes.t_low)
    summit = ascend(relaxed, guess, 60)
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(
        _SAMPLES, *relaxed.boxes.t_low.shape, generator=generator, dtype=torch.float64
    )
    # A millionth of all prices, of which the slack has 1e-8 per worker.
    rounding = 100 * relaxed.slack / relaxed.boxes.t_low.shape[-1]
    for share in shares:
        t = relaxed.boxes.t_low + share * (relaxed.t_high - relaxed.boxes.t_low)
        elsewhere, _ = relaxed.expand(relaxed.powers(t))
        assert (elsewhere.value <= summit.value + rounding).all()


@pytest.mark.parametrize("seed", [0, 6, 12])
def test_more_steps_are_never_lower(seed: int):
    relaxed = _relaxed(seed)
    guess = relaxed.batch.pmax_w.expand_as(relaxed.boxes.t_low)
    values = [ascend(relaxed, guess, steps).value for steps in (1, 2, 4, 8)]
    for fewer, more in itertools.pairwise(values):
        assert (more >= fewer).all()
    assert (values[-1] > values[0]).any()
