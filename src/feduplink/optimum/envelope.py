"""The smallest concave function above one worker's value, as a function of s = ln SINR.

A worker's value f(s) = a ψ(s) + b ρ(s) − d with ψ(s) = exp(−m e^(−s)) (packet success) and
ρ(s) = ln(1 + e^s) (rate) is convex, then concave, then convex (docs/theory.md). Its concave
envelope on [low, high] is therefore a tangent line, a piece of f, and a tangent line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_GRID = 48
_BISECTIONS = 12
#: sup over s of |ψ''(s)| and |ρ''(s)|.
_PSI_CURVATURE = 0.3099
_RHO_CURVATURE = 0.25
#: Over this share of the interval, and at most this width in s, the slope falls to zero behind
#: ``high`` and rises by the prices before ``low``: wide bends are easy to climb, narrow ones sharp.
_BEND_SHARE = 0.2
_WIDEST_BEND = 0.3


@dataclass(frozen=True)
class WorkerValue:
    """f(s) = a ψ(s) + b ρ(s) − d with its first two derivatives; (M, L) parameters."""

    success: Tensor
    rate: Tensor
    fee: Tensor
    waterfall: float

    def at(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f, f' and f'' at ``s``, any shape that broadcasts with (..., M, L)."""
        loss = self.waterfall * torch.exp(-s)
        success = torch.exp(-loss)
        logistic = torch.sigmoid(s)
        value = self.success * success + self.rate * torch.nn.functional.softplus(s) - self.fee
        slope = self.success * success * loss + self.rate * logistic
        bend = self.success * success * loss * (loss - 1) + self.rate * logistic * (1 - logistic)
        return value, slope, bend


