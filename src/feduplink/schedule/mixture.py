"""What phases deliver and cost, and phases with durations as a schedule that is sure to deliver."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
from feduplink.link import Schedule
from feduplink.schedule.array_module import Array, array_module

#: By so much phases are stretched, so that rounding leaves no bit behind.
_ROUNDING = 1e-12


class Channels(Protocol):
    """Channels with the radio's constants, as tensors or as arrays."""

    @property
    def direct(self) -> Array:
        """α, (..., L)."""

    @property
    def cross(self) -> Array:
        """β with a zero diagonal, (..., L, L)."""

    @property
    def pmax_w(self) -> Array:
        """Largest power of every worker, (L,) W."""

    @property
    def static_power_w(self) -> Array:
        """P_c of every worker, (L,) W."""


def phase_sinr(channels: Channels, power: Array) -> Array:
    """SINR of every worker in every phase, (..., K, L), at powers (..., K, L) W."""
    return channels.direct[..., None, :] * power / (1 + power @ channels.cross.mT)


def phase_rates(channels: Channels, power: Array) -> Array:
    """R of every worker in every phase, (..., K, L) nats/s/Hz, at powers (..., K, L) W."""
    return array_module(power).log1p(phase_sinr(channels, power))


def phase_cost(channels: Channels, power: Array, seconds_per_joule: Array) -> Array:
    """What a second of every phase costs, 1 + κ Σ_{i on} (p_i + P_c,i), (..., K) s; κ (..., 1)."""
    drawn = power + (power > 0) * channels.static_power_w
    return 1 + seconds_per_joule * drawn.sum(-1)


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
