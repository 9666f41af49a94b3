"""Where functions of one variable are largest, in plain float64: guesses that balls then judge.

Nothing is concluded from these numbers. A bad one makes a bound loose, never wrong.
"""

from __future__ import annotations

import numpy as np

from feduplink.proofs.proof import Floats

_BISECTIONS = 26
_NEWTON_STEPS = 2
#: Steps to the most efficient power; from where they start they are enough.
_PEAK_STEPS = 9


def most_concave_sinr(waterfall: float) -> float:
    """Where a PSR + b R is concave in ln SINR, whatever a and b, if it is anywhere."""
    m = waterfall
    if m >= 1:
        return np.inf
    return float(m * (4 - m + np.sqrt(8 + m * m)) / (4 * (1 - m)))


def peak_sinr(
    success: Floats, per_rate: Floats, slope: Floats, waterfall: float, low: Floats, high: Floats
) -> Floats:
    """The largest a PSR + b R − slope ln SINR where it is concave in ln SINR within [low, high].

    NaN where it is concave nowhere. From the point where it is most concave, halves of the
    interval lead towards where the derivative is 0 or the concave part ends; Newton's method
    ends the search.
    """

    def derivatives(sinr: Floats) -> tuple[Floats, Floats]:
        loss = waterfall / sinr
        steep = success * np.exp(-loss) * loss
        share = sinr / (1 + sinr)
        return steep + per_rate * share - slope, steep * (loss - 1) + per_rate * share / (1 + sinr)

    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        inner = np.clip(np.full_like(low, most_concave_sinr(waterfall)), low, high)
        tilt, bend = derivatives(inner)
        concave = bend < 0
        rising = tilt > 0
        outer = np.where(rising, high, low)
        for _ in range(_BISECTIONS):
            middle = np.sqrt(inner * outer)
            tilt, bend = derivatives(middle)
            onward = ((tilt > 0) == rising) & (bend < 0)
            inner, outer = np.where(onward, middle, inner), np.where(onward, outer, middle)
        for _ in range(_NEWTON_STEPS):
            tilt, bend = derivatives(inner)
            proposed = np.clip(inner * np.exp(-tilt / bend), low, high)
            near = np.abs(tilt / bend) < 1e-3
            inner = np.where(near & (derivatives(proposed)[1] < 0), proposed, inner)
        return np.where(concave, inner, np.nan)


def most_efficient_power(
    gain: Floats, static_power_w: Floats, inefficiency: float, low: Floats, high: Floats
) -> Floats:
    """The power in [low, high] with the largest ln(1 + gain p) / (μ p + P_c).

    v = ln(1 + gain p) solves e^v (v − 1) = gain P_c / μ − 1; Newton's method from above.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = gain * static_power_w / inefficiency
        v = np.minimum(np.sqrt(2 * ratio), 1 + np.log1p(ratio))
        for _ in range(_PEAK_STEPS):
            v = v - (v - 1 + (1 - ratio) * np.exp(-v)) / v
        found: Floats = np.clip(np.nan_to_num(np.expm1(v) / gain, nan=np.inf), low, high)
    return found


def peak_power(
    slope: Floats, factor: Floats, static_power_w: Floats, inefficiency: float, low: Floats
) -> Floats:
    """The first power from ``low`` on with a largest slope ln p + factor / (μ p + P_c).

    u = μ p is the smaller root of slope (u + P_c)² = factor u, which is at most P_c. Without a
    root the sum rises all the way and P_c is taken, without a slope it falls and ``low`` is.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        half = factor - 2 * slope * static_power_w
        root = np.sqrt(half**2 - (2 * slope * static_power_w) ** 2)
        drawn = 2 * slope * static_power_w**2 / (half + root)
        falls = (half > 0) & (root >= 0)
        drawn = np.where(slope > 0, np.where(falls, drawn, static_power_w), 0.0)
        # A little less than P_c is certainly where the sum is concave.
        drawn = np.minimum(drawn, static_power_w * (1 - 1e-12))
    return np.maximum(drawn / inefficiency, low)
