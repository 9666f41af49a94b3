"""Upper bounds on the Lagrangian of a channel over a region, in ball arithmetic.

With multipliers λ_ki ≥ 0 of E[1(p_i > 0) (c_ki − limit_ki)] ≥ 0 and weights w of the objective's
measure f, the Lagrangian is Σ_i 1(p_i > 0) (a_i PSR_i + b_i R_i + c_i EE_i − d_i) with a, b and c
the sums of w and λ over the measures and d_i = Σ_k λ_ki limit_ki.

As a function of s = ln SINR at a fixed power, and of t = ln p without interference, the value of a
worker is convex, then concave, then convex, where parts may be empty. For such a function φ on
[lo, hi] and the tangent T at a point of the concave part,

    φ ≤ max(φ(lo), φ(hi), T(lo), T(hi)):

in the concave part φ ≤ T; in a convex part φ is at most the larger of its values at the ends, one
of which is an end of the interval and the other one in the concave part. Without a concave part φ
is at most max(φ(lo), φ(hi)).

There are two bounds, both proved in docs/proofs.md, and the smaller one is used. The first takes
every worker at the largest SINR that the region allows. The second uses a tangent: the value of a
worker is at most a line in ln SINR, which is concave in the log-powers t = ln p. The sum of the
lines is therefore at most its tangent at any point, and the tangent has its maximum at a corner of
the region. The choice of tangents is not rigorous and need not be: a poor choice makes a bound
loose, never invalid.
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
#: Newton steps to the most efficient power, which converge from the starting point used.
_EFFICIENCY_STEPS = 9


def most_concave_sinr(waterfall: float) -> float:
    """SINR at which a PSR + b R is concave in ln SINR, for all a and b with such an SINR."""
    m = waterfall
    if m >= 1:
        return np.inf
    return float(m * (4 - m + np.sqrt(8 + m * m)) / (4 * (1 - m)))


def peak_sinr(
    success: Floats, per_rate: Floats, slope: Floats, waterfall: float, low: Floats, high: Floats
) -> Floats:
    """Maximiser of a PSR + b R − slope ln SINR in its concave part within [low, high].

    Bisection from the point of strongest concavity brackets the zero of the derivative or the end
    of the concave part; Newton's method refines it.

    Args:
        success: a, (n, L).
        per_rate: b, (n, L).
        slope: slope of the line in ln SINR, (n, L).
        waterfall: m.
        low: lower limit of the SINR, (n, L).
        high: upper limit of the SINR, (n, L).

    Returns:
        SINR, (n, L), not rigorous; NaN without a concave part.
    """

    def derivatives(sinr: Floats) -> tuple[Floats, Floats]:
        loss = waterfall / sinr
        steep = success * np.exp(-loss) * loss
        share = sinr / (1 + sinr)
        return steep + per_rate * share - slope, steep * (loss - 1) + per_rate * share / (1 + sinr)

    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        inner = np.clip(np.full_like(low, most_concave_sinr(waterfall)), low, high)
        derivative, curvature = derivatives(inner)
        concave = curvature < 0
        rising = derivative > 0
        outer = np.where(rising, high, low)
        for _ in range(_BISECTIONS):
            middle = np.sqrt(inner * outer)
            derivative, curvature = derivatives(middle)
            move_on = ((derivative > 0) == rising) & (curvature < 0)
            inner, outer = np.where(move_on, middle, inner), np.where(move_on, outer, middle)
        for _ in range(_NEWTON_STEPS):
            derivative, curvature = derivatives(inner)
            proposed = np.clip(inner * np.exp(-derivative / curvature), low, high)
            near = np.abs(derivative / curvature) < 1e-3
            inner = np.where(near & (derivatives(proposed)[1] < 0), proposed, inner)
        return np.where(concave, inner, np.nan)


def most_efficient_power(
    gain: Floats, static_power_w: Floats, inefficiency: float, low: Floats, high: Floats
) -> Floats:
    """Maximiser of ln(1 + gain p) / (μ p + P_c) in [low, high], not rigorous.

    v = ln(1 + gain p) solves e^v (v − 1) = gain P_c / μ − 1, by Newton's method from above.

    Args:
        gain: SINR per watt, any shape, 1/W.
        static_power_w: P_c, W.
        inefficiency: μ.
        low: lower limit of the power, W.
        high: upper limit of the power, W.

    Returns:
        Power in W, in the shape of ``gain``.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = gain * static_power_w / inefficiency
        v = np.minimum(np.sqrt(2 * ratio), 1 + np.log1p(ratio))
        for _ in range(_EFFICIENCY_STEPS):
            v = v - (v - 1 + (1 - ratio) * np.exp(-v)) / v
        found: Floats = np.clip(np.nan_to_num(np.expm1(v) / gain, nan=np.inf), low, high)
    return found


