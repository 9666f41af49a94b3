"""A better phase at the prices of a linear program, in a few dozen operations.

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

from dataclasses import dataclass

from feduplink.schedule.array_module import Array, array_module, at_least, largest, sum_along
from feduplink.schedule.mixture import Channels

#: Powers on the air stay above this share of Pmax.
_LOWEST = 1e-6
#: Below every price of interest, so that what costs nothing is no division by 0.
_FREE = 1e-30
_FIXED_POINT_STEPS = 3
#: Steps of Dinkelbach's method, each of which doubles the digits.
_DINKELBACH_STEPS = 4


@dataclass(frozen=True)
class _Response:
    """What a phase looks like to those who could change their power in it, all (..., K, L)."""

    interference: Array
    #: 1 + SINR.
    received: Array
    #: λ SINR / (1 + SINR).
    pull: Array
    #: κ and what others lose, per watt.
    tax: Array


def ascend(channels: Channels, power: Array, prices: Array, seconds_per_joule: Array) -> Array:
    """Phases that are worth more, (..., K, L) W: one worker switched, then all powers moved.

    Args:
        channels: α (..., L), β (..., L, L), Pmax and P_c (L,).
        power: (..., K, L) W.
        prices: λ ≥ 0 of the rates, (..., L) s.
        seconds_per_joule: κ, a number or (..., 1, 1).
    """
    power = switch_one(channels, power, prices, seconds_per_joule)
    xp, weight = array_module(power), prices[..., None, :]
    highest = (power > 0) * channels.pmax_w
    lowest = _LOWEST * highest
    for _ in range(_FIXED_POINT_STEPS):
        seen = _respond(channels, power, weight, seconds_per_joule)
        power = xp.minimum(xp.maximum(seen.pull / seen.tax, lowest), highest)
    return power


def switch_one(channels: Channels, power: Array, prices: Array, seconds_per_joule: Array) -> Array:
    """The phases with the one worker switched on or off that makes them worth most, if any does."""
    xp, weight = array_module(power), prices[..., None, :]
    seen = _respond(channels, power, weight, seconds_per_joule)
    gain, interference = channels.direct[..., None, :], seen.interference
    alone = xp.minimum(weight / seen.tax - interference / gain, channels.pmax_w)
    other = at_least(alone, 0.0) * (power == 0)
    change = other - power
    # (..., K, i, j): how worker j is received if worker i is switched.
    disturbed = interference[..., None, :] + channels.cross.mT[..., None, :, :] * change[..., None]
    rates = xp.log1p((gain * power)[..., None, :] / disturbed)
    before = xp.log(seen.received)
    own = xp.log1p(gain * other / interference) - before
    # Whoever is switched was silent before or is so after.
    drawn = change + xp.sign(change) * channels.static_power_w
    worth = (rates @ weight[..., None])[..., 0] + weight * own - seconds_per_joule * drawn
    most = largest(worth)[..., None]
    better = most > sum_along(weight * before)[..., None]
    return xp.where((worth == most) & better, other, power)


def best_alone(channels: Channels, seconds_per_joule: Array) -> Array:
    """The p ≤ Pmax of the least (1 + κ (p + P_c)) / ln(1 + α p) of everyone alone, (..., L) W.

    Dinkelbach's method: the best answer to what the rate costs at the last one. κ is a number or
    (..., 1).
    """
    gain, pmax_w = channels.direct, channels.pmax_w
    xp = array_module(gain)
    alone, lowest = 1 / gain, _LOWEST * pmax_w
    on_air = 1 + seconds_per_joule * channels.static_power_w
    per_joule = 1 / (seconds_per_joule + _FREE)
    power = pmax_w + 0 * gain
    for _ in range(_DINKELBACH_STEPS):
        price = (on_air + seconds_per_joule * power) / xp.log1p(gain * power)
        power = xp.minimum(xp.maximum(price * per_joule - alone, lowest), pmax_w)
    return power


def _respond(channels: Channels, power: Array, weight: Array, kappa: Array) -> _Response:
    interference = 1 + power @ channels.cross.mT
    sinr = channels.direct[..., None, :] * power / interference
    received = 1 + sinr
    pull = weight * (sinr / received)
    tax = kappa + _FREE + (pull / interference) @ channels.cross
    return _Response(interference, received, pull, tax)
