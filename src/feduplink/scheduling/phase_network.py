"""The network of learned schedules and its features.

The network proposes one phase per worker, in which that worker always transmits. In a few steps it
decides which other workers transmit in the phase, and all powers. It is permutation equivariant and
accepts any κ and number of workers. Powers and channels are relative to Pmax; watts appear only in
the output.
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

#: Number of components of a state, and number of steps.
WIDTH = 32
STEPS = 3
#: Scales of the fixed features of a worker in a phase: ln α Pmax of the worker and of the phase's
#: worker, ln β Pmax to and from the latter, whether it is the latter, and ln of the value of its
#: upload, of its price and of the cost of its static power.
_FIXED_FEATURE_SCALES = (5.0, 5.0, 5.0, 5.0, 1.0, 3.0, 3.0, 3.0)
#: Scales of the features that steps change: ln Pmax / p, ln of the interference, of the marginal
#: value of the SINR and of the marginal cost of power; that cost, whether the worker transmits, the
#: value of its transmission, and that of the phase.
_VARIABLE_FEATURE_SCALES = (-5.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 0.5)
_FEATURES = len(_FIXED_FEATURE_SCALES), len(_VARIABLE_FEATURE_SCALES)
#: Row of each feature in the modules' matrices.
_FEATURE_ROWS = (*range(8), 8, 9, 11, 12, 14, 10, 13, 15)
#: The modules' first output is the change of ln p / Pmax, that of a step the change of ln Pmax / p.
_LOGIT_SIGNS = (-1.0, 1.0)
_NORM_EPSILON = 1e-5


class PhaseNetwork(nn.Module):
    """A network of a few learned ascent steps on the Lagrangians of a round's phases.

    It has one state per pair of phase and worker. The features are logarithms relative to the noise
    and
    to the costs: the SINR, the marginal value and cost of power, and the value of the phase. Each
    step updates the state from the features and from the states of the workers that interfere, of
    those interfered with, of the same phase and of the same worker in other phases. The network is
    permutation equivariant.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(sum(_FEATURES), WIDTH)
        self.start = nn.Linear(WIDTH, 2)
        self.steps = nn.ModuleList(_Step() for _ in range(STEPS))

    @classmethod
    def initialised(cls, seed: int = 0) -> PhaseNetwork:
        """Create a network with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor]) -> PhaseNetwork:
        """Create a network with given weights by name, which do not require gradients."""
        network = cls()
        network.load_state_dict(dict(weights))
        return network.requires_grad_(False)

    @property
    def weights(self) -> NetworkWeights:
        """The weights as matrices for evaluation, differentiable in the parameters."""
        plain = torch.cat((torch.eye(WIDTH), torch.zeros(1, WIDTH))).to(self.embed.weight)
        start = _plus_bias(plain @ self.start.weight.T, self.start.bias)
        steps = []
        for module in self.steps:
            step = cast(_Step, module)
            steps.append(step.weights(plain))
            plain = step.plain
        return NetworkWeights(
            embed=_for_features(self.embed.weight.T),
            embed_bias=self.embed.bias,
            start=start * start.new_tensor(_LOGIT_SIGNS),
            steps=tuple(steps),
        )


class _Step(nn.Module):
    """Parameters of one step."""

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
        """Matrix (W + 1, W) from normalised states to the output of the step."""
        scale = torch.diag(self.norm.weight * math.sqrt(WIDTH))
        return torch.cat((scale, self.norm.bias[None]))

    def weights(self, plain: Tensor) -> StepWeights:
        """Fold the preceding normalisation, ``plain`` (W + 1, W), into the step's matrices."""
        *memories, features = self.look.weight.T.split((WIDTH,) * 3 + (sum(_FEATURES),))
        read = self.plain @ self.read.weight.T
        return StepWeights(
            look=torch.cat((_for_features(features), *(plain @ memory for memory in memories))),
            look_at_phase=plain @ self.look_at_phase.weight.T,
            look_at_worker=plain @ self.look_at_worker.weight.T,
            keep=_centred(_plus_bias(plain, self.conclude.bias)),
            conclude=_centred(self.conclude.weight.T),
            read=read * read.new_tensor(_LOGIT_SIGNS),
        )


