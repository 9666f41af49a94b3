"""A batch of channels and their Lagrangians as functions of log-power, with exact derivatives.

With t = ln p and s = ln SINR, worker i contributes

    φ_i(s_i, t_i) = a PSR(s_i) + b R(s_i) + c R(s_i) q(t_i) − d − e e^t_i,

    q(t) = 1 / (μ_a e^t + P_c),

and what other measures are worth; and s_i = ln α_i + t_i − ln(1 + Σ_j β_ij e^(t_j)) is concave
in t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian.prices import Prices
from feduplink.link import Slopes
from feduplink.scenario import Scenario
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class ChannelBatch(TensorRecord):
    """A batch of channels with the radio's constants, ready for the Lagrangian.

    Attributes:
        direct: α, (N, L).
        cross: β with a zero diagonal, (N, L, L).
        pmax_w, static_power_w: of every worker, (L,), W.
        waterfall, amplifier_inefficiency: as in the scenario.

    """

    shared: ClassVar[frozenset[str]] = frozenset({"pmax_w", "static_power_w"})

    direct: Tensor
    cross: Tensor
    pmax_w: Tensor
    waterfall: float
    static_power_w: Tensor
    amplifier_inefficiency: float

    @classmethod
    def from_scenario(cls, scenario: Scenario, csi: Tensor) -> ChannelBatch:
        """Channels (N, L, L) with the constants of a scenario, in float64."""
        csi = csi.to(torch.float64)
        return cls(
            direct=csi.diagonal(dim1=-2, dim2=-1).contiguous(),
            cross=link.cross_gains(csi),
            pmax_w=scenario.max_power.to(csi).expand(csi.shape[-1]),
            waterfall=scenario.waterfall,
            static_power_w=scenario.static_power.to(csi).expand(csi.shape[-1]),
            amplifier_inefficiency=scenario.amplifier_inefficiency,
        )

    def interference(self, power: Tensor) -> Tensor:
        """1 + Σ_{j≠i} β_ij p_j, (N, L)."""
        return link.interference(self.cross, power)

    def sinr(self, power: Tensor) -> Tensor:
        """SINR, (N, L)."""
        return self.direct * power / self.interference(power)

    def worker_values(self, sinr: Tensor, power: Tensor, prices: Prices) -> Tensor:
        """φ_i of every worker, 0 for a silent one; any shape (..., L)."""
        rate = link.rate(sinr)
        value = prices.rate * rate - prices.activation_cost
        if prices.on_efficiency:
            efficiency = link.efficiency_of_rate(
                rate, power, self.static_power_w, self.amplifier_inefficiency
            )
            value = value + prices.efficiency * efficiency
        if prices.on_success:
            value = value + prices.success * link.packet_success_rate(sinr, self.waterfall)
        for measure, price in prices.others:
            value = value + price * measure.value(sinr, power)
        if prices.power_cost is not None:
            value = value - prices.power_cost * power
        return torch.where(power > 0, value, 0.0)

    def value(self, power: Tensor, prices: Prices) -> Tensor:
        """The Lagrangian of each channel, (N,)."""
        return self.worker_values(self.sinr(power), power, prices).sum(-1)


def log_power_derivatives(
    batch: ChannelBatch, power: Tensor, interference: Tensor, slopes: Slopes
) -> tuple[Tensor, Tensor]:
    """Gradient and Hessian of Σ φ_i(s_i(t), t_i) in t = ln p, (N, L) and (N, L, L).

    With I = 1 + Σ β p, w_ij = β_ij p_j / I_i and J = 1 − W, the gradient is Jᵀ φ_s + φ_t and the
    Hessian Jᵀ diag(φ_ss) J − Σ_i φ_s,i (diag(w_i) − w_i w_iᵀ) + diag(φ_st) J + Jᵀ diag(φ_st)
    + diag(φ_tt). A silent worker has no log-power: it must have no slopes, and then has zero rows
    and columns.
    """
    # In place: of many small matrices, moving them through memory takes longest.
    share = (batch.cross * power[..., None, :]).div_(interference[..., None])
    pulled = (share.mT @ slopes.s[..., None])[..., 0]
    gradient = slopes.s - pulled + slopes.t
    # The products above, multiplied out: one product of matrices instead of two.
    hessian = share.mT @ ((slopes.s + slopes.ss)[..., None] * share)
    mixed = (slopes.ss + slopes.st)[..., None] * share
    hessian.sub_(mixed).sub_(mixed.mT)
    hessian.diagonal(dim1=-2, dim2=-1).add_(slopes.ss + 2 * slopes.st + slopes.tt - pulled)
    return gradient, hessian


def gradient_and_hessian(
    batch: ChannelBatch, power: Tensor, prices: Prices
) -> tuple[Tensor, Tensor]:
    """Derivatives of the Lagrangian in t = ln p, (N, L) and (N, L, L)."""
    on_air = power > 0
    interference = batch.interference(power)
    # A silent worker has no log-power; anywhere else will do, the mask takes it out.
    sinr = torch.where(on_air, batch.direct * power / interference, 1.0)
    zero = torch.zeros_like(power)
    slopes = Slopes(*link.rate_slopes(sinr, prices.rate), zero, zero, zero)
    if prices.on_efficiency:
        rate, (by_rate, bend) = link.rate(sinr), link.rate_slopes(sinr, prices.efficiency)
        q, q_t, q_tt = link.inverse_draw(power, batch.static_power_w, batch.amplifier_inefficiency)
        by_draw = prices.efficiency * rate
        slopes = slopes + Slopes(
            by_rate * q, bend * q, by_draw * q_t, by_rate * q_t, by_draw * q_tt
        )
    if prices.on_success:
        success = link.success_slopes(sinr, batch.waterfall, prices.success)
        slopes = slopes + Slopes(*success, zero, zero, zero)
    for measure, price in prices.others:
        slopes = slopes + price * measure.slopes(sinr, torch.where(on_air, power, 1.0))
    if prices.power_cost is not None:
        spent = prices.power_cost * power
        slopes = replace(slopes, t=slopes.t - spent, tt=slopes.tt - spent)
    return log_power_derivatives(batch, power, interference, on_air.to(power) * slopes)