@dataclass(frozen=True)
class Envelope:
    """Concave, non-decreasing, at least f on [low, high] and at least ``floor`` at low.

    Left of ``left`` it is the line with ``left_slope``, right of ``right`` the line with
    ``right_slope``, f in between. Outside [low, high] it only has to be concave, and the lower
    the better: behind ``high`` it bends to a constant; before ``low`` it falls ever more steeply
    (unless the worker may rest: then it is represented there). Both over a short width, so that
    Newton's method can see it.
    """

    value: WorkerValue
    low: Tensor
    high: Tensor
    bend_width: Tensor
    steepening: Tensor
    left: Tensor
    right: Tensor
    left_value: Tensor
    left_slope: Tensor
    right_value: Tensor
    right_slope: Tensor

    @classmethod
    def of(cls, value: WorkerValue, low: Tensor, high: Tensor, floor: Tensor) -> Envelope:
        """The envelope on [low, high], all (M, L)."""
        high = torch.maximum(high, low + 1e-9)
        width = high - low
        f_low, f_high = value.at(low)[0], value.at(high)[0]
        start = torch.maximum(f_low, floor)

        def left_ok(s: Tensor) -> Tensor:
            f, slope, bend = value.at(s)
            return (bend <= 0) & (f - slope * (s - low) >= start)

        def right_ok(s: Tensor) -> Tensor:
            f, slope, bend = value.at(s)
            return (bend <= 0) & (f + slope * (high - s) >= f_high)

        grid = torch.linspace(0, 1, _GRID, dtype=low.dtype, device=low.device)
        points = low + width * grid[:, None, None]
        left_hits, right_hits = left_ok(points), right_ok(points)
        first = left_hits.to(torch.int8).argmax(0)
        last = _GRID - 1 - right_hits.flip(0).to(torch.int8).argmax(0)
        tangent = left_hits.any(0) & right_hits.any(0) & (first <= last)

        left = low + width * grid[first]
        right = low + width * grid[last]
        left = _bisect(left_ok, left - width / (_GRID - 1), left, tangent & (first > 0))
        right = _bisect(right_ok, right + width / (_GRID - 1), right, tangent & (last < _GRID - 1))
        left_value, left_slope, _ = value.at(left)
        right_value, right_slope, _ = value.at(right)

        # No tangent point found: the chord, lifted over whatever of f a fine grid may miss.
        chord_slope = ((f_high - start) / width).clamp_min(0.0)
        excess = (value.at(points)[0] - (start + chord_slope * (points - low))).amax(0)
        curvature = _PSI_CURVATURE * value.success + _RHO_CURVATURE * value.rate
        lift = excess.clamp_min(0.0) + curvature * (width / (_GRID - 1)) ** 2 / 8
        chord_value = start + lift
        bend_width = (_BEND_SHARE * width).clamp(0.05, _WIDEST_BEND)
        steepening = torch.where(floor.isinf(), (value.success + value.rate) / bend_width, 0.0)
        return cls(
            value,
            low,
            high,
            bend_width,
            steepening,
            left=torch.where(tangent, left, high),
            right=torch.where(tangent, right, high),
            left_value=torch.where(tangent, left_value, chord_value + chord_slope * width),
            left_slope=torch.where(tangent, left_slope, chord_slope),
            right_value=torch.where(tangent, right_value, chord_value + chord_slope * width),
            right_slope=torch.where(tangent, right_slope, chord_slope),
        )

    def at(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, slope and second derivative at ``s``, (M, L), with the bend behind ``high``."""
        f, slope, bend = self.value.at(s)
        on_left, on_right = s <= self.left, s >= self.right
        left_line = self.left_value + self.left_slope * (s - self.left)
        right_line = self.right_value + self.right_slope * (s - self.right)
        value = torch.where(on_left, left_line, torch.where(on_right, right_line, f))
        slope = torch.where(
            on_left, self.left_slope, torch.where(on_right, self.right_slope, slope)
        )
        bend = torch.where(on_left | on_right, 0.0, bend)
        beyond = ((s - self.high) / self.bend_width).clamp(0.0, 1.0)
        capped = self.end() + self.right_slope * self.bend_width * (beyond - beyond**2 / 2)
        is_beyond = s > self.high
        value = torch.where(is_beyond, capped, value)
        slope = torch.where(is_beyond, self.right_slope * (1 - beyond), slope)
        flattening = torch.where(beyond < 1, self.right_slope / self.bend_width, 0.0)
        bend = torch.where(is_beyond, -flattening, bend)
        short = (self.low - s).clamp_min(0.0)
        value = value - self.steepening * short**2 / 2
        slope = slope + self.steepening * short
        bend = torch.where(short > 0, -self.steepening, bend)
        return value, slope, bend

    def end(self) -> Tensor:
        """The value at ``high``: a constant above f on the whole interval."""
        return self.right_value + self.right_slope * (self.high - self.right)

    def affine_at(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """An affine function of s, value at ``s`` and slope ≥ 0, that is above f on [low, high].

        Inside the interval it is the tangent of the envelope. Behind high, any line through the
        envelope's end with a slope between 0 and the envelope's last one is above it on the
        whole interval, and before low any line through its start that is steeper than its first
        one; the bends say which.
        """
        value, slope, _ = self.at(s)
        value = torch.where(s > self.high, self.end() + slope * (s - self.high), value)
        start = self.at(self.low)[0]
        walled = (s < self.low) & (self.steepening > 0)
        return torch.where(walled, start + slope * (s - self.low), value), slope


@dataclass(frozen=True)
class DrawEnvelope:
    """The smallest concave function above q(t) = 1 / (μ_a e^t + P_c) on [low, high] of t = ln p.

    q falls, concave up to μ_a e^t = P_c and convex beyond. The envelope is q up to ``touch``,
    then the line through ``touch`` and ``high``.
    """

    static_power_w: float
    amplifier_inefficiency: float
    touch: Tensor
    touch_value: Tensor
    slope: Tensor

    @classmethod
    def of(
        cls, static_power_w: float, amplifier_inefficiency: float, low: Tensor, high: Tensor
    ) -> DrawEnvelope:
        """The envelope on [low, high], (M, L) each."""

        def q(t: Tensor) -> tuple[Tensor, Tensor]:
            drawn = amplifier_inefficiency * t.exp()
            value = 1 / (drawn + static_power_w)
            return value, -drawn * value**2

        end = q(high)[0]

        def above_the_end(t: Tensor) -> Tensor:
            value, slope = q(t)
            return value + slope * (high - t) >= end

        bend = math.log(static_power_w / amplifier_inefficiency)
        last = high.clamp(max=bend).maximum(low)
        touch = torch.where(high <= bend, high, _bisect(above_the_end, last, low, high > bend))
        value = q(touch)[0]
        run = high - touch
        slope = torch.where(run > 1e-12, (end - value) / run.clamp_min(1e-12), q(touch)[1])
        return cls(static_power_w, amplifier_inefficiency, touch, value, slope)

    def at(self, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value, slope and second derivative at ``t``."""
        drawn = self.amplifier_inefficiency * t.exp()
        q = 1 / (drawn + self.static_power_w)
        slope = -drawn * q**2
        bend = slope + 2 * drawn**2 * q**3
        on_line = t > self.touch
        return (
            torch.where(on_line, self.touch_value + self.slope * (t - self.touch), q),
            torch.where(on_line, self.slope, slope),
            torch.where(on_line, 0.0, bend),
        )


def _bisect(ok: Callable[[Tensor], Tensor], bad: Tensor, good: Tensor, search: Tensor) -> Tensor:
    """Move ``good`` towards ``bad`` while the predicate holds, where ``search`` is true."""
    for _ in range(_BISECTIONS):
        middle = (bad + good) / 2
        holds = ok(middle)
        good = torch.where(search & holds, middle, good)
        bad = torch.where(search & ~holds, middle, bad)
    return good