@dataclass(frozen=True)
class StepWeights:
    """Matrices of one step, from inputs (rows) to outputs (columns); W is the width.

    Consecutive linear maps are folded into one matrix: the scale and shift of a layer normalisation
    into the matrices that follow it, its subtraction of the mean into those before it. States have
    a last component of one, so that the last row of a matrix applied to states is a bias.

    Attributes:
        look: features and states of the worker, its interferers and those interfered with,
            (16 + 3 (W + 1), 2 W).
        look_at_phase: means of the states over a phase, (W + 1, 2 W).
        look_at_worker: means of the states of a worker, (W + 1, 2 W).
        keep: skip connection from the previous state, (W + 1, W).
        conclude: from the hidden layer to the state, (2 W, W).
        read: from states to changes of the logits, (W + 1, 2).
    """

    look: Array
    look_at_phase: Array
    look_at_worker: Array
    keep: Array
    conclude: Array
    read: Array


@dataclass(frozen=True)
class NetworkWeights:
    """Matrices of the network for features that are not yet divided by their scales.

    Attributes:
        embed, embed_bias: from features to the first state, (16, W) and (W,).
        start: from states to the first change of the logits, (W + 1, 2).
        steps: matrices of each step.
    """

    embed: Array
    embed_bias: Array
    start: Array
    steps: tuple[StepWeights, ...]

    def arrays(self) -> NetworkWeights:
        """Return the matrices as NumPy arrays."""
        embed, embed_bias, start = map(_as_array, (self.embed, self.embed_bias, self.start))
        steps = tuple(StepWeights(*map(_as_array, vars(step).values())) for step in self.steps)
        return NetworkWeights(embed, embed_bias, start, steps)


class Sight(NamedTuple):
    """Features of every worker in every phase.

    Attributes:
        features: three parts to be concatenated to (..., K, L, 16).
        share: share of worker j in the noise plus interference of worker i, (..., K, L, L).
    """

    features: tuple[Array, ...]
    share: Array


def first_look(weights: NetworkWeights, sight: Sight) -> tuple[Array, Array]:
    """Compute the first states from the features, and the first changes of the logits.

    Args:
        weights: the network.
        sight: features of K phases and L workers.

    Returns:
        States (..., K, L, W + 1), whose last component is one, and changes (..., K, L, 2).
    """
    xp = array_module(sight.share)
    seen = xp.concatenate(sight.features, -1)
    memory = xp.silu(_flat(seen) @ weights.embed + weights.embed_bias)
    memory = xp.with_ones(memory, xp.float32(1.0))
    return _unflat(memory, seen), _unflat(memory @ weights.start, seen)


def network_step(step: StepWeights, memory: Array, sight: Sight) -> tuple[Array, Array]:
    """Update the states, and compute changes of the logits.

    Args:
        step: matrices of the step.
        memory: states, (..., K, L, W + 1).
        sight: features at the present logits.

    Returns:
        States (..., K, L, W + 1) and changes of the logits (..., K, L, 2).
    """
    xp, (features, share) = array_module(memory), sight
    inputs = xp.concatenate((*features, memory, share @ memory, share.mT @ memory), -1)
    of_phase, of_worker = xp.means(memory)
    phase, worker = of_phase @ step.look_at_phase, of_worker @ step.look_at_worker
    seen = _unflat(_flat(inputs) @ step.look, inputs)
    seen = seen + (phase[..., None, :] + worker[..., None, :, :])
    flat = _flat(memory) @ step.keep + xp.silu(_flat(seen)) @ step.conclude
    squares = xp.dot_last(flat, flat)[:, None]
    flat = xp.with_ones(flat, xp.sqrt(squares + xp.float32(WIDTH * _NORM_EPSILON)))
    return _unflat(flat, memory), _unflat(flat @ step.read, memory)


