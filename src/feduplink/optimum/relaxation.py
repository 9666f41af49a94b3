"""A sound upper bound on the Lagrangian over a box of log-powers and log-SINRs.

With t = ln p, every s_i = ln SINR_i is concave in t. On a box the value of each worker is under a
concave non-decreasing function of s_i plus one of t_i, so their sum is concave in t; and a concave
function is under its linearisation, whose maximum over a box is known in closed form. The bound is
therefore sound whatever point the linearisation is taken at, and tight at the maximum.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian import ChannelBatch, Prices, log_power_derivatives
from feduplink.lagrangian.ascent import newton_ascent
from feduplink.link import Slopes
from feduplink.optimum.boxes import POWER, REST, SINR, Bounds, Boxes
from feduplink.optimum.branching_tree import EMPTY, MONOTONE, TANGENT, Tangents
from feduplink.optimum.envelope import DrawEnvelope, Envelope, WorkerValue

#: A worker on the air under its floor is worth at most this, relative to all weights.
_NEGLIGIBLE = 1e-8
_NEWTON_STEPS = 3
#: Intervals of s or t this narrow are not split any further.
_NARROW = 1e-3
#: Limits that cross by less are equal.
_ROUNDING = 1e-9


def has_relaxation(prices: Prices) -> bool:
    """Whether the relaxation is a bound at these prices.

    It is one for lower limits on packet success, rate and energy efficiency, and upper ones on
    measures that are convex functions of ln p alone; power itself has no price in it.
    """
    if prices.power_cost is not None:
        return False
    usual = (prices.success, prices.rate, prices.efficiency)
    return not any(bool((price < 0).any()) for price in usual) and all(
        measure.convex_in_log_power and not bool((price > 0).any())
        for measure, price in prices.others
    )


class Relaxation:
    """Upper bounds for the channels of a batch at given prices."""

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        self.batch = batch
        self.prices = prices
        self.log_direct = batch.direct.log()
        worth = prices.success + prices.rate + prices.efficiency / batch.static_power_w
        self.negligible = _NEGLIGIBLE * float(worth.sum() + 1)
        self.floor = self._floor()

    def _floor(self) -> Tensor:
        """ln SINR under which being on the air is worth less than silence, (L,).

        A worker on the air whose value is negative could be silenced, to its own good and no
        one's harm; so an optimum has none. The value is at most a ψ(s) + (b + c/P_c) ρ(s) − d.
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
            worthless = best.at(middle)[0] <= self.negligible
            low, high = torch.where(worthless, middle, low), torch.where(worthless, high, middle)
        return low

    def roots(self) -> Boxes:
        """One box per channel: everyone silent or at any power."""
        shape = self.batch.direct.shape
        floor = self.floor.expand(shape)
        top = self.batch.pmax_w.log().expand(shape)
        return Boxes(
            channel=torch.arange(shape[0], device=floor.device),
            t_low=floor - self.log_direct,
            t_high=top,
            s_low=floor,
            s_high=self.log_direct + top,
            may_rest=torch.ones(shape, dtype=torch.bool, device=floor.device),
            silent=torch.zeros(shape, dtype=torch.bool, device=floor.device),
            node=torch.arange(shape[0], device=floor.device),
        )

    def tightened(self, boxes: Boxes) -> tuple[Boxes, Tensor]:
        """Propagate the limits of s and t into each other; also says which boxes are empty."""
        cross = self.batch.cross[boxes.channel]
        log_direct = self.log_direct[boxes.channel]
        t_low, t_high = boxes.t_low, boxes.t_high
        s_low, s_high = boxes.s_low, boxes.s_high
        may_rest, silent = boxes.may_rest, boxes.silent
        for _ in range(2):
            sure = ~may_rest & ~silent
            least = 1 + _weigh(cross, torch.where(sure, t_low.exp(), 0.0))
            most = 1 + _weigh(cross, torch.where(silent, 0.0, t_high.exp()))
            s_high = torch.minimum(s_high, log_direct + t_high - least.log())
            s_low = torch.where(sure, torch.maximum(s_low, log_direct + t_low - most.log()), s_low)
            t_low = torch.maximum(t_low, s_low + least.log() - log_direct)
            t_high = torch.minimum(t_high, s_high + most.log() - log_direct)
            # Under its floor a worker is worth as good as nothing: it may as well rest.
            contradiction = (
                (t_low > t_high + _ROUNDING)
                | (s_low > s_high + _ROUNDING)
                | (may_rest & (s_high <= self.floor))
            )
            silent = silent | (contradiction & may_rest)
            may_rest = may_rest & ~contradiction
        empty = (contradiction & ~may_rest & ~silent).any(-1)
        tight = Boxes(boxes.channel, t_low, t_high, s_low, s_high, may_rest, silent, boxes.node)
        return tight, empty

    def bound(self, boxes: Boxes, guess: Tensor) -> tuple[Boxes, Bounds]:
        """Bound the Lagrangian over each box; ``guess`` (M, L) W is where to look first."""
        boxes, empty = self.tightened(boxes)
        relaxed = _RelaxedBoxes(self, boxes, guess)
        power = newton_ascent(
            relaxed.value,
            relaxed.derivatives,
            relaxed.inside(guess),
            relaxed.lowest,
            relaxed.highest,
            steps=_NEWTON_STEPS,
        )
        bounds = relaxed.certified(power)
        return boxes, replace(
            bounds,
            upper=torch.where(empty, -math.inf, bounds.upper),
            proof=torch.where(empty, EMPTY, bounds.proof),
        )


