"""Upper bounds on the Lagrangian of a channel over a region, in ball arithmetic.

With multipliers λ_ki ≥ 0 on E[1(p_i > 0) (c_ki − limit_ki)] ≥ 0 and weights w of the objective's
measure f, the Lagrangian is Σ_i 1(p_i > 0) (a_i PSR_i + b_i R_i + c_i EE_i − d_i) with a, b and c
the sums of w and λ over the measures and d_i = Σ_k λ_ki limit_ki.

As a function of s = ln SINR at a fixed power, and of t = ln p without interference, what a worker
contributes is convex, then concave, then convex, where parts may be empty. For such a function φ on
[lo, hi] and the tangent T at a point of the concave part,

    φ ≤ max(φ(lo), φ(hi), T(lo), T(hi)):

in the concave part φ is under T; in a convex part it is under the larger of its ends, one of which
is an end of the interval and the other one in the concave part. Without a concave part φ is under
the larger of φ(lo) and φ(hi).

The smaller of two bounds counts; both are proved in docs/proofs.md. The first takes every worker at
the largest SINR that the region allows. The second uses a tangent: the value of a worker lies under
a line in ln SINR, which is concave in the log-powers t = ln p; so the sum of the lines lies under
its tangent at any point, and the tangent is largest at a corner of the region. The choice of
tangents is not rigorous and need not be: a bad one makes a bound loose, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import arb

from feduplink.proofs import arithmetic as balls
from feduplink.proofs.arithmetic import (
    ZERO,
    down,
    noise_and_interference_down,
    noise_and_interference_up,
    up,
)
from feduplink.proofs.format import Booleans, Floats, Proof, ProvedMeasure
from feduplink.proofs.regions import Gains, Regions

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


@dataclass(frozen=True)
class WorkerWorth:
    """a PSR + b R + c EE − d of one worker on the air.

    Attributes:
        success, rate, efficiency, cost: a, b, c and d.
        waterfall: m.
        static_power_w, inefficiency: P_c and μ.
    """

    success: arb
    rate: arb
    efficiency: arb
    cost: arb
    waterfall: arb
    static_power_w: arb
    inefficiency: arb

    def at_most(self, sinr: arb) -> arb:
        """a PSR + (b + c / P_c) R − d: with all powers that lead to ``sinr``, no less."""
        per_rate = self.rate + self.efficiency / self.static_power_w
        return self.of_sinr(sinr, per_rate) - self.cost

    def of_sinr(self, sinr: arb, per_rate: arb) -> arb:
        """a PSR + ``per_rate`` R, which does not fall with the SINR."""
        value = ZERO
        if not self.success.is_zero():
            value += self.success * balls.success(sinr, self.waterfall)
        if not per_rate.is_zero():
            value += per_rate * balls.rate(sinr)
        return value

    def per_watt(self, power: arb) -> arb:
        """q = 1 / (μ p + P_c), so that EE = R q."""
        return 1 / (self.inefficiency * power + self.static_power_w)


def worker_worths(proof: Proof) -> list[WorkerWorth]:
    """What every worker is worth, L of them."""
    problem = proof.problem
    worths = []
    for worker, weight in enumerate(proof.objective_weight):
        price = dict.fromkeys(ProvedMeasure, ZERO)
        price[problem.objective] += arb(float(weight))
        cost = ZERO
        for measure, multipliers, limits in zip(
            problem.constraints, proof.multipliers, problem.limits, strict=True
        ):
            multiplier = arb(float(multipliers[worker]))
            price[measure] += multiplier
            cost += multiplier * arb(float(limits[worker]))
        worths.append(
            WorkerWorth(
                price[ProvedMeasure.SUCCESS],
                price[ProvedMeasure.RATE],
                price[ProvedMeasure.EFFICIENCY],
                cost,
                arb(problem.waterfall),
                arb(float(problem.static_power_w[worker])),
                arb(problem.amplifier_inefficiency),
            )
        )
    return worths


def under_the_floor(worths: list[WorkerWorth], floor: Floats) -> arb:
    """What all workers on the air at SINRs of no more than their ``floor`` (L,) add, at most.

    To silence them costs no more than this, and harms nobody: the others' SINRs rise. So the
    largest Lagrangian is at most this much above that of powers whose senders are all above.
    """
    total = ZERO
    for worth, sinr in zip(worths, floor, strict=True):
        total += balls.larger(worth.at_most(arb(float(sinr))), ZERO)
    return total


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


class LeafBounds:
    """Bounds for given prices; ``slack`` is what workers under their floor may add."""

    def __init__(self, worths: list[WorkerWorth], slack: arb) -> None:
        self._worths = worths
        self._slack = slack
        # Midpoints, for guesses.
        self._success, self._rate, self._efficiency, self._static_power_w = (
            np.array([float(getattr(worth, name)) for worth in worths])
            for name in ("success", "rate", "efficiency", "static_power_w")
        )
        self._waterfall, self._inefficiency = map(
            float, (worths[0].waterfall, worths[0].inefficiency)
        )

    def monotone(self, regions: Regions, gains: Gains) -> Iterator[arb]:
        """Σ_i a PSR + b R at the largest SINR + c times the largest EE − d, region by region.

        With k = α over the least noise and interference, EE ≤ ln(1 + k p) / (μ p + P_c); the
        logarithm is under its tangent at any p⁰, and what remains is monotone in p.
        """
        gain = up(gains.direct / regions.least_received(gains))
        # From here on the rate is at its limit, and efficiency falls with more power.
        top = np.minimum(regions.power_high, up(regions.sinr_high / gain))
        top = np.maximum(top, regions.power_low)
        peak = top
        if self._efficiency.any():
            peak = most_efficient_power(
                gain, self._static_power_w, self._inefficiency, regions.power_low, top
            )
        ends = (regions.sinr_high, regions.power_low, top, gain, peak)
        return self._sums(regions, ends, _at_best_ends)

    def tangent(
        self,
        regions: Regions,
        gains: Gains,
        at_power: Floats,
        sinr_slope: Floats,
        upper_ends: Booleans,
    ) -> Iterator[arb]:
        """The sum of lines with ``sinr_slope`` by its tangent at ``at_power``, region by region."""
        heard = regions.heard
        at_power = np.where(heard, at_power, 0.0)
        slope = np.where(heard, sinr_slope, 0.0)
        lowest = noise_and_interference_down(gains.cross, at_power)
        gradient_low, gradient_high = _gradient(gains.cross, at_power, slope, lowest)
        # A worker that may rest is represented by its lowest power, and the others are given back
        # what that takes from them.
        resting = np.where(regions.may_be_silent, regions.power_low, 0.0)
        received = noise_and_interference_up(gains.cross, resting) - 1.0
        raised = up(1 + up(up(received) / regions.least_received(gains)))
        sinr = up(up(up(gains.direct * at_power) / lowest) * raised)
        at_rest = down(down(gains.direct * regions.power_low) / regions.most_received(gains))
        rate_ends = np.where(upper_ends, regions.sinr_high, regions.sinr_low)
        draw_ends = np.where(upper_ends, regions.power_high, regions.power_low)
        per_watt = 1 / (self._inefficiency * draw_ends + self._static_power_w)
        peak = peak_sinr(
            np.broadcast_to(self._success, slope.shape),
            self._rate + self._efficiency * per_watt,
            slope,
            self._waterfall,
            regions.sinr_low,
            regions.sinr_high,
        )
        turn = peak_power(
            (gradient_low + gradient_high) / 2,
            self._efficiency * np.log1p(rate_ends),
            self._static_power_w,
            self._inefficiency,
            regions.power_low,
        )
        columns = (
            slope,
            gradient_low,
            gradient_high,
            regions.sinr_low,
            regions.sinr_high,
            peak,
            regions.power_low,
            regions.power_high,
            np.minimum(turn, regions.power_high),
            at_power,
            sinr,
            at_rest,
            rate_ends,
            draw_ends,
        )
        return self._sums(
            regions, columns, lambda worth, *part: _under_tangent(worth, _Tangent(*part))
        )

    def _sums(
        self, regions: Regions, columns: tuple[np.ndarray, ...], value: Callable[..., arb]
    ) -> Iterator[arb]:
        """The slack and what all workers that may send add, region by region.

        ``value`` takes a worker's worth, whether it may be silent, and its row of the ``columns``.
        """
        columns = (regions.heard, regions.may_be_silent, *columns)
        for rows in zip(*(column.tolist() for column in columns), strict=True):
            total = self._slack
            for worth, heard, *part in zip(self._worths, *rows, strict=True):
                if heard:
                    total += value(worth, *part)
            yield total


def _gradient(cross: Floats, power: Floats, slope: Floats, lowest: Floats) -> tuple[Floats, Floats]:
    """Limits of σ_j − Σ_i σ_i β_ij p_j / (1 + Σ_k β_ik p_k), (n, L) each.

    That is ∂/∂t_j of Σ_i σ_i ln SINR_i at t = ln p; ``lowest`` is no more than the denominator.
    """
    highest = noise_and_interference_up(cross, power)
    pulled_low, pulled_high = np.zeros_like(slope), np.zeros_like(slope)
    for i in range(slope.shape[-1]):
        sent, steep = cross[:, i] * power, slope[:, i, None]
        pulled_low = down(pulled_low + down(down(down(sent) * steep) / highest[:, i, None]))
        pulled_high = up(pulled_high + up(up(up(sent) * steep) / lowest[:, i, None]))
    return down(slope - pulled_high), up(slope - pulled_low)


def _at_best_ends(worth: WorkerWorth, may_be_silent: bool, *ends: float) -> arb:
    """a PSR + b R + c EE − d at the largest SINR and the best power; 0 if silence is better.

    ``ends`` are the largest SINR, the lowest power, the power up to which R is at most
    ln(1 + gain p), this gain, and a guess of the best power.
    """
    sinr, low, top, gain, peak = map(arb, ends)
    value = worth.of_sinr(sinr, worth.rate) - worth.cost
    if not worth.efficiency.is_zero():
        at_peak = 1 + gain * peak
        rate, tilt = at_peak.log(), gain / at_peak
        at_low = worth.per_watt(low)
        most = balls.larger(
            (rate + tilt * (low - peak)) * at_low,
            (rate + tilt * (top - peak)) * worth.per_watt(top),
        )
        value += worth.efficiency * most.min(balls.rate(sinr) * at_low)
    return balls.larger(value, ZERO) if may_be_silent else value


class _Tangent(NamedTuple):
    """One worker's part of a tangent bound.

    Attributes:
        may_be_silent: whether it may be silent.
        slope: of its line in ln SINR.
        gradient_low, gradient_high: limits of the tangent's derivative in its log-power.
        sinr_low, sinr_high: its SINR if it sends.
        peak: a guess of where its value is largest over the line; NaN for none.
        power_low, power_high: its power if it sends, W.
        turn: a guess of where the part that depends on its power alone is largest.
        at_power: where the tangent is taken, W.
        sinr: no less than its SINR there, raised for those that may rest.
        at_rest: no more than the SINR that represents it when it rests.
        rate_end, draw_end: SINR and power from which R q is bounded.
    """

    may_be_silent: bool
    slope: float
    gradient_low: float
    gradient_high: float
    sinr_low: float
    sinr_high: float
    peak: float
    power_low: float
    power_high: float
    turn: float
    at_power: float
    sinr: float
    at_rest: float
    rate_end: float
    draw_end: float


def _under_tangent(worth: WorkerWorth, part: _Tangent) -> arb:
    """What a worker adds to the tangent of the sum of lines, at its best corner.

    R q ≤ K q + q₀ R − K q₀, (K, q₀) at the ends that were chosen (McCormick); so the value is
    at most a PSR + (b + c q₀) R − d − c K q₀, under a line in ln SINR, plus c K q(p).
    """
    slope = arb(part.slope)
    low = arb(part.power_low)
    per_rate, constant, factor = worth.rate, -worth.cost, ZERO
    if not worth.efficiency.is_zero():
        per_watt = worth.per_watt(arb(part.draw_end))
        factor = worth.efficiency * balls.rate(arb(part.rate_end))
        per_rate = per_rate + worth.efficiency * per_watt
        constant = constant - factor * per_watt
    intercept = constant + highest_over_line(
        worth, per_rate, slope, arb(part.sinr_low), arb(part.sinr_high), part.peak
    )
    if part.may_be_silent:
        # Where it rests, worth 0, the line must be no less.
        rest = -factor * worth.per_watt(low)
        if part.slope != 0:
            rest -= slope * arb(part.at_rest).log()
        intercept = balls.larger(intercept, rest)
    if part.slope != 0:
        intercept += slope * arb(part.sinr).log()
    gradient = balls.between(part.gradient_low, part.gradient_high)
    return intercept + highest_draw(
        worth, gradient, factor, arb(part.at_power), low, arb(part.power_high), arb(part.turn)
    )
