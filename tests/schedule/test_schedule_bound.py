from __future__ import annotations

import pytest
import torch

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.scheduling import bound_front

from .test_column_generation import BITS, brute_force

THREE = Scenario(workers=3)


@pytest.mark.parametrize("kappa", [0.0, 20.0])
def test_three_workers_are_enclosed_within_one_percent(kappa: float):
    csi = make_channels(THREE, 5, seed=7).test
    (found,) = bound_front(THREE, csi, BITS, [kappa], gap=0.01)
    assert (found.gap <= 0.01).all()
    assert (found.gap >= 0).all()
    # No mixture of a grid is below the bound, and none is far below the schedule.
    for channel, lower, cost in zip(csi, found.lower, found.solution.cost, strict=True):
        grid = brute_force(channel, THREE, kappa, levels=20)
        assert float(lower) <= grid
        assert float(cost) <= grid * (1 + 1e-3)


def test_a_bound_that_is_cut_short_is_sound():
    csi = make_channels(Scenario(), 4, seed=7).test
    (hasty,) = bound_front(Scenario(), csi, BITS, [0.0], gap=0.001, max_boxes=0)
    (patient,) = bound_front(Scenario(), csi, BITS, [0.0], gap=0.02)
    assert (hasty.lower <= patient.solution.cost).all()
    assert (patient.gap <= 0.02).all()
    assert (hasty.lower > 0).all()
    torch.testing.assert_close(hasty.solution.cost, patient.solution.cost, rtol=5e-3, atol=0.0)
