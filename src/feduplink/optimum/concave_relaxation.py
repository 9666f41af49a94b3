"""The concave relaxation of the Lagrangian over boxes of log-powers and log-SINRs.

With t = ln p every s_i = ln SINR_i is concave in t. On a box the value of each worker is bounded
above by a concave non-decreasing function of s_i plus a concave function of t_i, so that the sum is
concave in t. A concave function is at most its linearisation at any point, whose maximum over a box
has a closed form. The bound is therefore valid for any point of linearisation, and tight at the
maximiser of the relaxation, which a few Newton steps approach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian import ChannelBatch, Prices, log_power_derivatives
from feduplink.lagrangian.maximiser import LONGEST_STEP, newton_step
from feduplink.link import Slopes
from feduplink.optimum.boxes import Bounds, Boxes
from feduplink.optimum.branch_and_bound import Tangents
from feduplink.optimum.envelope import DrawEnvelope, Envelope, WorkerValue
from feduplink.proofs.format import Node
from feduplink.tensor_record import TensorRecord

#: Width of intervals of s and t below which they are not split.
_MIN_WIDTH = 1e-3
#: Step of the weights of McCormick's planes.
_WEIGHT_STEP = 0.25
#: Bisections of the search for limits of s.
_CUT_BISECTIONS = 5


@dataclass(frozen=True)
class Linearised(TensorRecord):
    """Linearisations of M relaxations, each at a point of its box.

    Attributes:
        upper: largest value of the linearisation over the box, (M,).
        value: value of the relaxation at the point, (M,).
        log_power: the point ln p, (M, L); 0 for silent workers, never used.
        power: the point, (M, L), W; 0 for silent workers.
        log_sinr: ln SINR at the point, raised for workers that may be silent, (M, L).
        line, slope: value and slope ≥ 0 of every worker's line in ln SINR, (M, L).
        worker: every worker's part of the value, (M, L).
        gradient: gradient in ln p, (M, L).
    """

    upper: Tensor
    value: Tensor
    log_power: Tensor
    power: Tensor
    log_sinr: Tensor
    line: Tensor
    slope: Tensor
    worker: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class McCormick(TensorRecord):
    """An upper bound on EE = R q over intervals of R and of q = 1 / (μ p + P_c).

    R q is at most each of McCormick's planes, R⁻ q + q⁺ R − R⁻ q⁺ and R⁺ q + q⁻ R − R⁺ q⁻, and so
    at most every weighted mean of the two. Tensors are (M, L).

    Attributes:
        rate_low, rate_high: R⁻ and R⁺, nats/s/Hz.
        q_low, q_high: q⁻ and q⁺, 1/W.
        upper_weight: weight of the second plane in [0, 1].
    """

    rate_low: Tensor
    rate_high: Tensor
    q_low: Tensor
    q_high: Tensor
    upper_weight: Tensor

    def plane(self) -> tuple[Tensor, Tensor, Tensor]:
        """The weighted mean r q + q⁰ R − c of the planes: r, q⁰ and c, (M, L) each."""
        lower_weight = 1 - self.upper_weight
        rate = lower_weight * self.rate_low + self.upper_weight * self.rate_high
        constant = lower_weight * self.rate_low * self.q_high
        constant = constant + self.upper_weight * self.rate_high * self.q_low
        base = lower_weight * self.q_high + self.upper_weight * self.q_low
        return rate, base, constant

    def balanced_weight(self, rate: Tensor, q: Tensor, *, whole: bool) -> Tensor:
        """Weight moved towards equality of the errors of both planes at (R, q), (M, L).

        The bound is smallest where the errors are equal.

        Args:
            rate: R, (M, L); clipped to its interval.
            q: (M, L).
            whole: put all weight on the plane with the smaller error instead.
        """
        rate = torch.minimum(torch.maximum(rate, self.rate_low), self.rate_high)
        lower_error = (self.q_high - q) * (rate - self.rate_low)
        upper_error = (self.rate_high - rate) * (q - self.q_low)
        if whole:
            return (lower_error > upper_error).to(rate)
        total = lower_error + upper_error
        step = torch.where(total > 0, (lower_error - upper_error) / total, 0.0)
        return (self.upper_weight + _WEIGHT_STEP * step).clamp(0.0, 1.0)


@dataclass(frozen=True)
class RelaxedBoxes(TensorRecord):
    """The concave relaxation of the Lagrangian over M boxes.

    A worker that may be silent is represented by at least its lowest power, which it does not
    transmit when silent. The ln SINR of the other workers is therefore raised by the largest
    reduction that this power causes.

    Attributes:
        batch: the channel of every box.
        prices: prices of the Lagrangian.
        boxes: M boxes.
        slack: bound on the total value of workers that transmit below their floor.
        raised_by: increase of ln SINR of worker i for a worker j that may be silent, (M, L, L).
        efficiency: the planes above EE = R q.
        q_factor: c times the slope of their mean in q, (M, L).
        q_base: the slope of their mean in R, (M, L).
        shift: c times the constant of their mean at q = ``q_base``, (M, L).
        draw: concave envelope of q in ln p.
        envelope: concave envelope of a worker's value in ln SINR.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"prices"})

    batch: ChannelBatch
    prices: Prices
    boxes: Boxes
    slack: float
    raised_by: Tensor
    efficiency: McCormick
    q_factor: Tensor
    q_base: Tensor
    shift: Tensor
    draw: DrawEnvelope
    envelope: Envelope

    @classmethod
    def of_boxes(
        cls,
        batch: ChannelBatch,
        prices: Prices,
        boxes: Boxes,
        upper_weight: Tensor,
        negligible: float,
    ) -> RelaxedBoxes:
        """Relax the Lagrangian over boxes.

        Args:
            batch: the channel of every box, M rows.
            prices: prices of the Lagrangian.
            boxes: M boxes.
            upper_weight: weights of McCormick's upper planes, (M, L) in [0, 1].
            negligible: bound on the value of a worker below its floor.
        """
        t_low, t_high = boxes.t_low, torch.maximum(boxes.t_high, boxes.t_low)
        lowest, highest = t_low.exp(), t_high.exp()
        certain_power = torch.where(boxes.may_be_silent | boxes.silent, 0.0, lowest)
        least = batch.interference(certain_power)
        silent_power = torch.where(boxes.may_be_silent, lowest, 0.0)
        raised_by = torch.log1p(batch.cross * silent_power[:, None, :] / least[..., None])

        efficiency = McCormick(
            rate_low=link.rate_from_log(boxes.s_low),
            rate_high=link.rate_from_log(boxes.s_high),
            q_low=_q(batch, highest),
            q_high=_q(batch, lowest),
            upper_weight=upper_weight,
        )
        rate, q_base, constant = efficiency.plane()
        q_factor = prices.efficiency * rate
        shift = prices.efficiency * (rate * q_base - constant)
        draw = DrawEnvelope.on_interval(
            batch.static_power_w, batch.amplifier_inefficiency, t_low, t_high
        )
        value = WorkerValue(
            prices.success.expand_as(q_base),
            prices.rate + prices.efficiency * q_base,
            prices.activation_cost - shift,
            batch.waterfall,
        )
        most = batch.interference(torch.where(boxes.silent, 0.0, highest))
        lowest_s = batch.direct.log() + boxes.t_low - most.log()
        low = torch.where(boxes.may_be_silent, torch.minimum(lowest_s, boxes.s_low), boxes.s_low)
        silent_value = -q_factor * (efficiency.q_high - q_base)
        floor = torch.where(boxes.may_be_silent, silent_value, -math.inf)
        envelope = Envelope.on_interval(value, low, boxes.s_high, floor)
        slack = negligible * boxes.silent.shape[-1]
        return cls(
            batch,
            prices,
            boxes,
            slack,
            raised_by,
            efficiency,
            q_factor,
            q_base,
            shift,
            draw,
            envelope,
        )

    @cached_property
    def may_transmit(self) -> Tensor:
        """Whether a worker may transmit, (M, L) bool."""
        return ~self.boxes.silent

    @cached_property
    def t_high(self) -> Tensor:
        """Upper limit of ln p, at least the lower one, (M, L)."""
        return torch.maximum(self.boxes.t_high, self.boxes.t_low)

    @cached_property
    def lowest(self) -> Tensor:
        """Lower limit of the powers, (M, L), W."""
        return self.boxes.t_low.exp()

    @cached_property
    def highest(self) -> Tensor:
        """Upper limit of the powers, (M, L), W."""
        return self.t_high.exp()

    @cached_property
    def log_direct(self) -> Tensor:
        """ln α, (M, L)."""
        return self.batch.direct.log()

    @cached_property
    def raised(self) -> Tensor:
        """Total increase of every worker's ln SINR, (M, L)."""
        return self.raised_by.sum(-1)

    def balanced_weight(self, at: Linearised, *, whole: bool) -> Tensor:
        """Weights of McCormick's planes adapted to the point of a linearisation, (M, L)."""
        rate = link.rate_from_log(at.log_sinr)
        q = _q(self.batch, torch.where(self.may_transmit, at.power, self.highest))
        return self.efficiency.balanced_weight(rate, q, whole=whole)

    def inside(self, power: Tensor) -> Tensor:
        """Clip powers (M, L) W to the boxes."""
        moved = torch.minimum(torch.maximum(power, self.lowest), self.highest)
        return torch.where(self.may_transmit, moved, 0.0)

    def powers(self, log_power: Tensor) -> Tensor:
        """Powers e^t clipped to the boxes, (M, L), W."""
        return self.inside(log_power.exp())

    def _cost(self, power: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cost of further measures, with its first two derivatives in ln p, (M, L) each."""
        transmits = power > 0
        sent, sinr = torch.where(transmits, power, 1.0), torch.ones_like(power)
        cost = slope = curvature = torch.zeros_like(power)
        for measure, price in self.prices.others:
            slopes = measure.slopes(sinr, sent)
            cost = cost - torch.where(transmits, price * measure.value(sinr, sent), 0.0)
            slope = slope - torch.where(transmits, price * slopes.t, 0.0)
            curvature = curvature - torch.where(transmits, price * slopes.tt, 0.0)
        return cost, slope, curvature

    def _charge(self, power: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for workers that must transmit; 0 for those that may be silent."""
        charged = self.may_transmit & ~self.boxes.may_be_silent
        return self._cost(torch.where(charged, power, 0.0))

    def expand(self, power: Tensor) -> tuple[Linearised, Tensor]:
        """Linearise the relaxation, which gives a bound at any power.

        Args:
            power: point of linearisation, (M, L), W.

        Returns:
            The linearisation, and the Hessian of the relaxation in ln p, (M, L, L).
        """
        interference = self.batch.interference(power)
        t = _log(power)
        s = self.log_direct + t - interference.log() + self.raised
        value, slope, curvature = self.envelope.at(s)
        line = self.envelope.affine(s, value)
        draw, draw_slope, draw_curvature = self.draw.at(t)
        draw_value = self.q_factor * (draw - self.q_base)
        mask = self.may_transmit.to(power)
        factor = mask * self.q_factor
        slopes = Slopes(
            s=mask * slope,
            ss=mask * curvature,
            t=factor * draw_slope,
            st=torch.zeros_like(power),
            tt=factor * draw_curvature,
        )
        if self.prices.others:
            cost, cost_slope, cost_curvature = self._charge(power)
            draw_value = draw_value - cost
            slopes = replace(slopes, t=slopes.t - cost_slope, tt=slopes.tt - cost_curvature)
        gradient, hessian = log_power_derivatives(self.batch, power, interference, slopes)
        reach = torch.maximum(gradient * (self.t_high - t), gradient * (self.boxes.t_low - t))
        worker = line + draw_value
        upper = (mask * (worker + reach)).sum(-1) + self.slack
        value = (mask * (value + draw_value)).sum(-1)
        linearised = Linearised(upper, value, t, power, s, line, slopes.s, worker, gradient)
        return linearised, hessian

    def at_best_ends(self) -> Tensor:
        """Bound Σ φ_i by the largest SINR and the lowest power of every worker, (M,)."""
        prices, s = self.prices, self.boxes.s_high
        success = link.success_at(s, self.batch.waterfall, prices.success)[0]
        per_rate = prices.rate + prices.efficiency * _q(self.batch, self.lowest)
        ends = success + per_rate * link.rate_from_log(s) - prices.activation_cost
        if prices.others:
            ends = ends - self._charge(self.lowest)[0]
        ends = torch.where(self.boxes.may_be_silent, ends.clamp_min(0.0), ends)
        return torch.where(self.may_transmit, ends, 0.0).sum(-1) + self.slack

    def reduced(self, at: Linearised, threshold: Tensor) -> tuple[Boxes, Tensor]:
        """Cut off the parts of the boxes where the bound is below a threshold.

        The value of a worker falls below its line with the distance of its ln SINR to the point of
        contact with the envelope, and the linearisation is linear in every log-power. The box is
        cut where this decrease exceeds the difference of bound and threshold.

        Args:
            at: linearisations of the boxes.
            threshold: (M,).

        Returns:
            The boxes, and which of them changed, (M,) bool.
        """
        boxes = self.boxes
        excess = (at.upper - threshold)[:, None]
        needed = excess * (1 + 1e-9) + 1e-12

        def is_below(s: Tensor) -> Tensor:
            return at.line + at.slope * (s - at.log_sinr) - self.envelope.inside(s)[0] >= needed

        touching = torch.minimum(torch.maximum(at.log_sinr, boxes.s_low), boxes.s_high)
        limits = []
        for end in (boxes.s_low, boxes.s_high):
            outer, inner, cut = end, touching, is_below(end)
            for _ in range(_CUT_BISECTIONS):
                middle = (outer + inner) / 2
                is_cut = is_below(middle)
                outer, inner = (
                    torch.where(is_cut, middle, outer),
                    torch.where(is_cut, inner, middle),
                )
            limits.append(torch.where(cut, outer, end))
        reach = needed / at.gradient.abs().clamp_min(1e-30)
        t_low = torch.where(at.gradient > 0, boxes.t_high - reach, boxes.t_low)
        t_high = torch.where(at.gradient < 0, boxes.t_low + reach, boxes.t_high)
        limits += [torch.maximum(t_low, boxes.t_low), torch.minimum(t_high, boxes.t_high)]
        applies = (excess > 0) & self.may_transmit
        old = (boxes.s_low, boxes.s_high, boxes.t_low, boxes.t_high)
        s_low, s_high, t_low, t_high = (
            torch.where(applies, new, limit) for new, limit in zip(limits, old, strict=True)
        )
        narrower = (s_low > boxes.s_low) | (s_high < boxes.s_high)
        narrower |= (t_low > boxes.t_low) | (t_high < boxes.t_high)
        reduced = replace(boxes, s_low=s_low, s_high=s_high, t_low=t_low, t_high=t_high)
        return reduced, narrower.any(-1)

    def split(self, at: Linearised, boxes: Boxes) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Choose the split that tightens the bound most.

        Args:
            at: linearisations of the boxes.
            boxes: the reduced boxes.

        Returns:
            Worker, :class:`Node` and point of the split, (M,) each, and the powers at the point of
            linearisation, (M, L) W, 0 for workers with a negative value.
        """
        s, power, prices = at.log_sinr, at.power, self.prices
        relaxed_value = self.envelope.value.at(s)[0]
        rate = link.rate_from_log(s)
        true_value = relaxed_value - self.shift
        true_value = true_value + prices.efficiency * rate * (_q(self.batch, power) - self.q_base)
        if prices.others:
            true_value = true_value - self._cost(power)[0]
        is_silent = boxes.may_be_silent & (true_value <= 0)
        # Errors of the bound: of the envelope in s, of the efficiency's plane in t, and of the
        # raised SINR of the others if this worker may be silent.
        sinr_error = at.line - torch.where(is_silent, 0.0, relaxed_value)
        power_error = at.worker - torch.where(is_silent, 0.0, true_value) - sinr_error
        silence_error = (self.raised_by.mT @ at.slope[..., None])[..., 0]
        fixed = (boxes.s_high - boxes.s_low < _MIN_WIDTH) & (
            boxes.t_high - boxes.t_low < _MIN_WIDTH
        )
        splittable = self.may_transmit & (boxes.may_be_silent | ~fixed)
        error = torch.where(splittable, sinr_error + power_error + silence_error, -math.inf)
        chosen = error.argmax(-1, keepdim=True)

        def of(values: Tensor) -> Tensor:
            return values.gather(-1, chosen)[:, 0]

        # Silence is decided first, then the SINR unless the error of the power is much larger.
        split_silence = of(boxes.may_be_silent)
        split_power = (of(power_error) > 2 * of(sinr_error)) | (
            of(boxes.s_high - boxes.s_low) < _MIN_WIDTH
        )
        low = torch.where(split_power, of(boxes.t_low), of(boxes.s_low))
        high = torch.where(split_power, of(boxes.t_high), of(boxes.s_high))
        margin = 0.3 * (high - low)
        point = torch.where(split_power, of(_log(power)), of(s))
        point = torch.minimum(torch.maximum(point, low + margin), high - margin)
        split_by = torch.where(
            split_silence, Node.BY_SILENCE, torch.where(split_power, Node.BY_POWER, Node.BY_SINR)
        )
        return chosen[:, 0], split_by, point, torch.where(is_silent, 0.0, power)


def _log(power: Tensor) -> Tensor:
    """ln p; 0 for silent workers, never used."""
    return torch.where(power > 0, power, 1.0).log()


def _q(batch: ChannelBatch, power: Tensor) -> Tensor:
    """1 / (μ p + P_c), (M, L)."""
    return link.inverse_draw(power, batch.static_power_w, batch.amplifier_inefficiency)[0]


#: Factor on the step length after a step that did not increase the relaxation.
_BACKTRACKING = 0.25
#: Distance of a log-power to its limit below which the limit is active.
_LIMIT_TOLERANCE = 1e-12


def ascend(relaxed: RelaxedBoxes, guess: Tensor, steps: int) -> Linearised:
    """Maximise relaxations by Newton steps, and linearise them at the best point.

    Each step evaluates value, gradient and Hessian once; a step that does not increase the value is
    followed by a shorter one.

    Args:
        relaxed: M relaxations.
        guess: starting points, (M, L), W; clipped to the boxes.
        steps: number of Newton steps.

    Returns:
        Linearisations at the best points.
    """
    highest, hessian = relaxed.expand(relaxed.inside(guess))
    direction = _direction(relaxed, highest, hessian)
    for steps_left in reversed(range(steps)):
        trial, hessian = relaxed.expand(relaxed.powers(highest.log_power + direction))
        better = trial.value > highest.value
        highest = highest.where(better, trial)
        if steps_left:
            from_trial = _direction(relaxed, trial, hessian)
            direction = torch.where(better[:, None], from_trial, _BACKTRACKING * direction)
    return highest


def _direction(relaxed: RelaxedBoxes, at: Linearised, hessian: Tensor) -> Tensor:
    """Newton step of ln p within the box, (M, L)."""
    down = (relaxed.boxes.t_low - at.log_power).clamp_min(-LONGEST_STEP)
    up = (relaxed.t_high - at.log_power).clamp_max(LONGEST_STEP)
    gradient = at.gradient
    at_active_bound = ((up <= _LIMIT_TOLERANCE) & (gradient > 0)) | (
        (down >= -_LIMIT_TOLERANCE) & (gradient < 0)
    )
    return newton_step(-hessian, gradient, relaxed.may_transmit & ~at_active_bound, down, up)


#: Value of a worker that transmits at its floor, relative to the sum of all weights.
_FLOOR_VALUE = 1e-8
_NEWTON_STEPS = 5
#: Rounding error of limits: intervals whose ends cross by less are not empty.
_ROUNDING = 1e-9


def has_relaxation(prices: Prices) -> bool:
    """Whether the relaxation is an upper bound at these prices.

    It requires lower limits on packet success, rate and energy efficiency, upper limits on measures
    that are convex functions of ln p alone, and no price on power itself.
    """
    if prices.power_cost is not None:
        return False
    usual = (prices.success, prices.rate, prices.efficiency)
    return not any(bool((price < 0).any()) for price in usual) and all(
        measure.convex_in_log_power and not bool((price > 0).any())
        for measure, price in prices.others
    )


class Relaxation:
    """Upper bounds on the Lagrangians of a batch of channels at given prices.

    Args:
        batch: N channels.
        prices: prices of the Lagrangian.
        recorded: whether a proof will contain the bounds. Products are then bounded by one of
            McCormick's planes instead of a mean, and boxes are not cut.

    Attributes:
        floor: ln SINR below which transmitting has at most a negligible value, (L,).
        negligible: that value.
    """

    def __init__(self, batch: ChannelBatch, prices: Prices, *, recorded: bool = False) -> None:
        self.recorded = recorded
        self.batch = batch
        self.prices = prices
        self.log_direct = batch.direct.log()
        price_sum = prices.success + prices.rate + prices.efficiency / batch.static_power_w
        self.negligible = _FLOOR_VALUE * float(price_sum.sum() + 1)
        self.floor = self._floor()

    def _floor(self) -> Tensor:
        """ln SINR below which transmitting has at most a negligible value, (L,).

        In an optimum no worker has a negative value, since it could be silenced without harm to
        others. The value is at most a ψ(s) + (b + c/P_c) ρ(s) − d.
        """
        best = WorkerValue(
            self.prices.success,
            self.prices.rate + self.prices.efficiency / self.batch.static_power_w,
            self.prices.activation_cost,
            self.batch.waterfall,
        )
        low = torch.full_like(self.prices.activation_cost, -60.0)
        high = torch.full_like(self.prices.activation_cost, 60.0)
        for _ in range(80):
            middle = (low + high) / 2
            is_negligible = best.at(middle)[0] <= self.negligible
            low, high = (
                torch.where(is_negligible, middle, low),
                torch.where(is_negligible, high, middle),
            )
        return low

    def roots(self) -> Boxes:
        """One box per channel: each worker silent or above its floor."""
        shape = self.batch.direct.shape
        floor = self.floor.expand(shape)
        top = self.batch.pmax_w.log().expand(shape)
        return Boxes(
            channel=torch.arange(shape[0], device=floor.device),
            t_low=floor - self.log_direct,
            t_high=top,
            s_low=floor,
            s_high=self.log_direct + top,
            may_be_silent=torch.ones(shape, dtype=torch.bool, device=floor.device),
            silent=torch.zeros(shape, dtype=torch.bool, device=floor.device),
            node=torch.arange(shape[0], device=floor.device),
        )

    def tightened(self, boxes: Boxes) -> tuple[Boxes, Tensor]:
        """Propagate the limits of s and t into each other.

        Returns:
            The boxes with tighter limits, and which of them are empty, (M,) bool.
        """
        cross = self.batch.cross[boxes.channel]
        log_direct = self.log_direct[boxes.channel]
        t_low, t_high = boxes.t_low, boxes.t_high
        s_low, s_high = boxes.s_low, boxes.s_high
        may_be_silent, silent = boxes.may_be_silent, boxes.silent
        for _ in range(2):
            transmits = ~may_be_silent & ~silent
            least = link.interference(cross, torch.where(transmits, t_low.exp(), 0.0))
            most = link.interference(cross, torch.where(silent, 0.0, t_high.exp()))
            s_high = torch.minimum(s_high, log_direct + t_high - least.log())
            s_low = torch.where(
                transmits, torch.maximum(s_low, log_direct + t_low - most.log()), s_low
            )
            t_low = torch.maximum(t_low, s_low + least.log() - log_direct)
            t_high = torch.minimum(t_high, s_high + most.log() - log_direct)
            # A worker below its floor has a negligible value and may be silenced.
            contradiction = (
                (t_low > t_high + _ROUNDING)
                | (s_low > s_high + _ROUNDING)
                | (may_be_silent & (s_high <= self.floor))
            )
            silent = silent | (contradiction & may_be_silent)
            may_be_silent = may_be_silent & ~contradiction
        empty = (contradiction & ~may_be_silent & ~silent).any(-1)
        tight = Boxes(
            boxes.channel, t_low, t_high, s_low, s_high, may_be_silent, silent, boxes.node
        )
        return tight, empty

    def bound(
        self, boxes: Boxes, guess: Tensor, upper_weight: Tensor, threshold: Tensor
    ) -> tuple[Bounds, Tensor]:
        """Bound the Lagrangian over each box.

        Args:
            boxes: M boxes.
            guess: starting points of the maximisation of the relaxation, (M, L), W.
            upper_weight: weights of McCormick's upper planes, (M, L) in [0, 1].
            threshold: boxes with a bound below it, (M,), are not split; the parts of other boxes
                where the bound is below it are cut off.

        Returns:
            The bounds over the boxes with tighter limits, and which boxes were cut, (M,) bool.
        """
        boxes, empty = self.tightened(boxes)
        relaxed = RelaxedBoxes.of_boxes(
            self.batch.take(boxes.channel), self.prices, boxes, upper_weight, self.negligible
        )
        at = ascend(relaxed, guess, _NEWTON_STEPS)
        # The bound by monotonicity is tighter where the linearisation is far above the relaxation.
        monotone = relaxed.at_best_ends()
        proof = torch.where(at.upper < monotone, Node.TANGENT, Node.MONOTONE).to(torch.int8)
        upper = torch.where(empty, -math.inf, torch.minimum(at.upper, monotone))
        proof = torch.where(empty, Node.EMPTY, proof)
        tangents = Tangents(at.log_power, at.slope, upper_weight > 0)
        power, weight = at.power.clone(), upper_weight.clone()
        worker, split_at = torch.zeros_like(boxes.channel), torch.zeros_like(upper)
        split_by = torch.full_like(boxes.channel, Node.BY_SILENCE)
        cut = torch.zeros_like(empty)
        rows = (upper > threshold).nonzero()[:, 0]
        if len(rows):
            relaxed, at = relaxed.take(rows), at.take(rows)
            reduced = relaxed.boxes
            if not self.recorded:
                reduced, cut[rows] = relaxed.reduced(at, threshold[rows])
                boxes = boxes.with_rows(rows, reduced)
            split = relaxed.split(at, reduced)
            worker[rows], split_by[rows], split_at[rows], power[rows] = split
            weight[rows] = relaxed.balanced_weight(at, whole=self.recorded)
        bounds = Bounds(boxes, upper, worker, split_at, split_by, power, proof, tangents, weight)
        return bounds, cut
