"""Orthogonal access, what networks do today: nobody disturbs anybody.

``tdma`` gives the band to one worker after the other, ``ofdma`` an equal part of it to everyone at
once. Each worker is alone on what it has of the band, at the power that minimises its own time
and, at κ seconds per joule, its own energy: τ + κ (p + P_c) τ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from feduplink.link.quality import most_efficient_power
from feduplink.link.upload import Upload, airtime


def tdma(
    csi: Tensor,
    present: Tensor,
    bits: float | Tensor,
    bandwidth_hz: float,
    pmax_w: Tensor,
    static_power_w: Tensor,
    *,
    seconds_per_joule: float = 0.0,
    deadline_s: float | None = None,
) -> Upload:
    """One worker after the other, in the order of their numbers, each on the whole band.

    SINR_i = α_i p_i. The round lasts as long as all airtimes together. At a deadline the worker
    on the air stops and those behind it do not begin.

    Args:
        csi: H, (..., L, L).
        present: who has something to send, (..., L) bool.
        bits: Z, a scalar or (L,).
        bandwidth_hz: B.
        pmax_w: largest power, () or (L,).
        static_power_w: P_c, () or (L,).
        seconds_per_joule: κ, how many seconds one joule is worth; 0 sends at Pmax.
        deadline_s: end of the round, if it has one.
    """
    gain = csi.diagonal(dim1=-2, dim2=-1)
    power = power_alone(gain, pmax_w, static_power_w, seconds_per_joule) * present
    needed = torch.where(present, airtime(gain * power, bits, bandwidth_hz), 0.0)
    begins = needed.cumsum(-1) - needed
    left = torch.full_like(needed, math.inf) if deadline_s is None else deadline_s - begins
    spent = torch.minimum(needed, left.clamp_min(0.0))
    return _alone(gain * power, power, bits, needed, spent, spent.sum(-1))


def ofdma(
    csi: Tensor,
    present: Tensor,
    bits: float | Tensor,
    bandwidth_hz: float,
    pmax_w: Tensor,
    static_power_w: Tensor,
    *,
    seconds_per_joule: float = 0.0,
    deadline_s: float | None = None,
) -> Upload:
    """Everyone at once, each of n workers on B/n for the whole round; arguments as for tdma.

    The noise power shrinks with the share of the band: SINR_i = n α_i p_i. The round lasts as
    long as the slowest upload.
    """
    count = present.sum(-1, keepdim=True).clamp_min(1)
    gain = count * csi.diagonal(dim1=-2, dim2=-1)
    power = power_alone(gain, pmax_w, static_power_w, seconds_per_joule) * present
    needed = torch.where(present, count * airtime(gain * power, bits, bandwidth_hz), 0.0)
    spent = needed if deadline_s is None else needed.clamp_max(deadline_s)
    return _alone(gain * power, power, bits, needed, spent, spent.amax(-1))


def power_alone(
    gain: Tensor, pmax_w: Tensor, static_power_w: Tensor, seconds_per_joule: float
) -> Tensor:
    """The p ≤ Pmax that minimises (1 + κ (p + P_c)) / ln(1 + α p), (..., L) W; Pmax for κ = 0.

    That is the most efficient power of a worker with a static power of P_c + 1/κ.

    Args:
        gain: α, the SNR per watt on what the worker has of the band, (..., L).
        pmax_w: largest power, () or (L,).
        static_power_w: P_c, () or (L,).
        seconds_per_joule: κ ≥ 0.
    """
    limit = pmax_w.to(gain).expand(gain.shape)
    if seconds_per_joule == 0:
        return limit
    best = most_efficient_power(gain, static_power_w + 1 / seconds_per_joule)
    return torch.minimum(best.to(gain), limit)


def _alone(
    snr: Tensor,
    power: Tensor,
    bits: float | Tensor,
    needed: Tensor,
    spent: Tensor,
    duration_s: Tensor,
) -> Upload:
    """Uploads at constant SNR that need ``needed`` seconds and get ``spent`` of them."""
    present = power > 0
    total = torch.as_tensor(bits, dtype=snr.dtype, device=snr.device).expand(snr.shape)
    share = torch.where(present, spent / torch.where(present, needed, 1.0), 0.0)
    return Upload(
        duration_s=duration_s,
        power=power,
        airtime_s=spent,
        sent_bits=share * total,
        finished=present & (spent >= needed),
        sinr=snr,
        mean_inverse_sinr=torch.where(present, 1 / torch.where(present, snr, 1.0), math.inf),
    )
