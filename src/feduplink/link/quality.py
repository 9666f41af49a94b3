"""SINR, rate, packet success rate and energy efficiency of every worker, with derivatives.

This module defines these formulas for the whole package. ``tests/test_one_formula.py`` compares
other implementations, which reuse an interference vector or work in NumPy, with it. Derivatives are
with respect to s = ln SINR and t = ln p. Functions named ``..._at`` and ``..._from_log`` take s,
the others take the SINR.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from feduplink.errors import InputError

#: Smallest gain α in the most efficient power, 1/W; avoids a division by zero.
_MIN_GAIN = 1e-200
#: Value of s from which on ln(1 + e^s) = s in float64.
_SOFTPLUS_THRESHOLD = 40.0
#: Value of r below which the series at the branch point gives the efficiency to 12 digits.
_MAX_SERIES_R = 1e-6
#: Number of Halley steps for the most efficient power; each triples the number of correct digits.
_HALLEY_STEPS = 3


def cross_gains(csi: Tensor) -> Tensor:
    """Cross gains β: H with a zero diagonal.

    Args:
        csi: H, (..., L, L), in 1/W.

    Returns:
        β, (..., L, L), in 1/W; a copy.
    """
    # The diagonal is set to zero instead of subtracting α_i p_i from the sum: α_i p_i can be 10^7
    # times the interference, which float32 would lose in the difference.
    cross = csi.clone()
    cross.diagonal(dim1=-2, dim2=-1).zero_()
    return cross


def interference(cross: Tensor, power: Tensor) -> Tensor:
    """Noise plus interference of every worker, normalised by the noise: 1 + Σ_j β_ij p_j.

    Args:
        cross: β with a zero diagonal, (..., L, L), in 1/W, see :func:`cross_gains`.
        power: transmit powers, (..., L), W.

    Returns:
        Noise plus interference, (..., L), relative to the noise power.
    """
    return 1 + (cross @ power[..., None])[..., 0]


def interference_of_each(cross: Tensor, powers: Tensor) -> Tensor:
    """Noise plus interference at K power vectors per channel, by one matrix product.

    Args:
        cross: β with a zero diagonal, (..., L, L), in 1/W; a tensor or a NumPy array.
        powers: transmit powers, (..., K, L), W.

    Returns:
        Noise plus interference, (..., K, L), relative to the noise power.
    """
    return 1 + powers @ cross.mT


def sinr(csi: Tensor, power: Tensor) -> Tensor:
    """SINR with all workers transmitting, SINR_i = α_i p_i / (1 + Σ_{j≠i} β_ij p_j).

    α is the diagonal of H, and β its off-diagonal part: H_ij is the gain from worker j to the
    receive filter of worker i. The higher precision of the arguments is used.

    Args:
        csi: H, (..., L, L), in 1/W (channel gains divided by the noise power).
        power: transmit powers p, (..., L), W, or (M, ..., L) for M power vectors on every channel.

    Returns:
        SINR, (..., L), linear.

    Raises:
        InputError: if the shapes do not match, for instance if the arguments are exchanged.
    """
    if csi.ndim < power.ndim or not _fits(csi, power):
        raise InputError(
            f"power: shape {tuple(power.shape)} does not match csi of shape {tuple(csi.shape)}; "
            "accepted: powers (..., L) for csi (..., L, L), as in sinr(csi, power)."
        )
    if csi.dtype != power.dtype:
        common = torch.promote_types(csi.dtype, power.dtype)
        csi, power = csi.to(common), power.to(common)
    direct = csi.diagonal(dim1=-2, dim2=-1)
    # Computed before the product, as the order of operations determines that of the gradients.
    noise_and_interference = interference(cross_gains(csi), power)
    return direct * power / noise_and_interference


def _fits(csi: Tensor, power: Tensor) -> bool:
    """Whether csi (..., L, L) and power (..., L) have the same L and broadcastable batch shapes."""
    leading = zip(reversed(csi.shape[:-2]), reversed(power.shape[:-1]), strict=False)
    return csi.shape[-2:] == 2 * power.shape[-1:] and all(a == b or 1 in (a, b) for a, b in leading)


def rate(sinr: Tensor) -> Tensor:
    """Rate R = ln(1 + SINR).

    Args:
        sinr: SINR, (...), linear.

    Returns:
        R, (...), nats/s/Hz.
    """
    return torch.log1p(sinr)


def packet_success_rate(sinr: Tensor, waterfall: float) -> Tensor:
    """Packet success rate PSR = exp(−m / SINR).

    Args:
        sinr: SINR, (...), linear.
        waterfall: waterfall threshold m.

    Returns:
        PSR, (...); 0 where the SINR is 0.
    """
    return torch.exp(-waterfall / _clamped(sinr, waterfall))


def packet_error_rate(sinr: Tensor, waterfall: float) -> Tensor:
    """Packet error rate PER = 1 − exp(−m / SINR), without cancellation for small values.

    Args:
        sinr: SINR, (...), linear.
        waterfall: waterfall threshold m.

    Returns:
        PER, (...); 1 where the SINR is 0.
    """
    return -torch.expm1(-waterfall / _clamped(sinr, waterfall))


def _clamped(sinr: Tensor, waterfall: float) -> Tensor:
    """The SINR, at least m/1000, so that m / SINR and its gradient are finite.

    PSR and its gradient do not change, as exp(−1000) underflows to 0 in every precision.
    """
    return sinr.clamp_min(waterfall / 1000)


def efficiency_of_rate(
    rate: Tensor,
    power: Tensor,
    static_power_w: float | Tensor,
    amplifier_inefficiency: float = 1.0,
) -> Tensor:
    """Energy efficiency EE = R / (μ p + P_c).

    Args:
        rate: R, (..., L), nats/s/Hz.
        power: transmit powers p, (..., L), W.
        static_power_w: static power P_c, a number, () or (L,), W.
        amplifier_inefficiency: amplifier inefficiency μ.

    Returns:
        EE, (..., L), nats/s/Hz/W.
    """
    return rate / (amplifier_inefficiency * power + static_power_w)


def packet_success_with_slope(sinr: Tensor, waterfall: float) -> tuple[Tensor, Tensor]:
    """PSR and its derivative in s = ln SINR.

    Args:
        sinr: SINR, (...), linear.
        waterfall: waterfall threshold m.

    Returns:
        PSR and ∂PSR/∂s, (...) each.
    """
    loss = waterfall / _clamped(sinr, waterfall)
    value = torch.exp(-loss)
    return value, value * loss


def rate_with_slope(sinr: Tensor) -> tuple[Tensor, Tensor]:
    """Rate R and its derivative ∂R/∂s = SINR / (1 + SINR), s = ln SINR.

    Args:
        sinr: SINR, (...), linear.

    Returns:
        R, nats/s/Hz, and ∂R/∂s, (...) each.
    """
    return rate(sinr), sinr / (1 + sinr)


def success_slopes(sinr: Tensor, waterfall: float, weight: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivative of ω PSR in s = ln SINR.

    Args:
        sinr: positive SINR, (..., L), linear.
        waterfall: waterfall threshold m.
        weight: ω, of a shape that broadcasts to (..., L).

    Returns:
        ω ∂PSR/∂s and ω ∂²PSR/∂s², (..., L) each.
    """
    loss = waterfall / sinr
    slope = weight * torch.exp(-loss) * loss
    return slope, slope * (loss - 1)


