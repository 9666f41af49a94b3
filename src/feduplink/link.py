"""The uplink: SINR, rate, packet success, energy efficiency, airtime and energy.

Pure functions, batched over leading dimensions: ``csi`` is (..., L, L), ``power`` (..., L) in W,
results are (..., L). All are differentiable, also where a power is zero, and keep the dtype.

>>> import torch
>>> csi = torch.tensor([[100.0, 10.0], [5.0, 50.0]])
>>> sinr(csi, torch.tensor([0.01, 0.02]))
tensor([0.8333, 0.9524])
"""

from __future__ import annotations

import math

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
    rate: Tensor, power: Tensor, static_power_w: float, amplifier_inefficiency: float = 1.0
) -> Tensor:
    """EE = R / (μ p + P_c), nats/s/Hz/W."""
    return rate / (amplifier_inefficiency * power + static_power_w)


def airtime(sinr: Tensor, model_bits: float, bandwidth_hz: float) -> Tensor:
    """τ = Z / (B log2(1 + SINR)) in s to send a model of Z bits; infinite at SINR 0."""
    on_air = sinr > 0
    spectral_efficiency = torch.log1p(torch.where(on_air, sinr, 1.0)) / math.log(2)
    return torch.where(on_air, model_bits / (bandwidth_hz * spectral_efficiency), math.inf)


def energy(
    power: Tensor,
    airtime_s: Tensor,
    model_bits: float,
    static_power_w: float,
    compute_energy_j_per_bit: float = 0.0,
) -> Tensor:
    """E = c_comp Z + (p + P_c) τ in J; a silent worker only spends the computation."""
    on_air_s = torch.where(power > 0, airtime_s, 0.0)
    return compute_energy_j_per_bit * model_bits + (power + static_power_w) * on_air_s
