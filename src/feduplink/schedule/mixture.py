"""Phases with durations as a schedule that is sure to deliver."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian import ChannelBatch
from feduplink.link import Schedule

#: By so much phases are stretched, so that rounding leaves no bit behind.
_ROUNDING = 1e-12


def phase_rates(batch: ChannelBatch, power: Tensor) -> Tensor:
    """R of every worker in every phase, (N, K, L) nats/s/Hz, at powers (N, K, L) W."""
    sinr = batch.direct[:, None] * power / (1 + power @ batch.cross.mT)
    return link.rate(sinr)


def mixed_schedule(
    batch: ChannelBatch, power: Tensor, durations: Tensor, demand: Tensor
) -> Schedule:
    """Phases (N, K, L) W for about ``durations`` (N, K) s, which deliver ``demand`` (N, L).

    Most senders come first. Phases without length or senders are silent.
    """
    durations = torch.where((power > 0).any(-1), durations, 0.0)
    delivered = (durations[:, None] @ phase_rates(batch, power))[:, 0]
    missing = torch.where(demand > 0, demand / delivered, 1.0).amax(-1, keepdim=True)
    durations = durations * missing.clamp_min(1.0) * (1 + _ROUNDING)
    power = torch.where(durations[..., None] > 0, power, 0.0)
    order = (power > 0).sum(-1).argsort(dim=-1, descending=True, stable=True)
    power = power.gather(1, order[..., None].expand_as(power))
    return Schedule(durations.gather(1, order), power)