def rate_slopes(sinr: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivative of ω R in s = ln SINR.

    Args:
        sinr: SINR, (..., L), linear.
        weight: ω, of a shape that broadcasts to (..., L).

    Returns:
        ω ∂R/∂s and ω ∂²R/∂s², (..., L) each.
    """
    slope = weight * (sinr / (1 + sinr))
    return slope, slope / (1 + sinr)


def inverse_draw(
    power: Tensor, static_power_w: float | Tensor, amplifier_inefficiency: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Inverse power consumption q = 1 / (μ p + P_c), so that EE = R q, with its derivatives.

    Args:
        power: transmit powers p, (..., L), W.
        static_power_w: static power P_c, a number, () or (L,), W.
        amplifier_inefficiency: amplifier inefficiency μ.

    Returns:
        q, ∂q/∂t and ∂²q/∂t² for t = ln p, (..., L) each, 1/W.
    """
    drawn = amplifier_inefficiency * power
    q = 1 / (drawn + static_power_w)
    slope = -drawn * q**2
    return q, slope, slope + 2 * drawn**2 * q**3


def success_at(s: Tensor, waterfall: float, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ω PSR at s = ln SINR, with its first and second derivative in s.

    Args:
        s: ln SINR, (..., L).
        waterfall: waterfall threshold m.
        weight: ω, of a shape that broadcasts to (..., L).

    Returns:
        Value and derivatives, (..., L) each.
    """
    loss = waterfall * torch.exp(-s)
    value = weight * torch.exp(-loss)
    slope = value * loss
    return value, slope, slope * (loss - 1)


def rate_from_log(s: Tensor) -> Tensor:
    """Rate R = ln(1 + e^s), nats/s/Hz, at s = ln SINR."""
    # PyTorch's default threshold of 20 returns s itself, 2e-9 below R: too low for an upper bound.
    return functional.softplus(s, threshold=_SOFTPLUS_THRESHOLD)


def rate_at(s: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ω R at s = ln SINR, with its first and second derivative in s.

    Args:
        s: ln SINR, (..., L), small enough that e^s does not overflow.
        weight: ω, of a shape that broadcasts to (..., L).

    Returns:
        Value and derivatives, (..., L) each.
    """
    sinr = torch.exp(s)
    # Twice as fast as softplus and sigmoid.
    rest = 1 / (1 + sinr)
    slope = weight * (sinr * rest)
    return weight * torch.log1p(sinr), slope, slope * rest


def most_efficient_power(
    gain: Tensor, static_power_w: Tensor, amplifier_inefficiency: float = 1.0
) -> Tensor:
    """Power that maximises the energy efficiency ln(1 + α p) / (μ p + P_c) of a worker alone.

    The efficiency is unimodal in p. At its maximum, v = ln(1 + α p) solves v − 1 = (r − 1) e^(−v)
    with r = α P_c / μ, so that v = 1 + W((r − 1) / e) with Lambert's W. The equation is solved by
    Halley's method, from Winitzki's approximation of W, or from a series in √(2 r) for r < 1.

    Args:
        gain: direct gains α, (..., L), in 1/W; a tensor, or a float64 NumPy array.
        static_power_w: static power P_c, () or (L,), W.
        amplifier_inefficiency: amplifier inefficiency μ.

    Returns:
        Powers without an upper limit, (..., L), W, float64.
    """
    xp: Any = np
    if isinstance(gain, Tensor):
        xp, gain = torch, gain.to(torch.float64)
        static_power_w = static_power_w.to(gain)
    gain = gain.clip(min=_MIN_GAIN)
    r = gain * static_power_w / amplifier_inefficiency
    log_x = xp.log1p((r - 1).clip(min=0.0) / math.e)
    wide = 1 + log_x * (1 - xp.log1p(log_x) / (2 + log_x))
    near = xp.sqrt(2 * r)
    v = xp.where(r < 1, near - near**2 / 3 + 0.1 * near**3, wide)
    for _ in range(_HALLEY_STEPS):
        # Root of v e^v − (e^v − 1) − r; expm1 avoids cancellation for small v.
        grown = xp.expm1(v)
        excess = v + (v - 1) * grown - r
        slope = v * (grown + 1)
        v = v - excess / (slope - excess * (1 + v) / (2 * v))
    power: Tensor = xp.expm1(xp.where(r < _MAX_SERIES_R, near - near**2 / 3, v)) / gain
    return power
