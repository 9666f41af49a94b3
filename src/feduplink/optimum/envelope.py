"""Concave envelopes of a worker's value in ln SINR, and of its inverse power draw in ln p.

A worker's value f(s) = a ψ(s) + b ρ(s) − d with ψ(s) = exp(−m e^(−s)) (packet success) and
ρ(s) = ln(1 + e^s) (rate) is convex, then concave, then convex (docs/theory.md). Its concave
envelope on [low, high] therefore consists of a tangent line, a piece of f, and a tangent line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from feduplink import link
from feduplink.tensor_record import TensorRecord

#: Steps of the searches for tangent points.
_SEARCH_STEPS = 7
#: Width in s over which the slope falls to zero above ``high`` and increases by the prices below
#: ``low``, as a share of the interval, and its limits. Newton's method needs wide bends; narrow
#: bends are tighter.
_BEND_SHARE = 0.2
_MIN_BEND, _MAX_BEND = 0.05, 0.3


@dataclass(frozen=True)
class WorkerValue(TensorRecord):
    """f(s) = a ψ(s) + b ρ(s) − d with its first two derivatives.

    Attributes:
        success, rate, activation_cost: a, b and d, of one shape.
        waterfall: waterfall threshold m.
    """

    success: Tensor
    rate: Tensor
    activation_cost: Tensor
    waterfall: float

    def at(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return f, f' and f'' at ``s``, of the parameters' shape."""
        success, success_s, success_ss = link.success_at(s, self.waterfall, self.success)
        rate, rate_s, rate_ss = link.rate_at(s, self.rate)
        return success + rate - self.activation_cost, success_s + rate_s, success_ss + rate_ss

    def is_concave(self, s: Tensor, curvature: Tensor) -> Tensor:
        """Whether f is concave around ``s``, given f'' there.

        f is not concave below ln m, where f'' may underflow to zero, nor without a price on
        success.
        """
        return (curvature <= 0) & (s >= math.log(self.waterfall)) & (self.success > 0)

    def most_concave(self) -> float:
        """A point of the range in which f is concave, for any prices with such a range.

        f''(s) ≤ 0 if and only if x = e^s > m and m (x − m)(1 + x)² e^(−m/x) / x³ ≥ b/a. The
        left-hand side has its maximum at x = m (4 − m + √(8 + m²)) / (4 (1 − m)), at infinity for m
        ≥ 1.
        """
        m = self.waterfall
        if m >= 1:
            return math.inf
        return math.log(m * (4 - m + math.sqrt(8 + m * m)) / (4 * (1 - m)))


