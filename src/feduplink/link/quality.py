"""SINR, rate, packet success and energy efficiency of every worker's link."""

from __future__ import annotations

import torch
from torch import Tensor


def sinr(csi: Tensor, power: Tensor) -> Tensor:
    """SINR_i = α_i p_i / (1 + Σ_{j≠i} β_ij p_j), with α on the diagonal of H, β off it."""
    direct = csi.diagonal(dim1=-2, dim2=-1)
    # The diagonal is zeroed before the sum, not subtracted after it: α_i p_i can be 10^7 times
    # the interference, and float32 would lose the latter in the difference.
    cross = csi.clone()
    cross.diagonal(dim1=-2, dim2=-1).zero_()
    interference = (cross @ power.unsqueeze(-1)).squeeze(-1)
    return direct * power / (1 + interference)


def rate(sinr: Tensor) -> Tensor:
    """R = ln(1 + SINR), nats/s/Hz."""
    return torch.log1p(sinr)


def packet_success_rate(sinr: Tensor, waterfall: float) -> Tensor:
    """PSR = exp(−m / SINR), and 0 where the SINR is 0."""
    return torch.exp(-waterfall / _audible(sinr, waterfall))


def packet_error_rate(sinr: Tensor, waterfall: float) -> Tensor:
    """PER = 1 − exp(−m / SINR), and 1 where the SINR is 0."""
    return -torch.expm1(-waterfall / _audible(sinr, waterfall))


def _audible(sinr: Tensor, waterfall: float) -> Tensor:
    """The SINR, raised to m/1000 where it is less: there PSR and its gradient are 0 either way.

    exp(−1000) is 0 in every precision, and m / SINR and its gradient stay finite.
    """
    return sinr.clamp_min(waterfall / 1000)


def energy_efficiency(
    rate: Tensor,
    power: Tensor,
    static_power_w: float | Tensor,
    amplifier_inefficiency: float = 1.0,
) -> Tensor:
    """EE = R / (μ p + P_c), nats/s/Hz/W."""
    return rate / (amplifier_inefficiency * power + static_power_w)
