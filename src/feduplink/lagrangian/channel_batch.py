"""Lagrangians of a batch of channels as functions of log-power, with exact derivatives.

With t = ln p and s = ln SINR, worker i contributes

    φ_i(s_i, t_i) = a PSR(s_i) + b R(s_i) + c R(s_i) q(t_i) − d − e e^t_i,

    q(t) = 1 / (μ_a e^t + P_c),

plus one term per further measure. s_i = ln α_i + t_i − ln(1 + Σ_j β_ij e^(t_j)) is concave in t.
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
    """N channels with the constants of the radio, for evaluating Lagrangians.

    Attributes:
        direct: direct gains α relative to the noise power, (N, L), 1/W.
        cross: cross gains β with a zero diagonal, (N, L, L), 1/W; row i is receiver i.
        pmax_w: maximum transmit power per worker, (L,), W.
        waterfall: waterfall threshold m of the packet success rate.
        static_power_w: static circuit power P_c per worker, (L,), W.
        amplifier_inefficiency: μ_a, drawn power per watt of transmit power.
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
        """Combine channels with the constants of a scenario, in float64.

        Args:
            scenario: the radio.
            csi: H, (N, L, L), linear, relative to the noise power.
        """
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
        """Noise plus interference 1 + Σ_{j≠i} β_ij p_j, relative to the noise.

        Args:
            power: (..., N, L), W.

        Returns:
            (..., N, L).
        """
        return link.interference(self.cross, power)

    def sinr(self, power: Tensor) -> Tensor:
        """SINR_i = α_i p_i / (1 + Σ_{j≠i} β_ij p_j).

        Args:
            power: (..., N, L), W.

        Returns:
            (..., N, L), linear.
        """
        return self.direct * power / self.interference(power)

    def worker_values(self, sinr: Tensor, power: Tensor, prices: Prices) -> Tensor:
        """Contribution φ_i of every worker to the Lagrangian; 0 for a silent worker.

        Args:
            sinr: (..., L), linear.
            power: (..., L), W.
            prices: prices of all quantities, (L,) or (N, L).

        Returns:
            (..., L), in the unit of the objective.
        """
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
        """Lagrangian Σ_i φ_i of each channel.

        Args:
            power: (..., N, L), W.
            prices: prices of all quantities, (L,) or (N, L).

        Returns:
            (..., N), in the unit of the objective.
        """
        return self.worker_values(self.sinr(power), power, prices).sum(-1)


def log_power_derivatives(
    batch: ChannelBatch, power: Tensor, interference: Tensor, slopes: Slopes
) -> tuple[Tensor, Tensor]:
    """Gradient and Hessian of Σ_i φ_i(s_i(t), t_i) in t = ln p.

    With I = 1 + Σ β p, w_ij = β_ij p_j / I_i and J = 1 − W, the gradient is Jᵀ φ_s + φ_t and the
    Hessian Jᵀ diag(φ_ss) J − Σ_i φ_s,i (diag(w_i) − w_i w_iᵀ) + diag(φ_st) J + Jᵀ diag(φ_st)
    + diag(φ_tt).

    Args:
        batch: the channels.
        power: (N, L), W.
        interference: I at these powers, (N, L), relative to the noise.
        slopes: derivatives of φ in s and t, (N, L) each. They must be 0 for silent workers, which
            have no log-power; their rows and columns are then 0.

    Returns:
        Gradient (N, L) and Hessian (N, L, L).
    """
    # In place: memory traffic dominates the cost of many small matrices.
    share = (batch.cross * power[..., None, :]).div_(interference[..., None])
    loss_to_others = (share.mT @ slopes.s[..., None])[..., 0]
    gradient = slopes.s - loss_to_others + slopes.t
    # The sum above, expanded, which needs one matrix product instead of two.
    hessian = share.mT @ ((slopes.s + slopes.ss)[..., None] * share)
    mixed = (slopes.ss + slopes.st)[..., None] * share
    hessian.sub_(mixed).sub_(mixed.mT)
    hessian.diagonal(dim1=-2, dim2=-1).add_(slopes.ss + 2 * slopes.st + slopes.tt - loss_to_others)
    return gradient, hessian


def gradient_and_hessian(
    batch: ChannelBatch, power: Tensor, prices: Prices
) -> tuple[Tensor, Tensor]:
    """Gradient and Hessian of the Lagrangian in t = ln p; 0 for silent workers.

    Args:
        batch: the channels.
        power: (N, L), W.
        prices: prices of all quantities, (L,) or (N, L).

    Returns:
        Gradient (N, L) and Hessian (N, L, L).
    """
    transmits = power > 0
    interference = batch.interference(power)
    # A silent worker has no log-power. The SINR of 1 is a placeholder that the mask removes.
    sinr = torch.where(transmits, batch.direct * power / interference, 1.0)
    zero = torch.zeros_like(power)
    slopes = Slopes(*link.rate_slopes(sinr, prices.rate), zero, zero, zero)
    if prices.on_efficiency:
        rate, (by_rate, curvature) = link.rate(sinr), link.rate_slopes(sinr, prices.efficiency)
        q, q_t, q_tt = link.inverse_draw(power, batch.static_power_w, batch.amplifier_inefficiency)
        by_draw = prices.efficiency * rate
        slopes = slopes + Slopes(
            by_rate * q, curvature * q, by_draw * q_t, by_rate * q_t, by_draw * q_tt
        )
    if prices.on_success:
        success = link.success_slopes(sinr, batch.waterfall, prices.success)
        slopes = slopes + Slopes(*success, zero, zero, zero)
    for measure, price in prices.others:
        slopes = slopes + price * measure.slopes(sinr, torch.where(transmits, power, 1.0))
    if prices.power_cost is not None:
        spent = prices.power_cost * power
        slopes = replace(slopes, t=slopes.t - spent, tt=slopes.tt - spent)
    return log_power_derivatives(batch, power, interference, transmits.to(power) * slopes)
