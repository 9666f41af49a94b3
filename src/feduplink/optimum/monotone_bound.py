"""Upper bounds on the Lagrangian over boxes of powers, by monotonicity and by concavity.

On a box [l, u] of powers a worker's SINR is at most the one at its u_i and the others' l_j. The sum
of every worker's largest value under this SINR is an upper bound for all measures that are monotone
in SINR and power, at the cost of one matrix-vector product per box. If only rates and energy
efficiencies have prices, a second bound is tighter on small boxes: R_i = ln Z_i − ln I_i with
Z_i = I_i + α_i p_i is a difference of concave functions of the powers, bounded by tangents of the
first and chords of the second (docs/theory.md, section 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.link import SeparableMeasure
from feduplink.optimum.boxes import CrossGains, PowerBoxes
from feduplink.tensor_record import TensorRecord

#: Rounding error of a bound relative to the absolute values that are summed.
_ROUNDING = 1e-13
#: Number of points of tangency: the centre of the box, then midpoints to the corner found.
_TANGENT_POINTS = 2
#: Lower clamp of the widths of power intervals in divisions, W.
_MIN_WIDTH = 1e-300


def check_monotone(prices: Prices) -> None:
    """Check that all priced measures are known to be monotone.

    Raises:
        InputError: for the first measure that is not.
    """
    for measure, _ in prices.others:
        if measure.monotone_in_sinr is None or measure.monotone_in_power is None:
            raise InputError(
                f"certificate: no upper bound is known for the measure {measure.name}; accepted: "
                "packet success, rate, energy efficiency, and measures with monotone_in_sinr and "
                "monotone_in_power."
            )


class MonotoneBound:
    """Upper bounds on Lagrangians over boxes of powers.

    Args:
        batch: N channels.
        prices: prices of the Lagrangian, (L,) or (N, L) each.

    Raises:
        InputError: if a measure with a price is not known to be monotone.
    """

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        check_monotone(prices)
        self.batch = batch
        self.prices = prices
        self.efficient = bool((prices.efficiency > 0).any())
        #: Further measures with their prices.
        self.others: list[tuple[SeparableMeasure, Tensor]] = [*prices.others]
        if bool((prices.success != 0).any()):
            self.others.append((link.PacketSuccess(batch.waterfall), prices.success))
        for measure, price in (
            (link.Rate(), prices.rate),
            (
                link.EnergyEfficiency(batch.static_power_w, batch.amplifier_inefficiency),
                prices.efficiency,
            ),
        ):
            if bool((price < 0).any()):
                self.others.append((measure, price.clamp_max(0.0)))
        #: Whether only rates and efficiencies have prices, for which there is a tangent bound.
        self.concave = not self.others

    def on(self, boxes: PowerBoxes) -> BoundedBoxes:
        """Bound the Lagrangian over each box."""
        priced = PricedBoxes.of_channels(self, boxes)
        others, _ = priced.values_of_others(boxes.low, boxes.high)
        term = priced.terms(boxes.low, boxes.high, others)
        upper = term.sum(-1) + _ROUNDING * term.abs().sum(-1)
        return BoundedBoxes(self, boxes, priced.least, priced.most, others, term, upper)

    def without_dominated(self, boxes: PowerBoxes) -> PowerBoxes:
        """Remove powers that cannot be optimal from boxes (:meth:`PricedBoxes.best_limits`)."""
        limits = PricedBoxes.of_channels(self, boxes).best_limits()
        return PowerBoxes(boxes.channel, *limits, boxes.node)


@dataclass(frozen=True)
class PricedBoxes(TensorRecord):
    """Boxes of powers with the prices and gains of their channels.

    Attributes:
        bound: the bound of the whole batch.
        boxes: M boxes.
        least: lowest noise and interference of every worker in the box, 1 + Σ β l, (M, L).
        most: highest noise and interference, 1 + Σ β u, (M, L); equal to ``least`` if only rate and
            efficiency have prices, since it is then unused.
    """

    bound: MonotoneBound
    boxes: PowerBoxes
    least: Tensor
    most: Tensor

    @classmethod
    def of_channels(cls, bound: MonotoneBound, boxes: PowerBoxes) -> PricedBoxes:
        """Look up the gains of the boxes' channels."""
        cross = CrossGains(bound.batch.cross, boxes.channel)
        least = cross.interference(boxes.low)
        most = cross.interference(boxes.high) if bound.others else least
        return PricedBoxes(bound, boxes, least, most)

    @cached_property
    def cross(self) -> CrossGains:
        """β of the boxes' channels."""
        return CrossGains(self.bound.batch.cross, self.boxes.channel)

    @cached_property
    def direct(self) -> Tensor:
        """α of the boxes' channels, (M, L), 1/W."""
        return self.bound.batch.direct[self.boxes.channel]

    @cached_property
    def gain(self) -> Tensor:
        """k = α / (1 + Σ β l), the largest SINR per watt in the box, (M, L), 1/W."""
        return self.direct / self.least

    @cached_property
    def prices(self) -> Prices:
        """The prices of the boxes' channels, (L,) or (M, L) each."""
        return self.bound.prices.take(self.boxes.channel)

    @cached_property
    def rate(self) -> Tensor:
        """max(b, 0); a negative price of the rate belongs to the further measures."""
        return self.prices.rate.clamp_min(0.0)

    @cached_property
    def efficiency(self) -> Tensor:
        """max(c, 0); a negative price of the efficiency belongs to the further measures."""
        return self.prices.efficiency.clamp_min(0.0)

    def drawn(self, power: Tensor) -> Tensor:
        """Drawn power μ p + P_c, (M, L), W."""
        batch = self.bound.batch
        return batch.amplifier_inefficiency * power + batch.static_power_w

    def most_efficient_power(self, gain: Tensor) -> Tensor:
        """Power of the highest efficiency for ``gain``, without limit, (M, L), W."""
        batch = self.bound.batch
        return link.most_efficient_power(gain, batch.static_power_w, batch.amplifier_inefficiency)

    def terms(self, low: Tensor, high: Tensor, others: Tensor) -> Tensor:
        """Largest value of every worker over powers in [low, high].

        The other workers are at their lowest powers.

        Args:
            low: lower limits of the powers, (M, L), W.
            high: upper limits, (M, L), W.
            others: largest value of further measures, (M, L).

        Returns:
            (M, L).
        """
        best = high
        if self.prices.power_cost is not None:
            # Zero of ∂/∂p (b ln(1 + k p) − e p).
            peak = self.rate / self.prices.power_cost - 1 / self.gain
            best = torch.minimum(torch.maximum(peak, low), high)
        term = self.rate * torch.log1p(self.gain * best)
        if self.prices.power_cost is not None:
            term -= self.prices.power_cost * best
        if self.bound.efficient:
            term += self.efficiency * self._efficiency(low, high)
        term += others
        term = torch.where(low > 0, term, term.clamp_min(0.0))
        return torch.where(high > 0, term, 0.0)

    def values_of_others(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Largest and smallest value of −d and all further measures in the box, (M, L) each."""
        bound = self.bound
        best = -self.prices.activation_cost.expand_as(self.gain)
        worst = best
        sinr, power = (self.direct * low / self.most, self.gain * high), (low, high)
        for measure, price in bound.others:
            price = price[self.boxes.channel] if price.ndim > 1 else price
            in_sinr, in_power = measure.monotone_in_sinr or 0, measure.monotone_in_power or 0
            most = price * measure.value(sinr[in_sinr >= 0], power[in_power >= 0])
            least = price * measure.value(sinr[in_sinr < 0], power[in_power < 0])
            best = best + torch.where(price > 0, most, least)
            worst = worst + torch.where(price > 0, least, most)
        return best, worst

    def _efficiency(self, low: Tensor, high: Tensor) -> Tensor:
        """Bound ln(1 + k p) / (μ p + P_c) over [low, high], (M, L).

        The logarithm is at most its tangent at any p⁰, and a quotient of affine functions attains
        its maximum at an end of the interval. The bound is exact for p⁰ at the maximiser, or at the
        end of the interval nearest to it.
        """
        at = torch.minimum(torch.maximum(self.most_efficient_power(self.gain), low), high)
        slope = self.gain / (1 + self.gain * at)
        start = torch.log1p(self.gain * at) - slope * at
        return torch.maximum(
            (start + slope * low) / self.drawn(low), (start + slope * high) / self.drawn(high)
        )

    def best_limits(self) -> tuple[Tensor, Tensor]:
        """Limits of the boxes without dominated powers, for rates and efficiencies only.

        If the rate of a worker has no price, power beyond the most efficient one at the highest
        interference of the box lowers its value and that of all others.

        Returns:
            Lower and upper limits, (M, L) each, W.
        """
        if not self.bound.efficient:
            return self._best_limits_of_rates()
        low, high = self.boxes.low, self.boxes.high
        most = self.cross.interference(high)
        peak = self.most_efficient_power(self.direct / most)
        least = torch.minimum(high, torch.maximum(low, peak * (1 + 1e-9)))
        return low, torch.where(self.rate > 0, high, least)

    def _best_limits_of_rates(self) -> tuple[Tensor, Tensor]:
        """The limits if only rates have prices.

        If the weighted sum rate increases in p_j over the whole box, its maximum is at the upper
        limit; if it decreases, at the lower limit or in silence. The terms of its derivative

            ∂/∂p_j = b_j α_j / Z_j − Σ_i b_i β_ij α_i p_i / (I_i Z_i) − e_j

        are bounded separately.
        """
        rate, boxes = self.rate, self.boxes
        low, high = boxes.low, boxes.high
        most = self.cross.interference(high)
        own_low, own_high = self.direct * low, self.direct * high
        interference_slope = rate * own_high / (self.least * (self.least + own_high))
        slope_low = rate * self.direct / (most + own_high) - self.cross.from_worker(
            interference_slope
        )
        interference_slope = rate * own_low / (most * (most + own_low))
        slope_high = rate * self.direct / (self.least + own_low) - self.cross.from_worker(
            interference_slope
        )
        if self.prices.power_cost is not None:
            slope_low, slope_high = (
                slope_low - self.prices.power_cost,
                slope_high - self.prices.power_cost,
            )
        free = self.prices.activation_cost <= 0
        rises = (slope_low > 0) & (free | (low > 0))
        falls = slope_high < 0
        return torch.where(rises, high, low), torch.where(falls & ~rises, low, high)


@dataclass(frozen=True)
class BoundedBoxes(PricedBoxes):
    """Boxes of powers with the monotone bound on the Lagrangian.

    Attributes:
        others: largest value of −d and of further measures in the box, (M, L).
        term: largest value of every worker's part of the Lagrangian, (M, L).
        upper: sum of the terms, the bound, (M,).
    """

    others: Tensor
    term: Tensor
    upper: Tensor

    def raised_low(self, threshold: Tensor) -> Tensor:
        """Lower limits of the powers below which the bound is at most a threshold.

        With u_i lowered to x, the term of worker i is at most

            (b + c / (μ l_i + P_c)) ln(1 + k_i x) − e l_i

        plus that of other measures, and the terms of the others do not increase.

        Args:
            threshold: (M,).

        Returns:
            (M, L), W.
        """
        boxes, per_rate = self.boxes, self.rate
        if self.bound.efficient:
            per_rate = per_rate + self.efficiency / self.drawn(boxes.low)
        needed = (threshold - self.upper)[:, None] + self.term
        # The limit stays 0 if silence, of value 0, may be above the threshold.
        useful = (per_rate > 0) & ((boxes.low > 0) | (needed > 0)) & (boxes.high > 0)
        available = needed - self.others
        if self.prices.power_cost is not None:
            available = available + self.prices.power_cost * boxes.low
        exponent = available / torch.where(per_rate > 0, per_rate, 1.0)
        raised = torch.expm1(exponent * (1 - 1e-12)) / self.gain
        raised = torch.where(useful & (exponent > 0), raised, boxes.low)
        return torch.minimum(torch.maximum(raised, boxes.low), boxes.high)

    def tangent(self) -> tuple[Tensor, Tensor]:
        """Bound by tangents and chords, (M,), and the corner at which it is attained, (M, L) W."""
        low, high = self.boxes.low, self.boxes.high
        width = torch.where(high > low, high - low, 1.0).clamp_min(_MIN_WIDTH)
        most = self.cross.interference(high)
        weight, constant, own_slope = self._rate_weights(low, high, width, most)
        span = (most - self.least) / self.least
        chord = torch.where(span > 0, torch.log1p(span) / span, 1.0) / self.least
        received = weight * chord
        fixed = constant + weight * (chord * (self.least - 1) - self.least.log())
        slope = own_slope - self.cross.from_worker(received)
        # The rounding error is relative to the terms of the sum, which may cancel.
        sizes = (self.rate + self.efficiency / self.bound.batch.static_power_w) * (
            1 + most.log() + torch.log1p(self.gain * high)
        )
        sizes = sizes + self.prices.activation_cost.abs()
        if self.prices.power_cost is not None:
            sizes = sizes + self.prices.power_cost * high
        rounding = _ROUNDING * sizes.sum(-1)
        upper = torch.full_like(self.upper, torch.inf)
        at = (low + high) / 2
        corner = at
        for _ in range(_TANGENT_POINTS):
            total = self.cross.interference(at) + self.direct * at
            per_total = weight / total
            gradient = slope + self.cross.from_worker(per_total) + self.direct * per_total
            corner = torch.where(gradient > 0, high, low)
            parts = weight * (total.log() - 1) + per_total + fixed + gradient * corner
            upper = torch.minimum(upper, parts.sum(-1) + rounding)
            at = (at + corner) / 2
        return upper, corner

    def _rate_weights(
        self, low: Tensor, high: Tensor, width: Tensor, most: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Weights w, constants c and slopes k such that Σ (w R + c + k p) is an upper bound."""
        cost = self.prices.activation_cost
        # −d for a worker that transmits, and the line from 0 to −d if it may be silent.
        transmits = low > 0
        constant = torch.where(transmits, -cost, 0.0)
        slope = torch.where(transmits, 0.0, -cost / width)
        if self.prices.power_cost is not None:
            slope = slope - self.prices.power_cost
        if not self.bound.efficient:
            return self.rate.expand_as(low), constant, slope
        # McCormick for R q, with the chord of q = 1 / (μ p + P_c), which is convex in p.
        q_high, q_low = 1 / self.drawn(low), 1 / self.drawn(high)
        rate_low = torch.log1p(self.direct * low / most)
        rate_high = torch.log1p(self.gain * high)
        middle = torch.log1p(self.direct * (low + high) / (self.least + most))
        q = 1 / self.drawn((low + high) / 2)
        use_low = (q_high - q) * (middle - rate_low) <= (q - q_low) * (rate_high - middle)
        factor = self.efficiency * torch.where(use_low, rate_low, rate_high)
        base = torch.where(use_low, q_high, q_low)
        falling = (q_low - q_high) / width
        constant = constant + factor * (q_high - base - falling * low)
        return self.rate + self.efficiency * base, constant, slope + factor * falling

    def _tangent_error(self) -> Tensor:
        """Estimate the error of the tangent bound due to each worker's interval of powers, (M, L).

        Each chord of ln I adds w (ΔI / I)² / 8, McCormick's planes up to c ΔR Δq / 2.
        """
        low, high = self.boxes.low, self.boxes.high
        most = self.cross.interference(high)
        span = (most - self.least) / self.least
        q_high, q_low = 1 / self.drawn(low), 1 / self.drawn(high)
        drop = self.efficiency * (q_high - q_low)
        weight = self.rate + self.efficiency * q_high
        interference_slope = (weight * span / 4 + drop / 2) / self.least
        own = torch.log1p(self.gain * high) - torch.log1p(self.direct * low / most)
        return self.cross.from_worker(interference_slope) * (high - low) + drop * own

    def loosest(self, by_tangents: Tensor) -> tuple[Tensor, Tensor]:
        """Choose the split that lowers the bounds of the halves most.

        The lower half lowers the worker's own term. The upper half lowers those of the others, by
        Σ_i ∂term_i/∂ln I_i β_ij (x − l_j) / I_i; for other measures, whose slopes are unknown, the
        variation over the box is used. Powers are split at the geometric mean of the limits, each
        increased by the power at which the SINR is 1. Boxes of energy efficiencies for which the
        tangent bound is the best are split in the middle, where that bound improves most.

        Args:
            by_tangents: whether the tangent bound is the best one, (M,) bool.

        Returns:
            Worker (M,), and power of the split (M,) in W.
        """
        bound, low, high = self.bound, self.boxes.low, self.boxes.high
        unit = 1 / self.gain
        middle = ((low + unit) * (high + unit)).sqrt() - unit
        middle = torch.minimum(torch.maximum(middle, low + 0.1 * (high - low)), (low + high) / 2)
        others = self.values_of_others(low, middle)[0] if bound.others else self.others
        improvement = self.term - self.terms(low, middle, others)
        per_rate = self.rate
        if bound.efficient or bound.others:
            others = self.values_of_others(middle, high)[0] if bound.others else self.others
            improvement = improvement + self.term - self.terms(middle, high, others)
        if bound.efficient:
            per_rate = per_rate + self.efficiency / self.drawn(low)
        sinr = self.gain * high
        interference_slope = per_rate * sinr / (1 + sinr) / self.least
        if bound.others:
            best, worst = self.values_of_others(low, high)
            interference_slope = interference_slope + (best - worst) / self.most
        improvement = improvement + self.cross.from_worker(interference_slope) * (middle - low)
        if bound.efficient:
            tight = by_tangents[:, None]
            improvement = torch.where(tight, self._tangent_error(), improvement)
            middle = torch.where(tight, (low + high) / 2, middle)
        improvement = torch.where(high > low, improvement, -torch.inf)
        worker = improvement.argmax(-1)
        return worker, middle.gather(-1, worker[:, None])[:, 0]
