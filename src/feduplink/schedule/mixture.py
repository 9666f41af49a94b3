"""What phases deliver and cost, and phases with durations as a schedule that is sure to deliver."""

from __future__ import annotations

from typing import Protocol

from feduplink.schedule.array_module import Array, array_module

#: By so much phases are stretched, so that rounding leaves no bit behind.
_ROUNDING = 1e-12
#: In the place of what is delivered of who has nothing to deliver.
_NOTHING = 1e-300


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
    one = array_module(power).float64(1.0)
    return channels.direct[..., None, :] * power / (one + power @ channels.cross.mT)


def phase_rates(channels: Channels, power: Array) -> Array:
    """R of every worker in every phase, (..., K, L) nats/s/Hz, at powers (..., K, L) W."""
    return array_module(power).log1p(phase_sinr(channels, power))


def phase_cost(channels: Channels, power: Array, seconds_per_joule: Array) -> Array:
    """What a second of every phase costs, 1 + κ Σ_{i on} (p_i + P_c,i), (..., K) s; κ (..., 1)."""
    drawn = power + (power > 0) * channels.static_power_w
    return 1 + seconds_per_joule * array_module(power).sum_along(drawn, -1)


def mixed_phases(
    channels: Channels, power: Array, durations: Array, demand: Array
) -> tuple[Array, Array]:
    """Durations (..., K) s and powers (..., K, L) W of phases that deliver ``demand`` (..., L).

    About ``durations`` (..., K) s each, most senders first. Phases without length or senders are
    silent.
    """
    xp = array_module(power)
    senders = xp.sum_along(power > 0, -1)
    durations = durations * (senders > 0)
    delivered = (durations[..., None, :] @ phase_rates(channels, power))[..., 0, :]
    missing = demand / xp.at_least(delivered, _NOTHING)
    longer = xp.largest(xp.at_least(missing, 1.0), -1) * (1 + _ROUNDING)
    durations = durations * longer[..., None]
    on_air = durations > 0
    power = power * on_air[..., None]
    order = xp.order_of(-senders * on_air)
    return xp.take_rows(durations, order), xp.take_rows(power, order)
