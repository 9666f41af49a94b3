"""The network of learned schedules and its features: permutation equivariant, for any κ and number
of workers.

There is a phase for every worker, in which it is sure to send; the network decides who sends beside
it, and all powers, in a few steps on what it sees of them.

Powers are relative to Pmax, and the channels with them, so that watts come in only at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from feduplink.randomness import stream_seed
from feduplink.scheduling.array_module import Array, array_module

if TYPE_CHECKING:
    from feduplink.scheduling.learned import PricedRounds

WIDTH = 32
STEPS = 3
#: How large is what there is to see of a worker in a phase and stays: ln α Pmax of the worker and
#: of the one whose phase it is, ln β Pmax to and from that one, whether it is that one, ln of what
#: its model is worth, of its price and of the cost of its circuits.
_FIXED_SIZES = (5.0, 5.0, 5.0, 5.0, 1.0, 3.0, 3.0, 3.0)
#: The same of what a step changes: ln Pmax / p, ln of the interference, of what its SINR is worth
#: and of the harm it does; the harm, whether it is on the air, what that is worth, and the phase.
_CHANGING_SIZES = (-5.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 0.5)
_FEATURES = len(_FIXED_SIZES), len(_CHANGING_SIZES)
#: Where the modules' matrices have them: what stays, then what changes in another order.
_PLACES = (*range(8), 8, 9, 11, 12, 14, 10, 13, 15)
#: The modules say by how much ln p / Pmax grows, steps by how much ln Pmax / p does.
_SIGNS = (-1.0, 1.0)
_NORM_EPSILON = 1e-5


class PhaseNetwork(nn.Module):
    """The weights of a few learned ascent steps on the Lagrangians of a round's phases.

    Every step sees, of every worker in every phase, its SINR, what more power would bring it and
    cost the others, and what the phase is worth; it remembers what it saw, and hears of those that
    disturb it, of those that it disturbs, of the whole phase, and of itself in the other phases.
    Permutation equivariant; all inputs are logarithms relative to the noise and to the costs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(sum(_FEATURES), WIDTH)
        self.start = nn.Linear(WIDTH, 2)
        self.steps = nn.ModuleList(_Step() for _ in range(STEPS))

    @classmethod
    def initialised(cls, seed: int = 0) -> PhaseNetwork:
        """A network with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor]) -> PhaseNetwork:
        """A network with these weights, by name, that are not trained any further."""
        network = cls()
        network.load_state_dict(dict(weights))
        return network.requires_grad_(False)

    @property
    def weights(self) -> NetworkWeights:
        """As tensors that training moves."""
        plain = torch.cat((torch.eye(WIDTH), torch.zeros(1, WIDTH))).to(self.embed.weight)
        start = _plus_bias(plain @ self.start.weight.T, self.start.bias)
        steps = []
        for module in self.steps:
            step = cast(_Step, module)
            steps.append(step.weights(plain))
            plain = step.plain
        return NetworkWeights(
            embed=_of_features(self.embed.weight.T),
            embed_bias=self.embed.bias,
            start=start * start.new_tensor(_SIGNS),
            steps=tuple(steps),
        )


class _Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Linear(3 * WIDTH + sum(_FEATURES), 2 * WIDTH, bias=False)
        self.look_at_phase = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.look_at_worker = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conclude = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=_NORM_EPSILON)
        self.read = nn.Linear(WIDTH, 2, bias=False)

    @property
    def plain(self) -> Tensor:
        """Memories after the step from those that :func:`network_step` makes, (W + 1, W)."""
        scale = torch.diag(self.norm.weight * math.sqrt(WIDTH))
        return torch.cat((scale, self.norm.bias[None]))

    def weights(self, plain: Tensor) -> StepWeights:
        """With memories before the step from those of :func:`network_step` by ``plain``."""
        *memories, features = self.look.weight.T.split((WIDTH,) * 3 + (sum(_FEATURES),))
        read = self.plain @ self.read.weight.T
        return StepWeights(
            look=torch.cat((_of_features(features), *(plain @ memory for memory in memories))),
            look_at_phase=plain @ self.look_at_phase.weight.T,
            look_at_worker=plain @ self.look_at_worker.weight.T,
            keep=_centred(_plus_bias(plain, self.conclude.bias)),
            conclude=_centred(self.conclude.weight.T),
            read=read * read.new_tensor(_SIGNS),
        )


@dataclass(frozen=True)
class StepWeights:
    """Matrices of a step, from what goes in (rows) to what comes out (columns), W the width.

    What is linear is one matrix: the scale and the shift of a normalisation are in the matrices
    that follow it, and its subtraction of the mean is in those before. In products with memories
    the last row is a bias.

    Attributes:
        look: of what there is to see, memories, and those of others, (16 + 3 (W + 1), 2 W).
        look_at_phase, look_at_worker: of means of memories, (W + 1, 2 W).
        keep: what stays of memories, (W + 1, W).
        conclude: (2 W, W).
        read: (W + 1, 2).
    """

    look: Array
    look_at_phase: Array
    look_at_worker: Array
    keep: Array
    conclude: Array
    read: Array


@dataclass(frozen=True)
class NetworkWeights:
    """Matrices of the network, with what there is to see not yet divided by how large it is.

    Attributes:
        embed, embed_bias: of what there is to see, (16, W) and (W,).
        start: of memories, (W + 1, 2).
        steps: of the steps.
    """

    embed: Array
    embed_bias: Array
    start: Array
    steps: tuple[StepWeights, ...]

    def arrays(self) -> NetworkWeights:
        """The same as NumPy's arrays."""
        embed, embed_bias, start = map(_as_array, (self.embed, self.embed_bias, self.start))
        steps = tuple(StepWeights(*map(_as_array, vars(step).values())) for step in self.steps)
        return NetworkWeights(embed, embed_bias, start, steps)