def peak_power(
    slope: Floats, factor: Floats, static_power_w: Floats, inefficiency: float, low: Floats
) -> Floats:
    """First maximiser of slope ln p + factor / (μ p + P_c) from ``low`` on, not rigorous.

    u = μ p is the smaller root of slope (u + P_c)² = factor u, which is at most P_c. Without a root
    the sum increases everywhere and P_c is used. Without a positive slope it decreases and ``low``
    is used.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        half = factor - 2 * slope * static_power_w
        root = np.sqrt(half**2 - (2 * slope * static_power_w) ** 2)
        drawn = 2 * slope * static_power_w**2 / (half + root)
        falls = (half > 0) & (root >= 0)
        drawn = np.where(slope > 0, np.where(falls, drawn, static_power_w), 0.0)
        # Slightly below P_c, where the sum is certainly concave.
        drawn = np.minimum(drawn, static_power_w * (1 - 1e-12))
    return np.maximum(drawn / inefficiency, low)


@dataclass(frozen=True)
class WorkerValue:
    """Value a PSR + b R + c EE − d of one transmitting worker.

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
        """Upper bound a PSR + (b + c / P_c) R − d over all powers with this SINR."""
        per_rate = self.rate + self.efficiency / self.static_power_w
        return self.of_sinr(sinr, per_rate) - self.cost

    def of_sinr(self, sinr: arb, per_rate: arb) -> arb:
        """a PSR + ``per_rate`` R, which is non-decreasing in the SINR."""
        value = ZERO
        if not self.success.is_zero():
            value += self.success * balls.success(sinr, self.waterfall)
        if not per_rate.is_zero():
            value += per_rate * balls.rate(sinr)
        return value

    def per_watt(self, power: arb) -> arb:
        """q = 1 / (μ p + P_c), so that EE = R q."""
        return 1 / (self.inefficiency * power + self.static_power_w)


def worker_values(proof: Proof) -> list[WorkerValue]:
    """Values of the L workers at the proof's multipliers and weights."""
    problem = proof.problem
    values = []
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
        values.append(
            WorkerValue(
                price[ProvedMeasure.SUCCESS],
                price[ProvedMeasure.RATE],
                price[ProvedMeasure.EFFICIENCY],
                cost,
                arb(problem.waterfall),
                arb(float(problem.static_power_w[worker])),
                arb(problem.amplifier_inefficiency),
            )
        )
    return values


def floor_slack(values: list[WorkerValue], floor: Floats) -> arb:
    """Upper bound on the total value of transmitting workers with SINRs of at most their floor.

    Silencing these workers lowers the Lagrangian by at most this bound and increases the SINRs of
    the others. The largest Lagrangian thus exceeds that of powers whose workers are all above their
    floors by at most this bound.

    Args:
        values: values of the L workers.
        floor: SINR, (L,).
    """
    total = ZERO
    for worker_value, sinr in zip(values, floor, strict=True):
        total += balls.larger(worker_value.at_most(arb(float(sinr))), ZERO)
    return total


