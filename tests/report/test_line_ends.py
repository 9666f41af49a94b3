from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from feduplink.reporting.style import LineEnd, label_line_ends


def _heights(*ends: float, distance: float = 0.1) -> dict[str, float]:
    """Where the names of lines that end at these heights of [0, 1] are written."""
    axes = Figure().subplots()
    axes.set_ylim(0, 1)
    label_line_ends(
        axes, [LineEnd(1.0, end, str(n), "black") for n, end in enumerate(ends)], distance
    )
    return {text.get_text(): text.xyann[1] for text in axes.texts}


def test_names_far_apart_stand_at_their_lines():
    assert _heights(0.2, 0.8) == pytest.approx({"0": 0.2, "1": 0.8})


def test_names_of_equal_lines_are_spread_around_them_and_in_order():
    heights = _heights(0.5, 0.5, 0.51, 0.9)
    assert heights["3"] == pytest.approx(0.9)
    spread = sorted(heights[name] for name in "012")
    np.testing.assert_allclose(np.diff(spread), 0.1)
    assert abs(spread[1] - 0.503) < 0.001
    assert heights["2"] == spread[-1]


def test_names_stay_beside_the_axes():
    assert min(_heights(0.0, 0.0, 0.01).values()) >= 0
    assert max(_heights(1.0, 1.0, 0.99).values()) <= 1


def test_lines_without_an_end_on_the_axis_have_no_name():
    assert set(_heights(math.nan, 0.5, 7.0)) == {"1"}
