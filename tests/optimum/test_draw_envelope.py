"""The envelope of a worker's inverse draw is above it and concave."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from feduplink.optimum import DrawEnvelope

_POINTS = 3001


def _column(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


@settings(max_examples=150, deadline=None)
@given(
    low=st.floats(-30, 0),
    width=st.floats(-4, 1.6).map(lambda x: 10**x),
    static=st.floats(-4, 2).map(lambda x: 10**x),
    inefficiency=st.floats(0.1, 50),
)
def test_above_the_inverse_draw_falling_and_concave(
    low: float, width: float, static: float, inefficiency: float
):
    envelope = DrawEnvelope.on_interval(
        _column(static), inefficiency, _column(low), _column(low + width)
    )
    t = torch.linspace(low, low + width, _POINTS, dtype=torch.float64)
    q = 1 / (inefficiency * t.exp() + static)
    values, slopes, _ = envelope.at(t[:, None])
    assert (values[:, 0] >= q - 1e-13 / static).all()
    assert (slopes[:, 0].diff() <= 1e-12 / static).all()
    assert (slopes <= 0).all()
    # Tight at the start, where a worker that may rest is represented, and nearly at the end.
    assert width < 1e-3 or float(values[0]) == pytest.approx(float(q[0]), rel=1e-12)
    assert float(values[-1]) <= float(q[-1]) + 2e-3 / static
