"""Rates, cost and local improvement of the phases of a round at given prices.

The value of a phase at prices λ of the rates and κ of energy is the Lagrangian

    Σ_i λ_i R_i(p) − κ Σ_{i: p_i > 0} (p_i + P_c,i).

Two kinds of ascent steps run on all phases of all rounds at once:

- *switching*: among the L phases in which one worker is switched on or off, take the one with the
  highest value. A worker that is switched on gets the power that maximises its own value minus the
  linearised loss of the others. Losses are convex in the power that causes them, so they are
  overestimated; the exact value decides;
- *fixed-point steps* of the powers: the bound Σ λ_i a_i ln SINR_i with a_i = SINR_i / (1 + SINR_i)
  touches the rates and is concave in log-powers (Papandriopoulos and Evans, SCALE, 2009); its
  maximum is at p_i = λ_i a_i / (κ + Σ_j λ_j a_j β_ji / (1 + Σ β p)).

A Newton step gains more and takes a hundred operations. Exact maxima are not needed, because the
prices change as soon as the linear program includes the new phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from feduplink import link
from feduplink.scheduling.array_module import Array, array_module

if TYPE_CHECKING:
    from feduplink.lagrangian import ChannelBatch
    from feduplink.scheduling.learned import PricedRounds

#: Relative extension of durations, so that rounding errors do not leave a bit undelivered.
_ROUNDING_MARGIN = 1e-12
#: Lower clamp of deliveries in divisions, for workers without a demand.
_MIN_DELIVERED = 1e-300


#: Channels with the radio's constants, as tensors of many rounds or as arrays of one.
Channels: TypeAlias = "ChannelBatch | PricedRounds"


def phase_sinr(channels: Channels, power: Array) -> Array:
    """SINR of every worker in every phase.

    Args:
        channels: α (..., L) and β (..., L, L).
        power: (..., K, L), W.

    Returns:
        (..., K, L), linear.
    """
    interference = link.interference_of_each(channels.cross, power)
    return channels.direct[..., None, :] * power / interference


def phase_rates(channels: Channels, power: Array) -> Array:
    """Rate R = ln(1 + SINR) of every worker in every phase.

    Args:
        channels: α (..., L) and β (..., L, L).
        power: (..., K, L), W.

    Returns:
        (..., K, L), nats/s/Hz.
    """
    return array_module(power).log1p(phase_sinr(channels, power))


def phase_cost(channels: Channels, power: Array, seconds_per_joule: Array) -> Array:
    """Cost 1 + κ Σ_{i: p_i > 0} (p_i + P_c,i) per second of every phase.

    Args:
        channels: P_c (L,).
        power: (..., K, L), W.
        seconds_per_joule: κ, a number or (..., 1), s/J.

    Returns:
        (..., K).
    """
    drawn_power = power + (power > 0) * channels.static_power_w
    return 1 + seconds_per_joule * array_module(power).sum_along(drawn_power, -1)


def mixed_phases(
    channels: Channels, power: Array, durations: Array, demand: Array
) -> tuple[Array, Array]:
    """Stretch the durations of phases until they deliver the demand, and sort the phases.

    Args:
        channels: α (..., L) and β (..., L, L).
        power: (..., K, L), W.
        durations: (..., K), s.
        demand: w, (..., L), nats/Hz.

    Returns:
        Durations (..., K) in s and powers (..., K, L) in W, in descending number of senders. Phases
        without duration or senders are silent.
    """
    xp = array_module(power)
    senders = xp.sum_along(power > 0, -1)
    durations = durations * (senders > 0)
    delivered = (durations[..., None, :] @ phase_rates(channels, power))[..., 0, :]
    extension = demand / xp.at_least(delivered, _MIN_DELIVERED)
    stretch = xp.max_along(xp.at_least(extension, 1.0), -1) * (1 + _ROUNDING_MARGIN)
    durations = durations * stretch[..., None]
    is_used = durations > 0
    power = power * is_used[..., None]
    order = xp.stable_argsort(-senders * is_used)
    return xp.take_rows(durations, order), xp.take_rows(power, order)


#: Lowest power of a transmitting worker, relative to Pmax.
_MIN_RELATIVE_POWER = 1e-6
#: Added to κ to avoid a division by 0 at κ = 0; far below every price in use, s/J.
_MIN_ENERGY_PRICE = 1e-30
_FIXED_POINT_STEPS = 3


class Response(NamedTuple):
    """Received powers of the workers in each phase, and the slopes of the phase's value.

    Attributes:
        interference: noise plus interference 1 + Σ β p, relative to the noise, (..., K, L).
        signal: received power α p, relative to the noise, (..., K, L).
        total: signal plus noise plus interference, (..., K, L).
        rate_slope: λ SINR / (1 + SINR), slope of the rates' value in ln p, (..., K, L).
        power_price: κ plus the marginal loss of the other workers, per W, (..., K, L).
    """

    interference: Array
    signal: Array
    total: Array
    rate_slope: Array
    power_price: Array


def ascend(channels: Channels, power: Array, prices: Array, seconds_per_joule: Array) -> Array:
    """Increase the value of phases: switch one worker per phase, then adjust all powers.

    Args:
        channels: α (..., L), β (..., L, L), Pmax and P_c (L,).
        power: (..., K, L), W.
        prices: λ ≥ 0 of the rates, (..., L), s per nat/Hz.
        seconds_per_joule: κ, a number or (..., 1, 1), s/J.

    Returns:
        Powers, (..., K, L), W.
    """
    steps = AscentSteps(channels, power, prices, seconds_per_joule)
    return steps.move_all(steps.switch_one(power))


class AscentSteps:
    """Ascent steps at fixed prices of rates and energy.

    Args:
        channels: α (..., L), β (..., L, L), Pmax and P_c (L,).
        power: any powers of the K phases, (..., K, L), W.
        prices: λ ≥ 0 of the rates, (..., L), s per nat/Hz.
        seconds_per_joule: κ, a number or (..., 1, 1), s/J.
    """

    def __init__(
        self, channels: Channels, power: Array, prices: Array, seconds_per_joule: Array
    ) -> None:
        xp = array_module(power)
        self._channels, self._kappa = channels, seconds_per_joule
        self._prices = prices[..., None, :, None]
        # Shared by all steps.
        self._gain = xp.rows(channels.direct, power.shape[-2])
        self._weight = xp.rows(prices, power.shape[-2])
        self._cross_transposed = xp.contiguous(channels.cross.mT)
        self._energy_price = seconds_per_joule + _MIN_ENERGY_PRICE

    def switch_one(self, power: Array) -> Array:
        """Switch the one worker of each phase that increases the value most, if any does.

        Args:
            power: (..., K, L), W.

        Returns:
            Powers, (..., K, L), W.
        """
        xp, gain, weight = array_module(power), self._gain, self._weight
        channels, response = self._channels, self.respond(power)
        one, zero, interference = xp.float64(1.0), xp.float64(0.0), response.interference
        best_response = xp.minimum(
            weight / response.power_price - interference / gain, channels.pmax_w
        )
        other = xp.at_least(best_response, zero) * (power == zero)
        change = other - power
        # (..., K, i, j): noise and interference of worker j if worker i is switched.
        disturbed = (
            self._cross_transposed[..., None, :, :] * change[..., None] + interference[..., None, :]
        )
        # Not log1p, which takes three times as long; rates below 1e-12 do not affect the decision.
        rates = xp.log(one + response.signal[..., None, :] / disturbed)
        before = xp.log(response.total / interference)
        own_gain = xp.log(one + gain * other / interference) - before
        # The switched worker is silent either before or after.
        drawn_power = change + xp.sign(change) * channels.static_power_w
        value = (rates @ self._prices)[..., 0] + weight * own_gain - self._kappa * drawn_power
        best_value = xp.max_along(value, -1)[..., None]
        better = best_value > xp.dot_last(weight, before)[..., None]
        return xp.where((value == best_value) & better, other, power)

    def move_all(self, power: Array) -> Array:
        """Apply fixed-point steps to the powers (..., K, L) W of the transmitting workers."""
        xp = array_module(power)
        highest = (power > xp.float64(0.0)) * self._channels.pmax_w
        lowest = xp.float64(_MIN_RELATIVE_POWER) * highest
        for _ in range(_FIXED_POINT_STEPS):
            response = self.respond(power)
            power = xp.minimum(
                xp.maximum(response.rate_slope / response.power_price, lowest), highest
            )
        return power

    def respond(self, power: Array) -> Response:
        """Compute received powers and slopes at powers (..., K, L) W."""
        # Not link.interference_of_each, because β is transposed once for all steps.
        interference = array_module(power).float64(1.0) + power @ self._cross_transposed
        signal = self._gain * power
        total = interference + signal
        rate_slope = self._weight * signal / total
        power_price = self._energy_price + (rate_slope / interference) @ self._channels.cross
        return Response(interference, signal, total, rate_slope, power_price)


def best_alone(channels: Channels, seconds_per_joule: Array) -> Array:
    """Power of each worker with the lowest cost per nat without interference, (..., L) W.

    :func:`feduplink.link.power_alone` for tensors or arrays.

    Args:
        channels: α (..., L), Pmax and P_c (L,).
        seconds_per_joule: κ, (..., 1), s/J.
    """
    # At κ = 0 the rate is maximised: the result is far above Pmax and is clipped.
    static_power_w = channels.static_power_w + 1 / (seconds_per_joule + _MIN_ENERGY_PRICE)
    best = link.most_efficient_power(channels.direct, static_power_w)
    return array_module(best).minimum(best, channels.pmax_w)
