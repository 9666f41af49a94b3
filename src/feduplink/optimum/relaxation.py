"""A sound upper bound on the Lagrangian over a box of log-powers and log-SINRs.

With t = ln p, every s_i = ln SINR_i is concave in t. On a box the value of each worker is under a
concave non-decreasing function of s_i plus one of t_i, so their sum is concave in t; and a concave
function is under its linearisation, whose maximum over a box is known in closed form. The bound is
therefore sound whatever point the linearisation is taken at, and tight at the maximum.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.boxes import REST, Bounds, Boxes
from feduplink.optimum.branching_tree import EMPTY, MONOTONE, TANGENT, Tangents
from feduplink.optimum.envelope import WorkerValue
from feduplink.optimum.relaxation_ascent import ascend
from feduplink.optimum.relaxed_boxes import RelaxedBoxes

#: A worker on the air under its floor is worth at most this, relative to all weights.
_NEGLIGIBLE = 1e-8
_NEWTON_STEPS = 5
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
    """Upper bounds for the channels of a batch at given prices.

    To be ``recorded``, a product is bounded by one of McCormick's planes and by no mean of them,
    and nothing is cut off a box.
    """

    def __init__(self, batch: ChannelBatch, prices: Prices, *, recorded: bool = False) -> None:
        self.recorded = recorded
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

    def bound(
        self, boxes: Boxes, guess: Tensor, upper_weight: Tensor, threshold: Tensor
    ) -> tuple[Boxes, Bounds, Tensor]:
        """Bound the Lagrangian over each box.

        Args:
            boxes: M of them.
            guess: where to look for the largest value first, (M, L) W.
            upper_weight: of the upper one of McCormick's planes, (M, L) in [0, 1].
            threshold: boxes under it, (M,), need not be split; what is under it of others is cut
                off them.

        Returns:
            The boxes with tighter limits, their bounds, and whether something was cut off, (M,).

        """
        boxes, empty = self.tightened(boxes)
        relaxed = RelaxedBoxes(
            self.batch.take(boxes.channel), self.prices, boxes, upper_weight, self.negligible
        )
        at = ascend(relaxed, guess, _NEWTON_STEPS)
        # Each worker at its best ends is a bound as well, and the better one far from the maximum,
        # where the linearisation overshoots.
        monotone = relaxed.at_best_ends()
        proof = torch.where(at.upper < monotone, TANGENT, MONOTONE).to(torch.int8)
        upper = torch.where(empty, -math.inf, torch.minimum(at.upper, monotone))
        bounds = Bounds(
            upper=upper,
            power=at.power.clone(),
            worker=torch.zeros_like(boxes.channel),
            how=torch.full_like(boxes.channel, REST),
            split_at=torch.zeros_like(upper),
            proof=torch.where(empty, EMPTY, proof),
            tangents=Tangents(at.log_power, at.slope, upper_weight > 0),
            upper_weight=upper_weight.clone(),
        )
        cut = torch.zeros_like(empty)
        rows = (upper > threshold).nonzero()[:, 0]
        if len(rows):
            relaxed, at = relaxed.take(rows), at.take(rows)
            reduced = relaxed.boxes
            if not self.recorded:
                reduced, cut[rows] = relaxed.reduced(at, threshold[rows])
                boxes = boxes.with_rows(rows, reduced)
            split = relaxed.split(at, reduced)
            bounds.worker[rows], bounds.how[rows], bounds.split_at[rows], bounds.power[rows] = split
            bounds.upper_weight[rows] = relaxed.balanced_weight(at, whole=self.recorded)
        return boxes, bounds, cut


def _weigh(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]