def _flat(values: Array) -> Array:
    """(..., C) as a matrix (M, C)."""
    # A single matrix product; NumPy computes a batched product phase by phase.
    return values.reshape(-1, values.shape[-1])


def _unflat(flat: Array, like: Array) -> Array:
    """A matrix (M, C) with the leading dimensions of ``like``."""
    return flat.reshape(*like.shape[:-1], flat.shape[-1])


def _for_features(weights: Tensor) -> Tensor:
    """Reorder the rows of a module's matrix as the features, and divide by their scales."""
    sizes = weights.new_tensor(_FIXED_FEATURE_SCALES + _VARIABLE_FEATURE_SCALES)
    return weights[list(_FEATURE_ROWS)] / sizes[:, None]


def _plus_bias(weights: Tensor, bias: Tensor) -> Tensor:
    """Add a bias to the last row of a matrix."""
    return torch.cat((weights[:-1], weights[-1:] + bias))


def _centred(weights: Tensor) -> Tensor:
    """Subtract the mean over the outputs, as the layer normalisation that follows would."""
    return weights - weights.mean(1, keepdim=True)


def _as_array(tensor: Tensor) -> Array:
    """A contiguous NumPy array."""
    return np.ascontiguousarray(tensor.detach().numpy())


#: Added to values and prices, and to gains and slopes, under the logarithm.
_PRICE_OFFSET, _GAIN_OFFSET = 1e-3, 1e-6
#: Features that are not logarithms are clipped at this magnitude.
_MAX_FEATURE = 3.0
#: Lowest power of a transmitting worker, relative to Pmax.
_MIN_RELATIVE_POWER = 1e-6
#: Largest initial attenuation ln Pmax / p.
_MAX_INITIAL_ATTENUATION = 6.0
#: Largest attenuation ln Pmax / p; beyond it the exponential is constant.
_MAX_ATTENUATION = 40.0
#: On/off logit of a decision that the network cannot change.
_FIXED_LOGIT = 1e9


