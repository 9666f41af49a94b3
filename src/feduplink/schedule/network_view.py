"""What the network of learned schedules sees of rounds, and the powers that its logits stand for.

Powers are relative to Pmax, and the channels with them, so that watts come in only at the end.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from feduplink.schedule.array_module import Array, array_module
from feduplink.schedule.mixture import Channels
from feduplink.schedule.phase_network import Sight

_SMALL, _TINY, _LARGE = 1e-3, 1e-6, 3.0
#: Lowest power on the air, relative to Pmax.
_LOWEST = 1e-6
#: Largest attenuation ln Pmax / p that the network starts from.
_START = 6.0
#: Powers under e to minus this of Pmax are not told apart.
_MOST_ATTENUATION = 40.0
#: A logit of being on the air that no step can turn round.
_SURE = 1e9


class PricedChannels(Channels, Protocol):
    """Channels with what is wanted of them, and for which price."""

    @property
    def demand(self) -> Array:
        """w, (..., L) nats/Hz."""

    @property
    def kappa(self) -> Array:
        """κ, (..., 1, 1) s/J."""


class NetworkView:
    """What the network sees in float32, at prices λ (..., L) of the workers' rates.

    Logits (..., K, L, 2) are a worker's attenuation a in a phase, p = Pmax / (1 + e^a), and whether
    it is on the air, which it is if that is above 0.
    """

    def __init__(self, rounds: PricedChannels, multipliers: Array) -> None:
        self._pmax_w = rounds.pmax_w
        self._takes_part = rounds.demand > 0
        xp, count = array_module(multipliers), multipliers.shape[-1]
        price = xp.in_single(xp.at_least(multipliers, 0.0))
        received = xp.in_single(rounds.direct * rounds.pmax_w)
        cross = self._cross = xp.in_single(rounds.cross * rounds.pmax_w)
        self._heard = xp.contiguous(cross.mT)
        kappa = rounds.kappa[..., 0]
        static_cost = xp.in_single(kappa * rounds.static_power_w)
        self._price, self._received = xp.rows(price, count), xp.rows(received, count)
        self._kappa = xp.rows(xp.in_single(kappa * rounds.pmax_w), count)
        self._static_cost = xp.rows(static_cost, count)
        gain, towards = xp.log(received), xp.log(cross + _TINY)
        worth = price * xp.in_single(xp.at_least(rounds.demand, _TINY))
        self._own, self._gain = xp.identity(gain), gain
        fixed = (
            gain[..., None, :],
            gain[..., :, None],
            towards,
            towards.mT,
            self._own,
            xp.log(xp.at_least(worth, _SMALL))[..., None, :],
            xp.log(price + _SMALL)[..., None, :],
            xp.log(static_cost + _SMALL)[..., None, :],
        )
        self._fixed = xp.first_last(xp.stack_first(fixed, towards))

    def first_logits(self) -> Array:
        """Everyone received alike, but for the one whose phase it is, (..., K, L, 2)."""
        gain, own, xp = self._gain, self._own, array_module(self._gain)
        above = gain + xp.largest(-gain, -1)[..., None]
        attenuation = xp.at_most(above, _START)[..., None, :] * (1 - own)
        # On the air for sure; 0: if the network says so; not at all.
        on_air = xp.where(self._takes_part[..., None, :], _SURE * own, -_SURE)
        return xp.first_last(xp.stack_first((attenuation, on_air), attenuation))

    def phases(self, logits: Array) -> tuple[Array, Array]:
        """Powers (..., K, L) W, and who is on the air, 0 or 1 with slopes of a soft gate."""
        xp = array_module(logits)
        on_air = _on_air(logits)
        power = xp.at_most(_LOWEST + 1 / _inverse_power(logits), 1.0)
        power, on_air = xp.in_double(power), xp.in_double(on_air)
        return self._pmax_w * power * on_air, on_air

    def sight(self, logits: Array) -> Sight:
        """Of every worker in every phase what there is to see."""
        price, cross, xp = self._price, self._cross, array_module(logits)
        one, tiny = xp.float32(1.0), xp.float32(_TINY)
        inverse, on_air = _inverse_power(logits), _on_air(logits)
        would = one / inverse
        power = (xp.float32(_LOWEST) + would) * on_air
        interference = one + power @ self._heard
        signal = self._received * would
        total = interference + signal
        by_sinr = price * signal / total
        harm = would * ((on_air * by_sinr / interference) @ cross + self._kappa)
        value = price * xp.log(total / interference) - (self._kappa * would + self._static_cost)
        excess = xp.dot_along(on_air, value)[..., None] - one
        # Of the first four the logarithms, of the last four as they are, but for extremes.
        value = xp.at_least(value, xp.float32(-_LARGE))
        planes = (inverse, interference, by_sinr + tiny, harm + tiny, on_air, value, excess)
        stacked = xp.stack_first(planes, power)
        logs, limited = xp.log(stacked[:4]), xp.at_most(stacked[3:], xp.float32(_LARGE))
        features = (self._fixed, xp.first_last(logs), xp.first_last(limited))
        share = cross[..., None, :, :] * (power[..., None, :] / interference[..., None])
        return Sight(features, share)


def _inverse_power(logits: Array) -> Array:
    """Pmax / p, (..., K, L)."""
    xp = array_module(logits)
    most = xp.float32(_MOST_ATTENUATION)
    return xp.float32(1.0) + xp.exp(xp.at_most(logits[..., 0], most))


def _on_air(logits: Array) -> Array:
    """1 or 0, (..., K, L); with the slopes of a soft gate, which this has none of."""
    xp = array_module(logits)
    gate = xp.in_single(logits[..., 1] > xp.float32(0.0))
    if isinstance(logits, Tensor) and logits.requires_grad:
        soft = torch.sigmoid(logits[..., 1])
        gate = gate + soft - soft.detach()
    return gate