class _RelaxedBoxes:
    """The concave relaxation over a batch of boxes.

    A worker that may rest is represented by a power of at least its lowest one, which it would
    not send when silent: the others' ln SINR is therefore raised by what that power costs them.
    """

    def __init__(self, relaxation: Relaxation, boxes: Boxes, guess: Tensor) -> None:
        self.boxes = boxes
        self.batch = batch = relaxation.batch.take(boxes.channel)
        self.prices = prices = relaxation.prices
        self.slack = relaxation.negligible * boxes.silent.shape[-1]
        self.log_direct = relaxation.log_direct[boxes.channel]
        self.heard = ~boxes.silent
        self.lowest = boxes.t_low.exp()
        self.highest = torch.maximum(boxes.t_high.exp(), self.lowest)
        sure_power = torch.where(boxes.may_rest | boxes.silent, 0.0, self.lowest)
        least = 1 + _weigh(batch.cross, sure_power)
        resting = torch.where(boxes.may_rest, self.lowest, 0.0)
        self.raised_by = torch.log1p(batch.cross * resting[:, None, :] / least[..., None])
        self.raised = self.raised_by.sum(-1)

        # EE = R q(t): under K q(t) + q0 R − K q0 on the box (McCormick), with (K, q0) one of
        # (R at s_low, q at t_low) and (R at s_high, q at t_high): the one closer at the guess.
        rate_low = link.rate_from_log(boxes.s_low)
        rate_high = link.rate_from_log(boxes.s_high)
        q_high, q_low = self._q(self.lowest), self._q(self.highest)
        at_guess = self.inside(guess)
        rate = link.rate_from_log(self._log_sinr(at_guess))
        rate = torch.minimum(torch.maximum(rate, rate_low), rate_high)
        q = self._q(torch.where(self.heard, at_guess, self.highest))
        use_low = (q_high - q) * (rate - rate_low) <= (q - q_low) * (rate_high - rate)
        self.rate_end = ~use_low
        self.q_factor = prices.efficiency * torch.where(use_low, rate_low, rate_high)
        self.q_base = torch.where(use_low, q_high, q_low)

        self.draw = DrawEnvelope.on_interval(
            batch.static_power_w,
            batch.amplifier_inefficiency,
            _log(self.lowest),
            _log(self.highest),
        )
        # What power costs is charged to workers that are sure to send; those that may rest pay
        # nothing when they do.
        self.charged = self.heard & ~boxes.may_rest
        value = WorkerValue(
            prices.success.expand_as(self.q_base),
            prices.rate + prices.efficiency * self.q_base,
            prices.activation_cost.expand_as(self.q_base),
            batch.waterfall,
        )
        most = 1 + _weigh(batch.cross, torch.where(self.heard, self.highest, 0.0))
        at_rest = self.log_direct + boxes.t_low - most.log()
        low = torch.where(boxes.may_rest, torch.minimum(at_rest, boxes.s_low), boxes.s_low)
        floor = torch.where(boxes.may_rest, 0.0, -math.inf).to(low)
        self.envelope = Envelope.on_interval(value, low, boxes.s_high, floor)

    def _q(self, power: Tensor) -> Tensor:
        return link.inverse_draw(
            power, self.batch.static_power_w, self.batch.amplifier_inefficiency
        )[0]

    def _log_sinr(self, power: Tensor) -> Tensor:
        """ln SINR with the correction for workers that may rest, (M, L)."""
        return self.log_direct + _log(power) - self.batch.interference(power).log() + self.raised

    def inside(self, power: Tensor) -> Tensor:
        """The powers moved into the boxes."""
        moved = torch.minimum(torch.maximum(power, self.lowest), self.highest)
        return torch.where(self.heard, moved, 0.0)

    def _cost(self, power: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What other measures cost at ``power``, convex in ln p, and its two slopes, (M, L)."""
        on_air = power > 0
        sent, sinr = torch.where(on_air, power, 1.0), torch.ones_like(power)
        cost = slope = bend = torch.zeros_like(power)
        for measure, price in self.prices.others:
            slopes = measure.slopes(sinr, sent)
            cost = cost - torch.where(on_air, price * measure.value(sinr, sent), 0.0)
            slope = slope - torch.where(on_air, price * slopes.t, 0.0)
            bend = bend - torch.where(on_air, price * slopes.tt, 0.0)
        return cost, slope, bend

    def _charge(self, power: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The cost where it is charged, else 0."""
        return self._cost(torch.where(self.charged, power, 0.0))

    def value(self, power: Tensor) -> Tensor:
        """The relaxed Lagrangian, (M,)."""
        draw = self.draw.at(_log(power))[0]
        relaxed = self.envelope.at(self._log_sinr(power))[0] + self.q_factor * (draw - self.q_base)
        if self.prices.others:
            relaxed = relaxed - self._charge(power)[0]
        return torch.where(self.heard, relaxed, 0.0).sum(-1)

    def derivatives(self, power: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient and Hessian of :meth:`value` in ln p."""
        _, slope, bend = self.envelope.at(self._log_sinr(power))
        _, draw_slope, draw_bend = self.draw.at(_log(power))
        mask = self.heard.to(power)
        factor = mask * self.q_factor
        slopes = Slopes(
            s=mask * slope,
            ss=mask * bend,
            t=factor * draw_slope,
            st=torch.zeros_like(power),
            tt=factor * draw_bend,
        )
        if self.prices.others:
            _, cost_slope, cost_bend = self._charge(power)
            slopes = replace(slopes, t=slopes.t - cost_slope, tt=slopes.tt - cost_bend)
        return log_power_derivatives(self.batch, power, slopes)

    def certified(self, power: Tensor) -> Bounds:
        """The sound bound from the linearisation at ``power``, and where to split the box."""
        s = self._log_sinr(power)
        line, slope = self.envelope.affine_at(s)
        draw, draw_slope, _ = self.draw.at(_log(power))
        worker = line + self.q_factor * (draw - self.q_base)
        slope = torch.where(self.heard, slope, 0.0)
        draw_slope = torch.where(self.heard, self.q_factor * draw_slope, 0.0)
        if self.prices.others:
            cost, cost_slope, _ = self._charge(power)
            worker, draw_slope = worker - cost, draw_slope - cost_slope
        share = self.batch.cross * power[:, None, :] / self.batch.interference(power)[..., None]
        gradient = slope - _weigh(share.mT, slope) + draw_slope
        t = _log(power)
        reach = torch.maximum(gradient * (self.boxes.t_high - t), gradient * (self.boxes.t_low - t))
        linear = torch.where(self.heard, worker + reach, 0.0).sum(-1)
        # Each worker at its best ends is a bound as well, and the better one far from the maximum,
        # where the linearisation overshoots.
        monotone = self._at_best_ends()
        upper = torch.minimum(linear, monotone) + self.slack
        proof = torch.where(linear < monotone, TANGENT, MONOTONE).to(torch.int8)
        tangents = Tangents(t, slope, self.rate_end)
        return self._with_split(upper, power, s, line, worker, slope, proof, tangents)

    def _at_best_ends(self) -> Tensor:
        """Σ φ_i at the largest SINR and the lowest power of every worker, (M,)."""
        prices, s = self.prices, self.boxes.s_high
        success = link.success_at(s, self.batch.waterfall, prices.success)[0]
        per_rate = prices.rate + prices.efficiency * self._q(self.lowest)
        ends = success + per_rate * link.rate_from_log(s) - prices.activation_cost
        if prices.others:
            ends = ends - self._charge(self.lowest)[0]
        ends = torch.where(self.boxes.may_rest, ends.clamp_min(0.0), ends)
        return torch.where(self.heard, ends, 0.0).sum(-1)

    def _with_split(
        self,
        upper: Tensor,
        power: Tensor,
        s: Tensor,
        line: Tensor,
        worker: Tensor,
        slope: Tensor,
        proof: Tensor,
        tangents: Tangents,
    ) -> Bounds:
        """Add to the bound where it loses most: which worker, and which of its quantities."""
        boxes, prices = self.boxes, self.prices
        relaxed_value = self.envelope.value.at(s)[0]
        rate = link.rate_from_log(s)
        true = relaxed_value + prices.efficiency * rate * (self._q(power) - self.q_base)
        if prices.others:
            true = true - self._cost(power)[0]
        rests = boxes.may_rest & (true <= 0)
        # Lost to the envelope in s, to the efficiency's line in t, and to the raised SINR of the
        # others while this worker may rest.
        by_sinr = line - torch.where(rests, 0.0, relaxed_value)
        by_power = worker - torch.where(rests, 0.0, true) - by_sinr
        by_rest = _weigh(self.raised_by.mT, slope)
        fixed = (boxes.s_high - boxes.s_low < _NARROW) & (boxes.t_high - boxes.t_low < _NARROW)
        splittable = self.heard & (boxes.may_rest | ~fixed)
        lost = torch.where(splittable, by_sinr + by_power + by_rest, -math.inf)
        chosen = lost.argmax(-1, keepdim=True)

        def of(values: Tensor) -> Tensor:
            return values.gather(-1, chosen)[:, 0]

        # Whether it sends at all matters most; then its SINR, unless its power clearly does more.
        split_rest = of(boxes.may_rest)
        split_power = (of(by_power) > 2 * of(by_sinr)) | (of(boxes.s_high - boxes.s_low) < _NARROW)
        low = torch.where(split_power, of(boxes.t_low), of(boxes.s_low))
        high = torch.where(split_power, of(boxes.t_high), of(boxes.s_high))
        margin = 0.3 * (high - low)
        point = torch.where(split_power, of(_log(power)), of(s))
        point = torch.minimum(torch.maximum(point, low + margin), high - margin)
        how = torch.where(split_rest, REST, torch.where(split_power, POWER, SINR))
        best = torch.where(rests, 0.0, power)
        return Bounds(upper, best, chosen[:, 0], how, point, proof, tangents)


def _log(power: Tensor) -> Tensor:
    """ln p, and 0 for silent workers, whose log-power is never used."""
    return torch.where(power > 0, power, 1.0).log()


def _weigh(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]
