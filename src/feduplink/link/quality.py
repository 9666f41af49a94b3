"""SINR, rate, packet success and energy efficiency of every worker's link, with their slopes.

The one place that defines these formulas. Code that computes an SINR in another way, to reuse
an interference vector or to work in NumPy, is held to these definitions by
``tests/test_one_formula.py``. Slopes are those in s = ln SINR and t = ln p, in which SINRs are
concave. They are computed from the SINR itself, which is exact for all of them, or from s.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from feduplink.errors import InputError

#: A gain of 0 counts as this: any power is as efficient as any other.
_FAINT = 1e-200
#: From this s on, ln(1 + e^s) and s are the same number.
_EXACT_UP_TO = 40.0
#: Under this r the series is exact to 12 digits of the efficiency.
_NEAR_BRANCH_POINT = 1e-6
#: Each triples the digits of the most efficient power.
_HALLEY_STEPS = 3


def cross_gains(csi: Tensor) -> Tensor:
    """β, the gains H (..., L, L) with a zero diagonal."""
    # Zeroed before the sum, not subtracted after it: α_i p_i can be 10^7 times the interference,
    # and float32 would lose the latter in the difference.
    cross = csi.clone()
    cross.diagonal(dim1=-2, dim2=-1).zero_()
    return cross


def interference(cross: Tensor, power: Tensor) -> Tensor:
    """Noise and interference 1 + Σ_j β_ij p_j of every worker, relative to the noise.

    Args:
        cross: β with a zero diagonal, (..., L, L), see :func:`cross_gains`.
        power: (..., L) W.

    Returns:
        (..., L).
    """
    return 1 + (cross @ power[..., None])[..., 0]


def interference_of_each(cross: Tensor, powers: Tensor) -> Tensor:
    """:func:`interference` at K power vectors per channel, (..., K, L), by one product of matrices.

    Args:
        cross: β with a zero diagonal, (..., L, L); also an array of NumPy.
        powers: (..., K, L) W.
    """
    return 1 + powers @ cross.mT


def sinr(csi: Tensor, power: Tensor) -> Tensor:
    """SINR_i = α_i p_i / (1 + Σ_{j≠i} β_ij p_j), with α on the diagonal of H, β off it.

    Args:
        csi: H, (..., L, L), linear, relative to the noise power.
        power: p, (..., L) W, or (M, ..., L) for M powers on every channel; with another precision
            than ``csi`` the higher one holds.

    Returns:
        (..., L).

    Raises:
        InputError: if the shapes do not fit, as when the arguments are exchanged.
    """
    if csi.ndim < power.ndim or not _fits(csi, power):
        raise InputError(
            f"power: shape {tuple(power.shape)} does not fit csi of shape {tuple(csi.shape)}; "
            "accepted: powers (..., L) for csi (..., L, L), as in sinr(csi, power)."
        )
    if csi.dtype != power.dtype:
        common = torch.promote_types(csi.dtype, power.dtype)
        csi, power = csi.to(common), power.to(common)
    direct = csi.diagonal(dim1=-2, dim2=-1)
    # Before the product: automatic differentiation sums gradients in this order.
    disturbance = interference(cross_gains(csi), power)
    return direct * power / disturbance


def _fits(csi: Tensor, power: Tensor) -> bool:
    """Whether csi (..., L, L) and power (..., L) can be broadcast over their leading dimensions."""
    leading = zip(reversed(csi.shape[:-2]), reversed(power.shape[:-1]), strict=False)
    return csi.shape[-2:] == 2 * power.shape[-1:] and all(a == b or 1 in (a, b) for a, b in leading)


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


def efficiency_of_rate(
    rate: Tensor,
    power: Tensor,
    static_power_w: float | Tensor,
    amplifier_inefficiency: float = 1.0,
) -> Tensor:
    """EE = R / (μ p + P_c), nats/s/Hz/W."""
    return rate / (amplifier_inefficiency * power + static_power_w)


def packet_success_with_slope(sinr: Tensor, waterfall: float) -> tuple[Tensor, Tensor]:
    """PSR and its derivative in s."""
    loss = waterfall / _audible(sinr, waterfall)
    value = torch.exp(-loss)
    return value, value * loss


def rate_with_slope(sinr: Tensor) -> tuple[Tensor, Tensor]:
    """R and its derivative in s."""
    return rate(sinr), sinr / (1 + sinr)


def success_slopes(sinr: Tensor, waterfall: float, weight: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivative of ω PSR in s, at SINRs above 0."""
    loss = waterfall / sinr
    slope = weight * torch.exp(-loss) * loss
    return slope, slope * (loss - 1)


