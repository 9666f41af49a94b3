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

from feduplink.schedule.array_module import Array, array_module, at_least
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
    sinr: Array
    slope: Array
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
    on_air = power > 0
    lowest, highest = on_air * (_LOWEST * channels.pmax_w), on_air * channels.pmax_w
    for _ in range(_FIXED_POINT_STEPS):
        seen = _respond(channels, power, weight, seconds_per_joule)
        best = weight * seen.slope / (seen.tax + _FREE)
        power = xp.minimum(xp.maximum(best, lowest), highest)
    return power


def switch_one(channels: Channels, power: Array, prices: Array, seconds_per_joule: Array) -> Array:
    """The phases with the one worker switched on or off that makes them worth most, if any does."""
    xp, weight = array_module(power), prices[..., None, :]
    seen = _respond(channels, power, weight, seconds_per_joule)
    on_air = power > 0
    gain = channels.direct[..., None, :]
    alone = weight / (seen.tax + _FREE) - seen.interference / gain
    alone = xp.minimum(at_least(alone, 0.0), channels.pmax_w)
    other = xp.where(on_air, 0.0, alone)
    received = gain * power
    # (..., K, i, j): how worker j is received if worker i is switched.
    disturbed = (
        seen.interference[..., None, :]
        + channels.cross.mT[..., None, :, :] * (other - power)[..., None]
    )
    rates = xp.log1p(received[..., None, :] / disturbed)
    own = xp.log1p(gain * other / seen.interference) - xp.log1p(seen.sinr)
    drawn = (other - power) + ((other > 0) * 1.0 - on_air * 1.0) * channels.static_power_w
    worth = (rates @ weight[..., None])[..., 0] + weight * own - seconds_per_joule * drawn
    before = (weight * xp.log1p(seen.sinr)).sum(-1)[..., None]
    most = xp.amax(worth, -1)[..., None]
    return xp.where((worth == most) & (most > before), other, power)


def best_alone(channels: Channels, seconds_per_joule: Array) -> Array:
    """The p ≤ Pmax of the least (1 + κ (p + P_c)) / ln(1 + α p) of everyone alone, (..., L) W.

    Dinkelbach's method: the best answer to what the rate costs at the last one. κ is a number or
    (..., 1).
    """
    gain = channels.direct
    xp = array_module(gain)
    power = channels.pmax_w + 0 * gain
    for _ in range(_DINKELBACH_STEPS):
        drawn = power + channels.static_power_w
        price = (1 + seconds_per_joule * drawn) / xp.log1p(gain * power)
        best = price / (seconds_per_joule + _FREE) - 1 / gain
        power = xp.minimum(xp.maximum(best, _LOWEST * channels.pmax_w), channels.pmax_w)
    return power


def _respond(channels: Channels, power: Array, weight: Array, kappa: Array) -> _Response:
    interference = 1 + power @ channels.cross.mT
    sinr = channels.direct[..., None, :] * power / interference
    slope = sinr / (1 + sinr)
    tax = kappa + (weight * slope / interference) @ channels.cross
    return _Response(interference, sinr, slope, tax)
