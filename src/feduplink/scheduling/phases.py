"""Phases of a round: what they deliver and cost, and their local improvement at given prices.

What a phase is worth at prices λ of the rates and κ of energy is a Lagrangian,

    Σ_i λ_i R_i(p) − κ Σ_{i on} (p_i + P_c,i),

with two kinds of steps upwards, for all phases of all rounds at once:

- *switching*: of the L phases in which one worker is switched on or off, the one that is worth
  most. Who is switched on sends at the power that is best against what it costs the others by their
  slopes. Losses are convex in the power that causes them, so the slopes overstate them, and
  the worth that decides is the exact one;
- *fixed-point steps* of the powers: the bound Σ λ_i a_i ln SINR_i with a_i = SINR_i / (1 + SINR_i)
  touches the rates and is concave in log-powers (Papandriopoulos and Evans, SCALE, 2009); at its
  peak p_i = λ_i a_i / (κ + Σ_j λ_j a_j β_ji / (1 + Σ β p)).

Newton's method climbs further in one step and takes a hundred operations for it. Mixtures do not
need the summit: the prices are others as soon as the program has seen the new phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from feduplink import link
from feduplink.scheduling.array_module import Array, array_module

if TYPE_CHECKING:
    from feduplink.lagrangian import ChannelBatch
    from feduplink.scheduling.learned import PricedRounds

#: By so much phases are stretched, so that rounding leaves no bit behind.
_ROUNDING = 1e-12
#: In the place of what is delivered of who has nothing to deliver.
_NOTHING = 1e-300


#: Channels with the radio's constants, as tensors of many rounds or as arrays of one.
Channels: TypeAlias = "ChannelBatch | PricedRounds"


def phase_sinr(channels: Channels, power: Array) -> Array:
    """SINR of every worker in every phase, (..., K, L), at powers (..., K, L) W."""
    interference = link.interference_of_each(channels.cross, power)
    return channels.direct[..., None, :] * power / interference


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


#: Powers on the air stay above this share of Pmax.
_LOWEST = 1e-6
#: Below every price of interest, so that what costs nothing is no division by 0.
_FREE = 1e-30
_FIXED_POINT_STEPS = 3


class Response(NamedTuple):
    """How the workers of a phase are received, and what a change of their powers is worth.

    Attributes:
        interference: 1 + Σ β p, (..., K, L), as all of them.
        signal: α p.
        total: signal, interference and noise.
        pull: λ SINR / (1 + SINR), the slope of the rates' worth in ln p.
        tax: κ and what the others lose, per watt.
    """

    interference: Array
    signal: Array
    total: Array
    pull: Array
    tax: Array


def ascend(channels: Channels, power: Array, prices: Array, seconds_per_joule: Array) -> Array:
    """Phases that are worth more, (..., K, L) W: one worker switched, then all powers moved.

    Args:
        channels: α (..., L), β (..., L, L), Pmax and P_c (L,).
        power: (..., K, L) W.
        prices: λ ≥ 0 of the rates, (..., L) s.
        seconds_per_joule: κ, a number or (..., 1, 1).
    """
    steps = AscentSteps(channels, power, prices, seconds_per_joule)
    return steps.move_all(steps.switch_one(power))


class AscentSteps:
    """Steps at prices of rates and energy, arguments as of :func:`ascend`."""

    def __init__(
        self, channels: Channels, power: Array, prices: Array, seconds_per_joule: Array
    ) -> None:
        xp = array_module(power)
        self._channels, self._kappa = channels, seconds_per_joule
        self._prices = prices[..., None, :, None]
        # As every step needs them.
        self._gain = xp.rows(channels.direct, power.shape[-2])
        self._weight = xp.rows(prices, power.shape[-2])
        self._heard = xp.contiguous(channels.cross.mT)
        self._energy_price = seconds_per_joule + _FREE

    def switch_one(self, power: Array) -> Array:
        """The phases with the one worker switched that makes them worth most, if any does."""
        xp, gain, weight = array_module(power), self._gain, self._weight
        channels, seen = self._channels, self.respond(power)
        one, zero, interference = xp.float64(1.0), xp.float64(0.0), seen.interference
        alone = xp.minimum(weight / seen.tax - interference / gain, channels.pmax_w)
        other = xp.at_least(alone, zero) * (power == zero)
        change = other - power
        # (..., K, i, j): how worker j is received if worker i is switched.
        disturbed = self._heard[..., None, :, :] * change[..., None] + interference[..., None, :]
        # Not log1p, which takes thrice as long: rates below 1e-12 decide nothing.
        rates = xp.log(one + seen.signal[..., None, :] / disturbed)
        before = xp.log(seen.total / interference)
        own = xp.log(one + gain * other / interference) - before
        # Whoever is switched was silent before or is so after.
        drawn = change + xp.sign(change) * channels.static_power_w
        worth = (rates @ self._prices)[..., 0] + weight * own - self._kappa * drawn
        most = xp.largest(worth, -1)[..., None]
        better = most > xp.dot_along(weight, before)[..., None]
        return xp.where((worth == most) & better, other, power)

    def move_all(self, power: Array) -> Array:
        """A few fixed-point steps of the powers of who is on the air."""
        xp = array_module(power)
        highest = (power > xp.float64(0.0)) * self._channels.pmax_w
        lowest = xp.float64(_LOWEST) * highest
        for _ in range(_FIXED_POINT_STEPS):
            seen = self.respond(power)
            power = xp.minimum(xp.maximum(seen.pull / seen.tax, lowest), highest)
        return power

    def respond(self, power: Array) -> Response:
        """Signals, interference and slopes at powers (..., K, L) W."""
        # Not link.interference_of_each: β is transposed once for all steps.
        interference = array_module(power).float64(1.0) + power @ self._heard
        signal = self._gain * power
        total = interference + signal
        pull = self._weight * signal / total
        tax = self._energy_price + (pull / interference) @ self._channels.cross
        return Response(interference, signal, total, pull, tax)


def best_alone(channels: Channels, seconds_per_joule: Array) -> Array:
    """As :func:`feduplink.link.power_alone`, of tensors or arrays, for κ (..., 1); (..., L) W."""
    # For κ = 0 the power of the largest rate, which is far above Pmax.
    static_power_w = channels.static_power_w + 1 / (seconds_per_joule + _FREE)
    best = link.most_efficient_power(channels.direct, static_power_w)
    return array_module(best).minimum(best, channels.pmax_w)