def rate_slopes(sinr: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivative of ω R in s."""
    slope = weight * (sinr / (1 + sinr))
    return slope, slope / (1 + sinr)


def inverse_draw(
    power: Tensor, static_power_w: float | Tensor, amplifier_inefficiency: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """q = 1 / (μ p + P_c), so that EE = R q, with its two derivatives in t = ln p."""
    drawn = amplifier_inefficiency * power
    q = 1 / (drawn + static_power_w)
    slope = -drawn * q**2
    return q, slope, slope + 2 * drawn**2 * q**3


def success_at(s: Tensor, waterfall: float, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ω PSR at s = ln SINR, with its two derivatives in s."""
    loss = waterfall * torch.exp(-s)
    value = weight * torch.exp(-loss)
    slope = value * loss
    return value, slope, slope * (loss - 1)


def rate_from_log(s: Tensor) -> Tensor:
    """R at s = ln SINR, nats/s/Hz."""
    # By default PyTorch takes s itself from 20 on, which is 2e-9 too low for a bound.
    return functional.softplus(s, threshold=_EXACT_UP_TO)


def rate_at(s: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ω R at s = ln SINR, with its two derivatives in s."""
    sinr = torch.exp(s)
    # Twice as fast as softplus and sigmoid, and exact as well while e^s is a number.
    rest = 1 / (1 + sinr)
    slope = weight * (sinr * rest)
    return weight * torch.log1p(sinr), slope, slope * rest


def most_efficient_power(
    gain: Tensor, static_power_w: Tensor, amplifier_inefficiency: float = 1.0
) -> Tensor:
    """The power in W, without limit, of the largest EE = ln(1 + α p) / (μ p + P_c); (..., L).

    Of tensors, or of float64 arrays of NumPy.

    At the peak v = ln(1 + α p) solves v − 1 = (r − 1) e^(−v) with r = α P_c / μ: v = 1 + W(x) with
    Lambert's W and x = (r − 1) / e. From there the efficiency falls to both sides. The start is
    Winitzki's for W, and √(2 r) for small r; Halley's method does the rest.
    """
    xp: Any = np
    if isinstance(gain, Tensor):
        xp, gain = torch, gain.to(torch.float64)
        static_power_w = static_power_w.to(gain)
    gain = gain.clip(min=_FAINT)
    r = gain * static_power_w / amplifier_inefficiency
    log_x = xp.log1p((r - 1).clip(min=0.0) / math.e)
    wide = 1 + log_x * (1 - xp.log1p(log_x) / (2 + log_x))
    near = xp.sqrt(2 * r)
    v = xp.where(r < 1, near - near**2 / 3 + 0.1 * near**3, wide)
    for _ in range(_HALLEY_STEPS):
        # Of v e^v − (e^v − 1) = r; near 0 both sides are small, and expm1 keeps their digits.
        grown = xp.expm1(v)
        excess = v + (v - 1) * grown - r
        slope = v * (grown + 1)
        v = v - excess / (slope - excess * (1 + v) / (2 * v))
    power: Tensor = xp.expm1(xp.where(r < _NEAR_BRANCH_POINT, near - near**2 / 3, v)) / gain
    return power