class NetworkView:
    """Features of rounds for the network, and the phases that its logits stand for, in float32.

    Logits (..., K, L, 2) are the attenuation a, p = Pmax / (1 + e^a), and the on/off logit: a
    worker transmits in a phase if it is positive.

    Args:
        rounds: channels, demands and prices.
        multipliers: prices λ of the workers' rates, (..., L), s per nat/Hz.
    """

    def __init__(self, rounds: PricedRounds, multipliers: Array) -> None:
        self._pmax_w = rounds.pmax_w
        self._takes_part = rounds.demand > 0
        xp, count = array_module(multipliers), multipliers.shape[-1]
        price = xp.to_float32(xp.at_least(multipliers, 0.0))
        received = xp.to_float32(rounds.direct * rounds.pmax_w)
        cross = self._cross = xp.to_float32(rounds.cross * rounds.pmax_w)
        self._cross_transposed = xp.contiguous(cross.mT)
        kappa = rounds.kappa[..., 0]
        static_cost = xp.to_float32(kappa * rounds.static_power_w)
        self._price, self._received = xp.rows(price, count), xp.rows(received, count)
        self._kappa = xp.rows(xp.to_float32(kappa * rounds.pmax_w), count)
        self._static_cost = xp.rows(static_cost, count)
        gain, log_cross = xp.log(received), xp.log(cross + _GAIN_OFFSET)
        upload_value = price * xp.to_float32(xp.at_least(rounds.demand, _GAIN_OFFSET))
        self._own, self._gain = xp.identity(gain), gain
        fixed = (
            gain[..., None, :],
            gain[..., :, None],
            log_cross,
            log_cross.mT,
            self._own,
            xp.log(xp.at_least(upload_value, _PRICE_OFFSET))[..., None, :],
            xp.log(price + _PRICE_OFFSET)[..., None, :],
            xp.log(static_cost + _PRICE_OFFSET)[..., None, :],
        )
        self._fixed = xp.first_dim_last(xp.stack_first(fixed, log_cross))

    def first_logits(self) -> Array:
        """Initial logits, (..., K, L, 2).

        Received powers are equal, except for the worker of each phase, which transmits at Pmax.
        """
        gain, own, xp = self._gain, self._own, array_module(self._gain)
        equalising_attenuation = gain + xp.max_along(-gain, -1)[..., None]
        attenuation = xp.at_most(equalising_attenuation, _MAX_INITIAL_ATTENUATION)[..., None, :] * (
            1 - own
        )
        # The phase's worker always transmits; others start undecided, absent ones stay silent.
        gates = xp.where(self._takes_part[..., None, :], _FIXED_LOGIT * own, -_FIXED_LOGIT)
        return xp.first_dim_last(xp.stack_first((attenuation, gates), attenuation))

    def phases(self, logits: Array) -> tuple[Array, Array]:
        """Convert logits to powers.

        Args:
            logits: (..., K, L, 2).

        Returns:
            Powers (..., K, L) in W and on/off gates (..., K, L), 0 or 1, in float64. If the logits
            require gradients, the gates have those of a sigmoid (straight-through estimator).
        """
        xp = array_module(logits)
        gates = _gates(logits)
        power = xp.at_most(_MIN_RELATIVE_POWER + 1 / _inverse_power(logits), 1.0)
        power, gates = xp.to_float64(power), xp.to_float64(gates)
        return self._pmax_w * power * gates, gates

    def sight(self, logits: Array) -> Sight:
        """Compute the features at logits (..., K, L, 2)."""
        price, cross, xp = self._price, self._cross, array_module(logits)
        one, offset = xp.float32(1.0), xp.float32(_GAIN_OFFSET)
        inverse, gates = _inverse_power(logits), _gates(logits)
        power_if_on = one / inverse
        power = (xp.float32(_MIN_RELATIVE_POWER) + power_if_on) * gates
        # Not link.interference_of_each, because β is transposed once for all steps.
        interference = one + power @ self._cross_transposed
        signal = self._received * power_if_on
        total = interference + signal
        sinr_value = price * signal / total
        marginal_cost = power_if_on * ((gates * sinr_value / interference) @ cross + self._kappa)
        value = price * xp.log(total / interference) - (
            self._kappa * power_if_on + self._static_cost
        )
        excess = xp.dot_last(gates, value)[..., None] - one
        # Logarithms of the first four planes, clipped values of the last four.
        value = xp.at_least(value, xp.float32(-_MAX_FEATURE))
        planes = (
            inverse,
            interference,
            sinr_value + offset,
            marginal_cost + offset,
            gates,
            value,
            excess,
        )
        stacked = xp.stack_first(planes, power)
        logs, limited = xp.log(stacked[:4]), xp.at_most(stacked[3:], xp.float32(_MAX_FEATURE))
        features = (self._fixed, xp.first_dim_last(logs), xp.first_dim_last(limited))
        share = cross[..., None, :, :] * (power[..., None, :] / interference[..., None])
        return Sight(features, share)


def _inverse_power(logits: Array) -> Array:
    """Pmax / p, (..., K, L)."""
    xp = array_module(logits)
    most = xp.float32(_MAX_ATTENUATION)
    return xp.float32(1.0) + xp.exp(xp.at_most(logits[..., 0], most))


def _gates(logits: Array) -> Array:
    """On/off gates, 0 or 1, (..., K, L), with the gradient of a sigmoid if one is required."""
    xp = array_module(logits)
    gate = xp.to_float32(logits[..., 1] > xp.float32(0.0))
    if isinstance(logits, Tensor) and logits.requires_grad:
        soft = torch.sigmoid(logits[..., 1])
        gate = gate + soft - soft.detach()
    return gate
