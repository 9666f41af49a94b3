"""The network of learned schedules: permutation equivariant, for any price of time and workers.

There is a phase for every worker, in which it is sure to send; the network decides who sends beside
it, and all powers, in a few steps on what it sees of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from feduplink.randomness import stream_seed
from feduplink.schedule.array_module import Array, array_module, at_most, sum_along

WIDTH = 32
STEPS = 3
#: How large is what there is to see of a worker in a phase: what stays, and what a step changes.
FIXED_SIZES = (5.0, 5.0, 5.0, 5.0, 1.0, 3.0, 3.0, 3.0)
CHANGING_SIZES = (5.0, 3.0, 1.0, 3.0, 3.0, 1.0, 1.0, 0.5)
_FEATURES = len(FIXED_SIZES), len(CHANGING_SIZES)
_NORM_EPSILON = 1e-5
#: e^−x from here on makes nothing of x; more would overflow in its slopes.
_FLAT = 40.0


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

    @property
    def weights(self) -> NetworkWeights:
        """As tensors that training moves."""
        sizes = self.embed.weight.new_tensor(FIXED_SIZES + CHANGING_SIZES)[:, None]
        fixed, changing = (self.embed.weight.T / sizes).split(_FEATURES)
        steps = [cast(_Step, step).weights(sizes) for step in self.steps]
        return NetworkWeights(
            fixed=torch.cat((fixed, *(look for look, _ in steps)), 1),
            embed=changing,
            embed_bias=self.embed.bias,
            start=self.start.weight.T,
            start_bias=self.start.bias,
            steps=tuple(step for _, step in steps),
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

    def weights(self, sizes: Tensor) -> tuple[Tensor, StepWeights]:
        """Those of what stays, (8, 2 W), and the others; ``sizes`` of what there is to see."""
        memory, features = self.look.weight.T.split((3 * WIDTH, sum(_FEATURES)))
        fixed, changing = (features / sizes).split(_FEATURES)
        return fixed, StepWeights(
            look=torch.cat((memory, changing)),
            look_at_phase=self.look_at_phase.weight.T,
            look_at_worker=self.look_at_worker.weight.T,
            conclude=self.conclude.weight.T,
            conclude_bias=self.conclude.bias,
            norm=self.norm.weight,
            norm_bias=self.norm.bias,
            read=self.read.weight.T,
        )


@dataclass(frozen=True)
class StepWeights:
    """Matrices of a step, from what goes in (rows) to what comes out (columns), W the width.

    Attributes:
        look: of memories, those of others, and what changes, (3 W + 8, 2 W).
        look_at_phase, look_at_worker: of means of memories, (W, 2 W).
        conclude, conclude_bias: (2 W, W) and (W,).
        norm, norm_bias: (W,).
        read: (W, 2).
    """

    look: Array
    look_at_phase: Array
    look_at_worker: Array
    conclude: Array
    conclude_bias: Array
    norm: Array
    norm_bias: Array
    read: Array


@dataclass(frozen=True)
class NetworkWeights:
    """Matrices of the network, with what there is to see not yet divided by how large it is.

    Attributes:
        fixed: of what stays, for the first look and for all steps side by side, (8, 7 W).
        embed, embed_bias: of what changes, (8, W) and (W,).
        start, start_bias: (W, 2) and (2,).
        steps: of the steps.
    """

    fixed: Array
    embed: Array
    embed_bias: Array
    start: Array
    start_bias: Array
    steps: tuple[StepWeights, ...]

    def arrays(self) -> NetworkWeights:
        """The same as NumPy's arrays."""
        own = (self.fixed, self.embed, self.embed_bias, self.start, self.start_bias)
        fixed, embed, embed_bias, start, start_bias = map(_as_array, own)
        steps = tuple(StepWeights(*map(_as_array, vars(step).values())) for step in self.steps)
        return NetworkWeights(fixed, embed, embed_bias, start, start_bias, steps)


def see_fixed(weights: NetworkWeights, fixed: Array) -> tuple[Array, ...]:
    """What the first look and every step make of what stays, (..., K, L, 8): (K L, ·) each."""
    seen = _flat(fixed) @ weights.fixed
    ends = [WIDTH * (2 * number + 1) for number in range(STEPS + 1)]
    return tuple(seen[:, max(0, end - 2 * WIDTH) : end] for end in ends)


def first_look(weights: NetworkWeights, fixed: Array, changing: Array) -> tuple[Array, Array]:
    """Memories (..., K, L, W) and first changes of the logits (..., K, L, 2).

    Args:
        weights: of the network.
        fixed: the first of :func:`see_fixed`.
        changing: of every worker in every phase, (..., K, L, 8).
    """
    memory = _silu(_flat(changing) @ weights.embed + fixed + weights.embed_bias)
    change = memory @ weights.start + weights.start_bias
    return _unflat(memory, changing), _unflat(change, changing)


def network_step(
    weights: NetworkWeights,
    number: int,
    memory: Array,
    fixed: Array,
    changing: Array,
    share: Array,
) -> tuple[Array, Array]:
    """New memories and changes of the logits.

    Args:
        weights: of the network.
        number: of the step.
        memory: (..., K, L, W).
        fixed: that of the step, of :func:`see_fixed`.
        changing: of every worker in every phase, (..., K, L, 8).
        share: of every worker's interference, by whom it comes from, (..., K, L, L).
    """
    xp, step = array_module(memory), weights.steps[number]
    heard = xp.concatenate((memory, share @ memory, share.mT @ memory, changing), -1)
    phase = _mean(memory, -2) @ step.look_at_phase
    worker = _mean(memory, -3) @ step.look_at_worker
    seen = _unflat(_flat(heard) @ step.look + fixed, heard)
    seen = seen + (phase[..., None, :] + worker[..., None, :, :])
    flat = _flat(memory) + (_silu(_flat(seen)) @ step.conclude + step.conclude_bias)
    # By products with a matrix: NumPy takes five times as long to sum along short rows.
    mean = xp.ones_like(flat[0, :, None]) * (1 / WIDTH)
    flat = flat - flat @ mean
    flat = flat / xp.sqrt((flat * flat) @ mean + _NORM_EPSILON) * step.norm + step.norm_bias
    return _unflat(flat, memory), _unflat(flat @ step.read, memory)


def _flat(values: Array) -> Array:
    # One product of two matrices: NumPy would make one for every phase.
    return values.reshape(-1, values.shape[-1])


def _unflat(flat: Array, like: Array) -> Array:
    return flat.reshape(*like.shape[:-1], flat.shape[-1])


def _mean(values: Array, axis: int) -> Array:
    # The method of NumPy's arrays takes twice as long.
    return sum_along(values, axis) * (1 / values.shape[axis])


def _silu(inputs: Array) -> Array:
    """x / (1 + e^−x); NumPy's tanh takes five times as long as its exp."""
    return inputs / (1 + array_module(inputs).exp(at_most(-inputs, _FLAT)))


def _as_array(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().numpy())