def max_above_line(
    worker_value: WorkerValue, per_rate: arb, slope: arb, low: arb, high: arb, peak: float
) -> arb:
    """Upper bound on a PSR + b R − slope ln SINR over SINRs in [low, high].

    As a function of ln SINR its curvature is a e^(−ℓ) ℓ (ℓ − 1) + b x / (1 + x)² with x the SINR
    and ℓ = m / x, and the part with negative curvature is an interval (docs/theory.md, section 4).

    Args:
        worker_value: value of the worker.
        per_rate: b.
        slope: slope of the line in ln SINR.
        low: lower limit of the SINR.
        high: upper limit of the SINR.
        peak: guess of the maximiser in the concave part; NaN for none.
    """
    log_low, log_high = low.log(), high.log()

    def ends(per_rate: arb) -> arb:
        return balls.larger(
            worker_value.of_sinr(low, per_rate) - slope * log_low,
            worker_value.of_sinr(high, per_rate) - slope * log_high,
        )

    if worker_value.success.is_zero():
        return ends(per_rate)
    if not math.isnan(peak):
        x = arb(peak)
        loss = worker_value.waterfall / x
        success = worker_value.success * (-loss).exp()
        share = x / (1 + x)
        if success * loss * (loss - 1) + per_rate * share / (1 + x) < 0:
            log_x = x.log()
            value = success + per_rate * balls.rate(x) - slope * log_x
            derivative = success * loss + per_rate * share - slope
            steps = balls.larger(derivative * (log_low - log_x), derivative * (log_high - log_x))
            return balls.larger(ends(per_rate), value + steps)
    return ends(per_rate + _convexifying_rate(worker_value, per_rate, low, high))


def _convexifying_rate(worker_value: WorkerValue, per_rate: arb, low: arb, high: arb) -> arb:
    """Increase of b at which the value is convex in ln SINR on [low, high].

    R is at least 0, so a larger b gives an upper bound. The value is convex if its curvature is
    nonnegative at the point of strongest concavity, the point of [low, high] nearest to
    m (4 − m + √(8 + m²)) / (4 (1 − m)), which is at infinity for m ≥ 1.
    """
    m = worker_value.waterfall
    x = high
    if m < 1:
        x = (m * (4 - m + (8 + m * m).sqrt()) / (4 * (1 - m))).max(low).min(high)
    loss = m / x
    curvature = worker_value.success * (-loss).exp() * loss * (loss - 1)
    increase = -curvature * (1 + x) ** 2 / x - per_rate
    return balls.larger(increase, ZERO).upper()


def max_draw_terms(
    worker_value: WorkerValue, gradient: arb, factor: arb, at: arb, low: arb, high: arb, turn: arb
) -> arb:
    """Upper bound on gradient ln(p / at) + factor q(p) for p in [low, high], q = 1 / (μ p + P_c).

    As a function of ln p, q is concave up to μ p = P_c and convex beyond.

    Args:
        worker_value: value of the worker.
        gradient: derivative of the tangent in ln p.
        factor: c K.
        at: point of tangency, W.
        low: lower limit of the power, W.
        high: upper limit of the power, W.
        turn: guess of the maximiser in the concave part, W.
    """
    if factor.is_zero():
        if gradient > 0:
            return gradient * (high / at).log()
        if gradient < 0:
            return gradient * (low / at).log()
    if gradient < 0:
        return gradient * (low / at).log() + factor * worker_value.per_watt(low)
    to_low, to_high = (low / at).log(), (high / at).log()
    largest = balls.larger(
        gradient * to_low + factor * worker_value.per_watt(low),
        gradient * to_high + factor * worker_value.per_watt(high),
    )
    drawn = worker_value.inefficiency * turn
    if drawn <= worker_value.static_power_w:
        per_watt = worker_value.per_watt(turn)
        to_turn = (turn / at).log()
        derivative = -factor * drawn * per_watt * per_watt
        value = factor * per_watt
        return largest.max(gradient * to_low + value + derivative * (to_low - to_turn)).max(
            gradient * to_high + value + derivative * (to_high - to_turn)
        )
    if worker_value.inefficiency * low >= worker_value.static_power_w:
        return largest
    return gradient * to_low.union(to_high) + factor * worker_value.per_watt(low)


