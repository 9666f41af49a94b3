"""The Lagrangian of a channel as a function of log-power, with exact derivatives.

With t = ln p and s = ln SINR, worker i contributes

    φ_i(s_i, t_i) = a PSR(s_i) + b R(s_i) + c R(s_i) q(t_i) − d,   q(t) = 1 / (μ_a e^t + P_c),

and s_i = ln α_i + t_i − ln(1 + Σ_j β_ij e^(t_j)) is concave in t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian.prices import Prices
from feduplink.scenario import Scenario


@dataclass(frozen=True)
class Cell:
    """A batch of channels with the radio's constants, ready for the Lagrangian.

    Attributes:
        direct: α, (N, L).
        cross: β with a zero diagonal, (N, L, L).
        pmax_w, static_power_w: of every worker, (L,), W.
        waterfall, amplifier_inefficiency: as in the scenario.
    """

    direct: Tensor
    cross: Tensor
    pmax_w: Tensor
    waterfall: float
    static_power_w: Tensor
    amplifier_inefficiency: float

    @classmethod
    def of(cls, scenario: Scenario, csi: Tensor) -> Cell:
        """The cell of a scenario for channels (N, L, L), in float64."""
        csi = csi.to(torch.float64)
        own = torch.eye(csi.shape[-1], dtype=torch.bool, device=csi.device)
        return cls(
            direct=csi.diagonal(dim1=-2, dim2=-1).contiguous(),
            cross=csi.masked_fill(own, 0.0),
            pmax_w=scenario.pmax_w.to(csi).expand(csi.shape[-1]),
            waterfall=scenario.waterfall,
            static_power_w=scenario.static_power.to(csi).expand(csi.shape[-1]),
            amplifier_inefficiency=scenario.amplifier_inefficiency,
        )

    def to(self, dtype: torch.dtype) -> Cell:
        """The same cell in another precision."""
        return replace(
            self,
            direct=self.direct.to(dtype),
            cross=self.cross.to(dtype),
            pmax_w=self.pmax_w.to(dtype),
            static_power_w=self.static_power_w.to(dtype),
        )

    def take(self, index: Tensor) -> Cell:
        """Some of the channels, by index or mask."""
        return replace(self, direct=self.direct[index], cross=self.cross[index])

    def interference(self, power: Tensor) -> Tensor:
        """1 + Σ_{j≠i} β_ij p_j, (N, L)."""
        return 1 + (self.cross @ power[..., None])[..., 0]

    def sinr(self, power: Tensor) -> Tensor:
        """SINR, (N, L)."""
        return self.direct * power / self.interference(power)

    def worker_values(self, sinr: Tensor, power: Tensor, prices: Prices) -> Tensor:
        """φ_i of every worker, 0 for a silent one; any shape (..., L)."""
        rate = torch.log1p(sinr)
        efficiency = link.energy_efficiency(
            rate, power, self.static_power_w, self.amplifier_inefficiency
        )
        value = prices.rate * rate + prices.efficiency * efficiency - prices.fee
        success = link.packet_success_rate(sinr, self.waterfall)
        return torch.where(power > 0, prices.success * success + value, 0.0)

    def value(self, power: Tensor, prices: Prices) -> Tensor:
        """The Lagrangian of each channel, (N,)."""
        return self.worker_values(self.sinr(power), power, prices).sum(-1)


@dataclass(frozen=True)
class Slopes:
    """Partial derivatives of the workers' φ(s, t), (N, L) each; zero for silent workers."""

    s: Tensor
    ss: Tensor
    t: Tensor
    st: Tensor
    tt: Tensor


def log_power_derivatives(cell: Cell, power: Tensor, slopes: Slopes) -> tuple[Tensor, Tensor]:
    """Gradient and Hessian of Σ φ_i(s_i(t), t_i) in t = ln p, (N, L) and (N, L, L).

    With w_ij = β_ij p_j / (1 + Σ β p) and J = I − W, the gradient is Jᵀ φ_s + φ_t and the
    Hessian Jᵀ diag(φ_ss) J − Σ_i φ_s,i (diag(w_i) − w_i w_iᵀ) + diag(φ_st) J + Jᵀ diag(φ_st)
    + diag(φ_tt). A silent worker has no log-power: zero rows and columns.
    """
    share = cell.cross * power[..., None, :] / cell.interference(power)[..., None]
    jacobian = torch.diag_embed(torch.ones_like(power)) - share
    pulled = (share.mT @ slopes.s[..., None])[..., 0]
    gradient = slopes.s - pulled + slopes.t
    curved = jacobian.mT @ (slopes.ss[..., None] * jacobian)
    bent = share.mT @ (slopes.s[..., None] * share) - torch.diag_embed(pulled)
    mixed = slopes.st[..., None] * jacobian
    hessian = curved + bent + mixed + mixed.mT + torch.diag_embed(slopes.tt)
    on_air = (power > 0).to(power)
    return gradient * on_air, hessian * on_air[..., :, None] * on_air[..., None, :]


def gradient_and_hessian(cell: Cell, power: Tensor, prices: Prices) -> tuple[Tensor, Tensor]:
    """Derivatives of the Lagrangian in t = ln p, (N, L) and (N, L, L)."""
    sinr = cell.sinr(power)
    on_air = power > 0
    u = torch.where(on_air, sinr, 1.0)
    loss = cell.waterfall / u
    success = torch.exp(-loss)
    rate, rate_s = torch.log1p(u), u / (1 + u)
    drawn = cell.amplifier_inefficiency * power
    q = 1 / (drawn + cell.static_power_w)
    q_t = -drawn * q**2
    q_tt = q_t + 2 * drawn**2 * q**3

    slope = prices.rate + prices.efficiency * q
    mask = on_air.to(power)
    slopes = Slopes(
        s=mask * (prices.success * success * loss + slope * rate_s),
        ss=mask * (prices.success * success * loss * (loss - 1) + slope * rate_s / (1 + u)),
        t=mask * prices.efficiency * rate * q_t,
        st=mask * prices.efficiency * rate_s * q_t,
        tt=mask * prices.efficiency * rate * q_tt,
    )
    return log_power_derivatives(cell, power, slopes)
