"""Envelopes are concave and above what they bound."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from feduplink.optimum import DrawEnvelope, Envelope, WorkerValue

_POINTS = 3001


def _column(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


_price = st.one_of(st.just(0.0), st.floats(-5, 1).map(lambda x: 10**x))


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    """Any prices, zero included, over any interval, with and without a floor."""
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
def test_the_envelope_is_above_the_value_and_the_floor(envelope: Envelope):
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
def test_the_envelope_is_concave_and_non_decreasing_also_outside_the_interval(envelope: Envelope):
    width = float(envelope.high - envelope.low)
    s = _grid(envelope.low - width, envelope.high + width)
    values, slopes = _on(envelope, s), envelope.at(s[:, None])[1][:, 0]
    rounding = 1e-12 * _scale(envelope)
    assert (values.diff() >= -rounding).all()
    assert (slopes >= 0).all()
    assert (slopes.diff() <= rounding).all()


@settings(max_examples=100, deadline=None)
@given(envelope=envelopes())
def test_the_envelope_touches_the_value_at_the_ends_of_its_line(envelope: Envelope):
    """It is f itself at the tangent points, or the chord of the ends."""
    rounding = 1e-12 * _scale(envelope)
    if float(envelope.left) < float(envelope.high):
        for point in (envelope.left, envelope.right):
            gap = envelope.at(point)[0] - envelope.value.at(point)[0]
            assert abs(float(gap)) <= rounding


@settings(max_examples=150, deadline=None)
@given(envelope=envelopes(), place=st.floats(-1, 2))
def test_every_affine_bound_of_the_envelope_is_above_the_value(envelope: Envelope, place: float):
    low, high = float(envelope.low), float(envelope.high)
    at = _column(low + place * (high - low))
    value_there, slope, _ = envelope.at(at)
    height = envelope.affine(at, value_there)
    assert float(slope) >= 0
    s = _grid(envelope.low, envelope.high)
    line = float(height) + float(slope) * (s - float(at))
    value = envelope.value.at(s[:, None])[0][:, 0]
    assert (line >= value - 1e-12 * _scale(envelope) * (1 + abs(place))).all()


def test_underflow_does_not_count_as_concavity():
    """Far under the waterfall ψ and all its derivatives are zero in float64."""
    value = WorkerValue(_column(0.74), _column(0.0), _column(0.0), 2.0)
    envelope = Envelope.on_interval(value, _column(-12.75), _column(3.33), _column(0.0))
    s = _grid(envelope.low, envelope.high)
    assert (_on(envelope, s) >= value.at(s[:, None])[0][:, 0]).all()


@settings(max_examples=150, deadline=None)
@given(
    low=st.floats(-30, 0),
    width=st.floats(-4, 1.6).map(lambda x: 10**x),
    static=st.floats(-4, 2).map(lambda x: 10**x),
    inefficiency=st.floats(0.1, 50),
)
def test_the_envelope_of_the_inverse_draw_is_above_it_falling_and_concave(
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
    # Tight at the start, which represents a worker that may rest, and nearly so at the end.
    assert width < 1e-3 or float(values[0]) == pytest.approx(float(q[0]), rel=1e-12)
    assert float(values[-1]) <= float(q[-1]) + 2e-3 / static
