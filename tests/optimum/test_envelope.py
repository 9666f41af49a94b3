"""What makes the bound sound: the envelopes are above, concave and rising."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from feduplink.optimum import Envelope, WorkerValue

_POINTS = 3001


def _column(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


_price = st.one_of(st.just(0.0), st.floats(-5, 1).map(lambda x: 10**x))


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    """Any prices, also none, over any interval, with and without a floor."""
    low = draw(st.floats(-30, 10))
    width = draw(st.floats(-3, 1.6).map(lambda x: 10**x))
    value = WorkerValue(
        _column(draw(_price)),
        _column(draw(_price)),
        _column(draw(st.one_of(st.just(0.0), st.floats(0, 2)))),
        draw(st.sampled_from([0.023, 0.3, 0.999, 1.0, 5.0, 500.0])),
    )
    floor = draw(st.sampled_from([0.0, -math.inf]))
    return Envelope.on_interval(value, _column(low), _column(low + width), _column(floor))


def _grid(low: Tensor, high: Tensor) -> Tensor:
    return torch.linspace(float(low), float(high), _POINTS, dtype=torch.float64)


def _scale(envelope: Envelope) -> float:
    return float(envelope.value.success + envelope.value.rate * 40 + 1)


def _on(envelope: Envelope, s: Tensor) -> Tensor:
    return envelope.at(s[:, None])[0][:, 0]


@settings(max_examples=150, deadline=None)
@given(envelope=envelopes())
def test_above_the_value_and_the_floor(envelope: Envelope):
    s = _grid(envelope.low, envelope.high)
    value = envelope.value.at(s[:, None])[0][:, 0]
    rounding = 1e-13 * _scale(envelope)
    assert (_on(envelope, s) >= value - rounding).all()
    assert float(envelope.at(envelope.high)[0]) >= float(value.max()) - rounding
    if float(envelope.steepening) == 0:  # with a floor, or worth nothing
        assert float(envelope.at(envelope.low)[0]) >= -rounding - float(
            envelope.value.activation_cost
        )


@settings(max_examples=150, deadline=None)
@given(envelope=envelopes())
def test_concave_and_non_decreasing_also_outside(envelope: Envelope):
    width = float(envelope.high - envelope.low)
    s = _grid(envelope.low - width, envelope.high + width)
    values, slopes = _on(envelope, s), envelope.at(s[:, None])[1][:, 0]
    rounding = 1e-12 * _scale(envelope)
    assert (values.diff() >= -rounding).all()
    assert (slopes >= 0).all()
    assert (slopes.diff() <= rounding).all()


@settings(max_examples=100, deadline=None)
@given(envelope=envelopes())
def test_touches_the_value_where_it_leaves_a_line(envelope: Envelope):
    """No wider than it must be: f itself at the tangent points, or the chord of its ends."""
    rounding = 1e-12 * _scale(envelope)
    if float(envelope.left) < float(envelope.high):
        for point in (envelope.left, envelope.right):
            gap = envelope.at(point)[0] - envelope.value.at(point)[0]
            assert abs(float(gap)) <= rounding


@settings(max_examples=150, deadline=None)
@given(envelope=envelopes(), place=st.floats(-1, 2))
def test_every_affine_function_it_gives_is_above_the_value(envelope: Envelope, place: float):
    low, high = float(envelope.low), float(envelope.high)
    at = _column(low + place * (high - low))
    value_there, slope, _ = envelope.at(at)
    height = envelope.affine(at, value_there)
    assert float(slope) >= 0
    s = _grid(envelope.low, envelope.high)
    line = float(height) + float(slope) * (s - float(at))
    value = envelope.value.at(s[:, None])[0][:, 0]
    assert (line >= value - 1e-12 * _scale(envelope) * (1 + abs(place))).all()


def test_underflow_is_not_taken_for_concavity():
    """Far under the waterfall ψ and all its derivatives are zero in float64."""
    value = WorkerValue(_column(0.74), _column(0.0), _column(0.0), 2.0)
    envelope = Envelope.on_interval(value, _column(-12.75), _column(3.33), _column(0.0))
    s = _grid(envelope.low, envelope.high)
    assert (_on(envelope, s) >= value.at(s[:, None])[0][:, 0]).all()
