"""The largest values of two functions of one variable over an interval, in ball arithmetic.

Both are convex, then concave, then convex, with parts that may be empty. For such a function φ on
[lo, hi] and the tangent T at a point of the concave part,

    φ ≤ max(φ(lo), φ(hi), T(lo), T(hi)):

in the concave part φ is under T; in a convex part it is under the larger of its ends, one of which
is an end of the interval and the other one in the concave part. Without a concave part φ is under
the larger of φ(lo) and φ(hi).
"""

from __future__ import annotations

import math

from flint import arb

from feduplink.proofs import balls
from feduplink.proofs.balls import ZERO
from feduplink.proofs.worker_worth import WorkerWorth


def highest_over_line(
    worth: WorkerWorth, per_rate: arb, slope: arb, low: arb, high: arb, peak: float
) -> arb:
    """No less than a PSR + b R − slope ln SINR for SINRs in [low, high], b = ``per_rate``.

    As a function of ln SINR its curvature is a e^(−ℓ) ℓ (ℓ − 1) + b x / (1 + x)² with x the SINR
    and ℓ = m / x, and negative on an interval if anywhere (docs/theory.md, section 4). ``peak``
    is a guess of the largest value in it.
    """
    log_low, log_high = low.log(), high.log()

    def ends(per_rate: arb) -> arb:
        return balls.larger(
            worth.of_sinr(low, per_rate) - slope * log_low,
            worth.of_sinr(high, per_rate) - slope * log_high,
        )

    if worth.success.is_zero():
        return ends(per_rate)
    if not math.isnan(peak):
        x = arb(peak)
        loss = worth.waterfall / x
        success = worth.success * (-loss).exp()
        share = x / (1 + x)
        if success * loss * (loss - 1) + per_rate * share / (1 + x) < 0:
            log_x = x.log()
            value = success + per_rate * balls.rate(x) - slope * log_x
            tilt = success * loss + per_rate * share - slope
            steps = balls.larger(tilt * (log_low - log_x), tilt * (log_high - log_x))
            return balls.larger(ends(per_rate), value + steps)
    return ends(per_rate + _more_to_be_convex(worth, per_rate, low, high))


def _more_to_be_convex(worth: WorkerWorth, per_rate: arb, low: arb, high: arb) -> arb:
    """By how much b has to grow so that the value is convex in ln SINR on [low, high].

    R is at least 0, so a larger b bounds the value from above. Convex it is if the curvature is
    not negative where it is most concave, the point of [low, high] next to
    m (4 − m + √(8 + m²)) / (4 (1 − m)), which is at infinity for m ≥ 1.
    """
    m = worth.waterfall
    x = high
    if m < 1:
        x = (m * (4 - m + (8 + m * m).sqrt()) / (4 * (1 - m))).max(low).min(high)
    loss = m / x
    bend = worth.success * (-loss).exp() * loss * (loss - 1)
    missing = -bend * (1 + x) ** 2 / x - per_rate
    return balls.larger(missing, ZERO).upper()


def highest_draw(
    worth: WorkerWorth, gradient: arb, factor: arb, at: arb, low: arb, high: arb, turn: arb
) -> arb:
    """No less than gradient ln(p / at) + factor q(p) for p in [low, high], q = 1 / (μ p + P_c).

    As a function of ln p, q is concave up to μ p = P_c and convex beyond; ``turn`` is a guess of
    the largest value where the sum is concave.
    """
    if factor.is_zero():
        if gradient > 0:
            return gradient * (high / at).log()
        if gradient < 0:
            return gradient * (low / at).log()
    if gradient < 0:
        return gradient * (low / at).log() + factor * worth.per_watt(low)
    to_low, to_high = (low / at).log(), (high / at).log()
    most = balls.larger(
        gradient * to_low + factor * worth.per_watt(low),
        gradient * to_high + factor * worth.per_watt(high),
    )
    drawn = worth.inefficiency * turn
    if drawn <= worth.static_power_w:
        per_watt = worth.per_watt(turn)
        to_turn = (turn / at).log()
        tilt = -factor * drawn * per_watt * per_watt
        value = factor * per_watt
        return most.max(gradient * to_low + value + tilt * (to_low - to_turn)).max(
            gradient * to_high + value + tilt * (to_high - to_turn)
        )
    if worth.inefficiency * low >= worth.static_power_w:
        return most
    return gradient * to_low.union(to_high) + factor * worth.per_watt(low)