class Sight(NamedTuple):
    """What there is to see of every worker in every phase.

    Attributes:
        features: side by side (..., K, L, 16).
        share: of every worker's interference, by whom it comes from, (..., K, L, L).
    """

    features: tuple[Array, ...]
    share: Array


def first_look(weights: NetworkWeights, sight: Sight) -> tuple[Array, Array]:
    """Memories (..., K, L, W + 1), of which the last is one, and first changes of the logits.

    Those are (..., K, L, 2).
    """
    xp = array_module(sight.share)
    seen = xp.concatenate(sight.features, -1)
    memory = xp.silu(_flat(seen) @ weights.embed + weights.embed_bias)
    memory = xp.with_ones(memory, xp.float32(1.0))
    return _unflat(memory, seen), _unflat(memory @ weights.start, seen)


def network_step(step: StepWeights, memory: Array, sight: Sight) -> tuple[Array, Array]:
    """New memories (..., K, L, W + 1), and changes of the logits (..., K, L, 2)."""
    xp, (features, share) = array_module(memory), sight
    heard = xp.concatenate((*features, memory, share @ memory, share.mT @ memory), -1)
    of_phase, of_worker = xp.means(memory)
    phase, worker = of_phase @ step.look_at_phase, of_worker @ step.look_at_worker
    seen = _unflat(_flat(heard) @ step.look, heard)
    seen = seen + (phase[..., None, :] + worker[..., None, :, :])
    flat = _flat(memory) @ step.keep + xp.silu(_flat(seen)) @ step.conclude
    squares = xp.dot_along(flat, flat)[:, None]
    flat = xp.with_ones(flat, xp.sqrt(squares + xp.float32(WIDTH * _NORM_EPSILON)))
    return _unflat(flat, memory), _unflat(flat @ step.read, memory)


def _flat(values: Array) -> Array:
    # One product of two matrices: NumPy would make one for every phase.
    return values.reshape(-1, values.shape[-1])


def _unflat(flat: Array, like: Array) -> Array:
    return flat.reshape(*like.shape[:-1], flat.shape[-1])


def _of_features(weights: Tensor) -> Tensor:
    """Rows of a module's matrix as what there is to see comes, and as large as that is."""
    sizes = weights.new_tensor(_FIXED_SIZES + _CHANGING_SIZES)
    return weights[list(_PLACES)] / sizes[:, None]


def _plus_bias(weights: Tensor, bias: Tensor) -> Tensor:
    return torch.cat((weights[:-1], weights[-1:] + bias))


def _centred(weights: Tensor) -> Tensor:
    return weights - weights.mean(1, keepdim=True)


def _as_array(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().numpy())


_SMALL, _TINY, _LARGE = 1e-3, 1e-6, 3.0
#: Lowest power on the air, relative to Pmax.
_LOWEST = 1e-6
#: Largest attenuation ln Pmax / p that the network starts from.
_START = 6.0
#: Powers under e to minus this of Pmax are not told apart.
_MOST_ATTENUATION = 40.0
#: A logit of being on the air that no step can turn round.
_SURE = 1e9


class NetworkView:
    """What the network sees in float32, at prices λ (..., L) of the workers' rates.

    Logits (..., K, L, 2) are a worker's attenuation a in a phase, p = Pmax / (1 + e^a), and whether
    it is on the air, which it is if that is above 0.
    """

    def __init__(self, rounds: PricedRounds, multipliers: Array) -> None:
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
        # Not link.interference_of_each: in float32 and with β transposed once for all steps.
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
