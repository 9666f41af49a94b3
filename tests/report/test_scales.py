from __future__ import annotations

import math

import pytest
from matplotlib.figure import Figure

from feduplink.reporting.style import set_objective_scale


def _position(axes, value: float) -> float:
    """As a share of the width."""
    return (axes.transData + axes.transAxes.inverted()).transform((value, 0))[0]


def test_good_objectives_are_apart_and_all_are_inside():
    axes = Figure().subplots()
    values = [0.2259, 0.7062, 0.941, 0.9706, 0.9761]
    assert set_objective_scale(axes, "x", values)
    places = [_position(axes, value) for value in values]
    assert places == sorted(places)
    assert places[0] > 0
    assert places[-1] < 1
    assert places[-1] - places[-2] > 0.04  # 0.007 of a linear axis
    ticks = axes.get_xticks()
    assert len(ticks) >= 4
    assert all(0 <= _position(axes, tick) <= 1 for tick in ticks)


def test_the_axis_is_logarithmic_in_what_is_missing():
    axes = Figure().subplots()
    set_objective_scale(axes, "x", [0.0, 0.9, 0.99])
    first, second, third = (_position(axes, value) for value in (0.0, 0.9, 0.99))
    assert second - first == pytest.approx(third - second)


@pytest.mark.parametrize(
    "values", [[], [math.nan], [0.5], [-0.1, 0.9], [0.9, 1.3], [0.1, 0.3], [0.9, 0.9]]
)
def test_other_objectives_keep_their_axis(values: list[float]):
    axes = Figure().subplots()
    assert not set_objective_scale(axes, "x", values)
    assert axes.get_xscale() == "linear"