class LeafBounds:
    """Upper bounds on the Lagrangian over regions, at fixed prices.

    Args:
        values: values of the L workers.
        slack: bound on the total value of workers below their floor.
    """

    def __init__(self, values: list[WorkerValue], slack: arb) -> None:
        self._values = values
        self._slack = slack
        # Midpoints, for guesses that need not be rigorous.
        self._success, self._rate, self._efficiency, self._static_power_w = (
            np.array([float(getattr(worker_value, name)) for worker_value in values])
            for name in ("success", "rate", "efficiency", "static_power_w")
        )
        self._waterfall, self._inefficiency = map(
            float, (values[0].waterfall, values[0].inefficiency)
        )

    def monotone(self, regions: Regions, gains: Gains) -> Iterator[arb]:
        """Bound Σ_i a PSR + b R at the largest SINR + c times the largest EE − d per region.

        With k = α over the lowest noise and interference, EE ≤ ln(1 + k p) / (μ p + P_c); the
        logarithm is at most its tangent at any p⁰, and the resulting quotient is monotone in p.

        Args:
            regions: n regions.
            gains: their channels.

        Returns:
            Iterator of n bounds.
        """
        gain = up(gains.direct / regions.least_interference(gains))
        # Beyond this power the rate is at its limit, and the efficiency decreases.
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
        """Bound the sum of lines in ln SINR by its tangent per region.

        Args:
            regions: n regions.
            gains: their channels.
            at_power: points of tangency, (n, L), W.
            sinr_slope: slopes of the lines, (n, L).
            upper_ends: whether R q is bounded from the upper ends of SINR and power, (n, L).

        Returns:
            Iterator of n bounds.
        """
        may_transmit = regions.may_transmit
        at_power = np.where(may_transmit, at_power, 0.0)
        slope = np.where(may_transmit, sinr_slope, 0.0)
        lowest = noise_and_interference_down(gains.cross, at_power)
        gradient_low, gradient_high = _gradient(gains.cross, at_power, slope, lowest)
        # A worker that may be silent is represented by its lowest power. The SINRs of the others
        # are raised by the reduction that this power causes.
        silent_power = np.where(regions.may_be_silent, regions.power_low, 0.0)
        received = noise_and_interference_up(gains.cross, silent_power) - 1.0
        raised = up(1 + up(up(received) / regions.least_interference(gains)))
        sinr = up(up(up(gains.direct * at_power) / lowest) * raised)
        sinr_if_silent = down(
            down(gains.direct * regions.power_low) / regions.most_interference(gains)
        )
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
            sinr_if_silent,
            rate_ends,
            draw_ends,
        )
        return self._sums(
            regions,
            columns,
            lambda worker_value, *part: _under_tangent(worker_value, _Tangent(*part)),
        )

    def _sums(
        self, regions: Regions, columns: tuple[np.ndarray, ...], value: Callable[..., arb]
    ) -> Iterator[arb]:
        """The slack plus the values of all workers that may transmit, per region.

        Args:
            regions: n regions.
            columns: arrays (n, L).
            value: maps a worker's value, whether it may be silent, and its entries of the columns
                to a bound.
        """
        columns = (regions.may_transmit, regions.may_be_silent, *columns)
        for rows in zip(*(column.tolist() for column in columns), strict=True):
            total = self._slack
            for worker_value, may_transmit, *part in zip(self._values, *rows, strict=True):
                if may_transmit:
                    total += value(worker_value, *part)
            yield total


