"""Upper bounds on the Lagrangian of a channel over a region, in ball arithmetic.

Two bounds, proved in docs/proofs.md. Each worker at its best ends: the largest SINR the region
leaves it. And by a tangent: each worker's value lies under a line in ln SINR, ln SINR is concave
in the log-powers t = ln p, so the sum of the lines lies under its tangent at any point, which is
largest at a corner of the region.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from flint import arb

from feduplink.proofs import balls
from feduplink.proofs.balls import ZERO
from feduplink.proofs.outward import (
    down,
    noise_and_interference_down,
    noise_and_interference_up,
    up,
)
from feduplink.proofs.peaks import most_efficient_power, peak_power, peak_sinr
from feduplink.proofs.proof import Booleans, Floats
from feduplink.proofs.regions import Gains, Regions
from feduplink.proofs.value_maxima import highest_draw, highest_over_line
from feduplink.proofs.worker_worth import WorkerWorth


class _Prices(NamedTuple):
    """Midpoints of the prices, for guesses, (L,) each."""

    success: Floats
    rate: Floats
    efficiency: Floats
    static_power_w: Floats
    waterfall: float
    inefficiency: float

    @classmethod
    def of(cls, worths: list[WorkerWorth]) -> _Prices:
        return cls(
            np.array([float(worth.success) for worth in worths]),
            np.array([float(worth.rate) for worth in worths]),
            np.array([float(worth.efficiency) for worth in worths]),
            np.array([float(worth.static_power_w) for worth in worths]),
            float(worths[0].waterfall),
            float(worths[0].inefficiency),
        )


class LeafBounds:
    """Bounds for given prices; ``slack`` is what workers under their floor may add."""

    def __init__(self, worths: list[WorkerWorth], slack: arb) -> None:
        self._worths = worths
        self._slack = slack
        self._prices = _Prices.of(worths)

    def monotone(self, regions: Regions, gains: Gains) -> Iterator[arb]:
        """Σ_i a PSR + b R at the largest SINR + c times the largest EE − d, region by region.

        With k = α over the least noise and interference, EE ≤ ln(1 + k p) / (μ p + P_c); the
        logarithm is under its tangent at any p⁰, and what remains is monotone in p.
        """
        prices = self._prices
        gain = up(gains.direct / regions.least_received(gains))
        # From here on the rate is at its limit, and efficiency falls with more power.
        top = np.minimum(regions.power_high, up(regions.sinr_high / gain))
        top = np.maximum(top, regions.power_low)
        peak = top
        if prices.efficiency.any():
            peak = most_efficient_power(
                gain, prices.static_power_w, prices.inefficiency, regions.power_low, top
            )
        columns = (
            regions.heard,
            regions.may_rest,
            regions.sinr_high,
            regions.power_low,
            top,
            gain,
            peak,
        )
        for rows in zip(*(column.tolist() for column in columns), strict=True):
            total = self._slack
            for worth, heard, may_rest, *limits in zip(self._worths, *rows, strict=True):
                if not heard:
                    continue
                value = _at_best_ends(worth, *(arb(limit) for limit in limits))
                total += balls.larger(value, ZERO) if may_rest else value
            yield total

    def tangent(
        self,
        regions: Regions,
        gains: Gains,
        at_power: Floats,
        sinr_slope: Floats,
        upper_ends: Booleans,
    ) -> Iterator[arb]:
        """The sum of lines with ``sinr_slope`` by its tangent at ``at_power``, region by region."""
        prices, heard = self._prices, regions.heard
        at_power = np.where(heard, at_power, 0.0)
        slope = np.where(heard, sinr_slope, 0.0)
        lowest = noise_and_interference_down(gains.cross, at_power)
        gradient_low, gradient_high = _gradient(gains.cross, at_power, slope, lowest)
        # A worker that may rest is represented by its lowest power, and the others are given back
        # what that takes from them.
        resting = np.where(regions.may_rest, regions.power_low, 0.0)
        received = noise_and_interference_up(gains.cross, resting) - 1.0
        raised = up(1 + up(up(received) / regions.least_received(gains)))
        sinr = up(up(up(gains.direct * at_power) / lowest) * raised)
        at_rest = down(down(gains.direct * regions.power_low) / regions.most_received(gains))
        rate_ends = np.where(upper_ends, regions.sinr_high, regions.sinr_low)
        draw_ends = np.where(upper_ends, regions.power_high, regions.power_low)
        per_watt = 1 / (prices.inefficiency * draw_ends + prices.static_power_w)
        peak = peak_sinr(
            np.broadcast_to(prices.success, slope.shape),
            prices.rate + prices.efficiency * per_watt,
            slope,
            prices.waterfall,
            regions.sinr_low,
            regions.sinr_high,
        )
        turn = peak_power(
            (gradient_low + gradient_high) / 2,
            prices.efficiency * np.log1p(rate_ends),
            prices.static_power_w,
            prices.inefficiency,
            regions.power_low,
        )
        columns = (
            heard,
            regions.may_rest,
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
        for rows in zip(*(column.tolist() for column in columns), strict=True):
            total = self._slack
            for worth, is_heard, *limits in zip(self._worths, *rows, strict=True):
                if is_heard:
                    total += _under_tangent(worth, _Tangent(*limits))
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


def _at_best_ends(worth: WorkerWorth, sinr: arb, low: arb, top: arb, gain: arb, peak: arb) -> arb:
    """a PSR + b R + c EE − d with the SINR at most ``sinr`` and powers of ``low`` or more.

    Up to ``top`` R is at most ln(1 + gain p), and never more than that of ``sinr``.
    """
    value = worth.of_sinr(sinr, worth.rate) - worth.cost
    if worth.efficiency.is_zero():
        return value
    at_peak = 1 + gain * peak
    rate, tilt = at_peak.log(), gain / at_peak
    at_low = worth.per_watt(low)
    most = balls.larger(
        (rate + tilt * (low - peak)) * at_low,
        (rate + tilt * (top - peak)) * worth.per_watt(top),
    )
    return value + worth.efficiency * most.min(balls.rate(sinr) * at_low)


class _Tangent(NamedTuple):
    """One worker's part of a tangent bound.

    Attributes:
        may_rest: whether it may be silent.
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

    may_rest: bool
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
    if part.may_rest:
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
