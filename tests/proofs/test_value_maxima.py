"""Maxima over intervals, against dense grids."""

from __future__ import annotations

import numpy as np
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from feduplink.proofs import arithmetic as balls
from feduplink.proofs.leaf_bounds import (
    WorkerWorth,
    highest_draw,
    highest_over_line,
    peak_power,
    peak_sinr,
)

_GRID = np.linspace(0, 1, 4001)


def _worth(success: float, waterfall: float) -> WorkerWorth:
    return WorkerWorth(*(arb(value) for value in (success, 0.0, 0.0, 0.0, waterfall, 0.01, 1.3)))


@given(
    st.floats(0, 2) | st.just(0.0),
    st.floats(0, 1) | st.just(0.0),
    st.floats(0, 2) | st.just(0.0),
    st.sampled_from([0.01, 0.3, 0.99, 1.0, 4.0]),
    st.floats(-8, 6),
    st.floats(1e-6, 12),
    st.sampled_from(["found", "none", "bad"]),
)
def test_a_value_over_a_line(
    success: float, per_rate: float, slope: float, m: float, start: float, width: float, guess: str
):
    low, high = float(np.exp(start)), float(np.exp(start + width))
    arguments = (np.array([value]) for value in (success, per_rate, slope))
    peak = float(peak_sinr(*arguments, m, np.array([low]), np.array([high]))[0])
    if guess != "found":
        peak = float("nan") if guess == "none" else (low * high) ** 0.5
    with balls.precision():
        worth = _worth(success, m)
        found = highest_over_line(worth, arb(per_rate), arb(slope), arb(low), arb(high), peak)
    s = np.log(low) + (np.log(high) - np.log(low)) * _GRID
    values = success * np.exp(-m * np.exp(-s)) + per_rate * np.log1p(np.exp(s)) - slope * s
    best = values.max()
    assert best <= float(found.upper()) + 1e-12
    if guess == "found":
        # The grid misses the maximum by no more than the curvature allows.
        assert float(found.upper()) <= best + (success + per_rate) * (width / 4000) ** 2 + 1e-9


@given(
    st.floats(-1, 1),
    st.floats(0, 1) | st.just(0.0),
    st.floats(-12, 0),
    st.floats(1e-6, 10),
    st.booleans(),
)
def test_what_depends_on_the_power_alone(
    gradient: float, factor: float, start: float, width: float, good: bool
):
    low, high = float(np.exp(start)), float(np.exp(start + width))
    scaled = 0.01 * factor
    guess = peak_power(
        np.array([gradient]), np.array([scaled]), np.array([0.01]), 1.3, np.array([low])
    )
    turn = min(float(guess[0]), high) if good else high
    with balls.precision():
        found = highest_draw(
            _worth(1.0, 0.02), *(arb(v) for v in (gradient, scaled, 0.02, low, high, turn))
        )
    t = np.log(low) + (np.log(high) - np.log(low)) * _GRID
    best = (gradient * (t - np.log(0.02)) + scaled / (1.3 * np.exp(t) + 0.01)).max()
    assert best <= float(found.upper()) + 1e-12
    if good:
        assert float(found.upper()) <= best + factor * (width / 4000) ** 2 + 1e-9