def _gradient(cross: Floats, power: Floats, slope: Floats, lowest: Floats) -> tuple[Floats, Floats]:
    """Limits of σ_j − Σ_i σ_i β_ij p_j / (1 + Σ_k β_ik p_k), (n, L) each.

    This is ∂/∂t_j of Σ_i σ_i ln SINR_i at t = ln p; ``lowest`` is a lower bound of the denominator.
    """
    highest = noise_and_interference_up(cross, power)
    loss_low, loss_high = np.zeros_like(slope), np.zeros_like(slope)
    for i in range(slope.shape[-1]):
        sent, steep = cross[:, i] * power, slope[:, i, None]
        loss_low = down(loss_low + down(down(down(sent) * steep) / highest[:, i, None]))
        loss_high = up(loss_high + up(up(up(sent) * steep) / lowest[:, i, None]))
    return down(slope - loss_high), up(slope - loss_low)


def _at_best_ends(worker_value: WorkerValue, may_be_silent: bool, *ends: float) -> arb:
    """a PSR + b R + c EE − d at the largest SINR and the best power; 0 if silence is better.

    ``ends`` are the largest SINR, the lowest power, the power up to which R is at most
    ln(1 + gain p), this gain, and a guess of the best power.
    """
    sinr, low, top, gain, peak = map(arb, ends)
    value = worker_value.of_sinr(sinr, worker_value.rate) - worker_value.cost
    if not worker_value.efficiency.is_zero():
        at_peak = 1 + gain * peak
        rate, derivative = at_peak.log(), gain / at_peak
        at_low = worker_value.per_watt(low)
        largest = balls.larger(
            (rate + derivative * (low - peak)) * at_low,
            (rate + derivative * (top - peak)) * worker_value.per_watt(top),
        )
        value += worker_value.efficiency * largest.min(balls.rate(sinr) * at_low)
    return balls.larger(value, ZERO) if may_be_silent else value


class _Tangent(NamedTuple):
    """One worker's part of a tangent bound.

    Attributes:
        may_be_silent: whether the worker may be silent.
        slope: slope of its line in ln SINR.
        gradient_low, gradient_high: limits of the tangent's derivative in its log-power.
        sinr_low, sinr_high: limits of its SINR if it transmits.
        peak: guess of the maximiser of its value minus the line; NaN for none.
        power_low, power_high: limits of its power if it transmits, W.
        turn: guess of the maximiser of the part that depends on its power only, W.
        at_power: point of tangency, W.
        sinr: upper bound on its SINR there, raised for workers that may be silent.
        sinr_if_silent: lower bound on the SINR that represents the silent worker.
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
    sinr_if_silent: float
    rate_end: float
    draw_end: float


def _under_tangent(worker_value: WorkerValue, part: _Tangent) -> arb:
    """Largest contribution of a worker to the tangent of the sum of lines.

    R q ≤ K q + q₀ R − K q₀, with (K, q₀) at the chosen ends (McCormick). The value is therefore at
    most a PSR + (b + c q₀) R − d − c K q₀, which is bounded by a line in ln SINR, plus c K q(p).
    """
    slope = arb(part.slope)
    low = arb(part.power_low)
    per_rate, constant, factor = worker_value.rate, -worker_value.cost, ZERO
    if not worker_value.efficiency.is_zero():
        per_watt = worker_value.per_watt(arb(part.draw_end))
        factor = worker_value.efficiency * balls.rate(arb(part.rate_end))
        per_rate = per_rate + worker_value.efficiency * per_watt
        constant = constant - factor * per_watt
    intercept = constant + max_above_line(
        worker_value, per_rate, slope, arb(part.sinr_low), arb(part.sinr_high), part.peak
    )
    if part.may_be_silent:
        # The line must be at least 0, the value of a silent worker.
        rest = -factor * worker_value.per_watt(low)
        if part.slope != 0:
            rest -= slope * arb(part.sinr_if_silent).log()
        intercept = balls.larger(intercept, rest)
    if part.slope != 0:
        intercept += slope * arb(part.sinr).log()
    gradient = balls.between(part.gradient_low, part.gradient_high)
    return intercept + max_draw_terms(
        worker_value,
        gradient,
        factor,
        arb(part.at_power),
        low,
        arb(part.power_high),
        arb(part.turn),
    )