@dataclass(frozen=True)
class Envelope(TensorRecord):
    """A concave non-decreasing function ≥ f on [low, high] and ≥ ``floor`` at low.

    It is the line of slope ``left_slope`` left of ``left``, the line of slope ``right_slope`` right
    of ``right``, and f in between. If it is a chord instead, both points are ``high``, and it
    exceeds f there by ``lift`` and its slope by ``tilt``; otherwise these are 0. Outside
    [low, high] it must be concave and should be low. Above ``high`` its slope falls to 0 over
    ``bend_width``. Below ``low`` its slope grows by ``steepening`` per unit of s, unless the worker
    may be silent, since silence is represented there.

    Attributes:
        value: f.
        low, high, bend_width, steepening, left, right, left_slope, right_slope, lift, tilt: as
            above, (M, L) each.
    """

    value: WorkerValue
    low: Tensor
    high: Tensor
    bend_width: Tensor
    steepening: Tensor
    left: Tensor
    right: Tensor
    left_slope: Tensor
    right_slope: Tensor
    lift: Tensor
    tilt: Tensor

    @classmethod
    def on_interval(cls, value: WorkerValue, low: Tensor, high: Tensor, floor: Tensor) -> Envelope:
        """Construct the envelope on [low, high].

        Args:
            value: f, parameters (M, L).
            low: lower limit of s, (M, L).
            high: upper limit of s, (M, L).
            floor: minimum value of the envelope at ``low``, (M, L); −∞ for none.
        """
        high = torch.maximum(high, low + 1e-9)
        width = high - low
        end, end_slope, _ = value.at(high)
        start = torch.maximum(value.at(low)[0], floor)
        # If f is convex on the whole interval, its chord is the envelope.
        slope = ((end - start) / width).clamp_min(0.0)
        lift, tilt = start + slope * width - end, slope - end_slope
        left, right = high.clone(), high.clone()
        left_slope, right_slope = slope, slope.clone()

        middle = torch.clamp(high.new_tensor(value.most_concave()), low, high)
        is_curved = value.is_concave(middle, value.at(middle)[2])
        if bool(is_curved.any()):
            pieces = _Pieces(value, low, high, start, end)
            points, found = pieces.take(is_curved).tangent_points(middle[is_curved])
            chord = is_curved.clone()
            chord[is_curved] = ~found
            if bool(chord.any()):
                lift[chord] += pieces.take(chord).excess(middle[chord], slope[chord])
            is_curved &= ~chord
            curved_value = value.take(is_curved)
            for at, slope_at, point in zip(
                (left, right), (left_slope, right_slope), points, strict=True
            ):
                at[is_curved] = point[found]
                slope_at[is_curved] = curved_value.at(point[found])[1]
            lift[is_curved] = tilt[is_curved] = 0.0
        bend_width = (_BEND_SHARE * width).clamp(_MIN_BEND, _MAX_BEND)
        steepening = torch.where(floor.isinf(), (value.success + value.rate) / bend_width, 0.0)
        return cls(
            value,
            low,
            high,
            bend_width,
            steepening,
            left=left,
            right=right,
            left_slope=left_slope,
            right_slope=right_slope,
            lift=lift,
            tilt=tilt,
        )

    def inside(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, slope and second derivative at ``s`` ≤ high, ignoring ``low``, (M, L)."""
        touching = torch.minimum(torch.maximum(s, self.left), self.right)
        f, slope, curvature = self.value.at(touching)
        before = (s - self.left).clamp_max(0.0)
        behind = (s - self.right).clamp_min(0.0)
        value = f + self.lift + self.left_slope * before + self.right_slope * behind
        slope = (slope + self.tilt).clamp_min(0.0)
        return value, slope, curvature * ((s > self.left) & (s < self.right)).to(s)

    def at(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, slope and second derivative at any ``s``, (M, L)."""
        value, slope, curvature = self.inside(torch.minimum(s, self.high))
        beyond = ((s - self.high) / self.bend_width).clamp(0.0, 1.0)
        short = (self.low - s).clamp_min(0.0)
        value = value + self.right_slope * self.bend_width * (beyond * (1 - beyond / 2))
        value = value - self.steepening * (short * short) / 2
        slope = slope * (1 - beyond) + self.steepening * short
        flattening = self.right_slope / self.bend_width * ((beyond > 0) & (beyond < 1)).to(s)
        return value, slope, curvature - flattening - self.steepening * (short > 0).to(s)

    def affine(self, s: Tensor, value: Tensor) -> Tensor:
        """Evaluate an affine function that is ≥ f on [low, high] at ``s``.

        Its slope is that of the envelope at ``s``. Inside the interval it is the tangent of the
        envelope. Above high, every line through the envelope's end with a slope between 0 and the
        envelope's last slope is above it on the whole interval. Below low, every line through its
        start that is steeper than its first slope is.

        Args:
            s: (M, L).
            value: value of the envelope at ``s``, (M, L).

        Returns:
            (M, L).
        """
        beyond = ((s - self.high) / self.bend_width).clamp_min(0.0)
        bend_position = beyond.clamp_max(1.0)
        # Above high the line has (1 − x) times the right slope, and the envelope is its integral.
        width = self.right_slope * self.bend_width
        value = value + width * (
            (1 - bend_position) * beyond - bend_position * (1 - bend_position / 2)
        )
        # Below low the envelope falls by half as much as the line with its slope.
        short = (self.low - s).clamp_min(0.0)
        return value - self.steepening * (short * short) / 2


@dataclass(frozen=True)
class _Pieces(TensorRecord):
    """Functions f that are concave on a sub-interval of [low, high]; one-dimensional tensors.

    f is convex on both sides of the sub-interval. A tangent at one of its points is therefore above
    f left of that point if it is above f at low, and right of it if it is above f at high.
    """

    value: WorkerValue
    low: Tensor
    high: Tensor
    start: Tensor
    end: Tensor

    def tangent_points(self, middle: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Points of contact of the tangents through both ends, and whether they exist.

        If they do not exist, the chord is above f up to a small excess. ``middle`` is in the
        concave sub-interval.
        """
        left, found_left = self._tangent(middle, sign=-1)
        right, found_right = self._tangent(middle, sign=1)
        return (left, right), found_left & found_right & (left <= right)

    def _tangent(self, middle: Tensor, sign: int) -> tuple[Tensor, Tensor]:
        """Find the outermost point on the side ``sign`` whose tangent is above f, if there is one.

        On the concave part such points lie inside of all others, so each evaluation determines on
        which side the outermost one is. Newton's method is safeguarded by bisection.
        """
        limit, inner = (self.low, self.high) if sign < 0 else (self.high, self.low)
        target = self.start if sign < 0 else self.end

        def above(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """Distance of the tangent above f at the limit, its derivative, concavity of f."""
            f, slope, curvature = self.value.at(s)
            run = limit - s
            return f + slope * run - target, curvature * run, self.value.is_concave(s, curvature)

        outer = limit
        good, found = middle, torch.zeros_like(middle, dtype=torch.bool)
        at = middle
        for step in range(_SEARCH_STEPS + 1):
            excess, rate, concave = above(at)
            fits = concave & (excess >= 0)
            good, found = torch.where(fits, at, good), found | fits
            # Tangent above f: move outwards. Below: inwards. Not concave: back to the middle.
            out = torch.where(concave, fits, sign * (middle - at) > 0)
            inner, outer = torch.where(out, at, inner), torch.where(out, outer, at)
            # From below, overshoot the zero slightly to reach points whose tangent is above f.
            proposal = at - excess / rate * torch.where(excess < 0, 1.05, 1.0)
            inside = (proposal - inner) * (proposal - outer) < 0
            halved = (inner + outer) / 2
            at = torch.where(concave & inside & (step % 4 != 3), proposal, halved)
        # The end of the interval itself, if f is concave up to it.
        excess, _, concave = above(limit)
        reaches = concave & (excess >= 0)
        return torch.where(reaches, limit, good), found | reaches

    def excess(self, middle: Tensor, slope: Tensor) -> Tensor:
        """Bound max (f − chord) over [low, high], for the chord from the start with ``slope``.

        The maximum is at an end, where it is 0, or in the concave part, where f is below its
        tangents: a bracket of the point of slope ``slope`` bounds it.
        """
        left, right, at = self.low, self.high, middle
        least = torch.full_like(middle, math.inf)
        for _ in range(_SEARCH_STEPS):
            f, f_slope, curvature = self.value.at(at)
            concave = self.value.is_concave(at, curvature)
            excess = f - self.start - slope * (at - self.low)
            tilt = f_slope - slope
            bound = excess + torch.maximum(tilt * (right - at), tilt * (left - at))
            least = torch.where(concave, torch.minimum(least, bound), least)
            up = torch.where(concave, tilt >= 0, at < middle)
            left, right = torch.where(up, at, left), torch.where(up, right, at)
            proposal = at - tilt / curvature
            inside = (proposal > left) & (proposal < right)
            at = torch.where(concave & inside, proposal, (left + right) / 2)
        return least.clamp_min(0.0)


#: Steps of the search for the tangent point.
_BISECTIONS = 14


@dataclass(frozen=True)
class DrawEnvelope(TensorRecord):
    """The concave envelope of q(t) = 1 / (μ_a e^t + P_c) on [low, high], with t = ln p.

    q decreases, is concave up to μ_a e^t = P_c and convex beyond. The envelope is q up to
    ``touch``, then a line to the end of q or just above it.

    Attributes:
        static_power_w: P_c, (L,), W.
        amplifier_inefficiency: μ_a.
        touch, touch_value: start of the line and q there, (M, L).
        slope: slope of the line, (M, L).
    """

    shared: ClassVar[frozenset[str]] = frozenset({"static_power_w"})

    static_power_w: Tensor
    amplifier_inefficiency: float
    touch: Tensor
    touch_value: Tensor
    slope: Tensor

    @classmethod
    def on_interval(
        cls, static_power_w: Tensor, amplifier_inefficiency: float, low: Tensor, high: Tensor
    ) -> DrawEnvelope:
        """Construct the envelope on [low, high], (M, L) each, for P_c (L,)."""

        def q(t: Tensor) -> tuple[Tensor, Tensor]:
            return link.inverse_draw(t.exp(), static_power_w, amplifier_inefficiency)[:2]

        end = q(high)[0]
        inflection = (static_power_w / amplifier_inefficiency).log()
        concave = high <= inflection
        touch, beyond = low, torch.minimum(high, inflection).maximum(low)
        # If all intervals end below the inflection, q is concave on all of them.
        for _ in range(0 if bool(concave.all()) else _BISECTIONS):
            middle = (touch + beyond) / 2
            value, slope = q(middle)
            above = value + slope * (high - middle) >= end
            touch, beyond = torch.where(above, middle, touch), torch.where(above, beyond, middle)
        touch = torch.where(concave, high, touch)
        value, tangent = q(touch)
        # The line must pass above the end of q: the tangent does or, if ``low`` is too close to the
        # end, the chord. The steeper of both would be below q.
        run = high - touch
        chord = torch.where(run > 1e-12, (end - value) / run.clamp_min(1e-12), tangent)
        return cls(
            static_power_w, amplifier_inefficiency, touch, value, torch.maximum(tangent, chord)
        )

    def at(self, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, slope and second derivative at ``t``, (M, L) each."""
        q, slope, curvature = link.inverse_draw(
            t.exp(), self.static_power_w, self.amplifier_inefficiency
        )
        # The line's own slope from the point of contact on: q falls faster than a chord.
        on_line = t >= self.touch
        return (
            torch.where(on_line, self.touch_value + self.slope * (t - self.touch), q),
            torch.where(on_line, self.slope, slope),
            torch.where(on_line, 0.0, curvature),
        )
