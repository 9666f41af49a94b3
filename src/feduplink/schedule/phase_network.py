"""The network of learned schedules: permutation equivariant, for any price of time and workers.

There is a phase for every worker, in which it is sure to send; the network decides who sends beside
it, and all powers, in a few steps on what it sees of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from feduplink.randomness import stream_seed
from feduplink.schedule.array_module import Array, array_module

WIDTH = 32
STEPS = 3
#: How large is what there is to see of a worker in a phase: what stays, and what a step changes.
FIXED_SIZES = (5.0, 5.0, 5.0, 5.0, 1.0, 3.0, 3.0, 3.0)
CHANGING_SIZES = (5.0, 3.0, 1.0, 3.0, 3.0, 1.0, 1.0, 0.5)
_FEATURES = len(FIXED_SIZES + CHANGING_SIZES)
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
        self.embed = nn.Linear(_FEATURES, WIDTH)
        self.start = nn.Linear(WIDTH, 2)
        self.steps = nn.ModuleList(_StepWeights() for _ in range(STEPS))

    @classmethod
    def initialised(cls, seed: int = 0) -> PhaseNetwork:
        """A network with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()

    @property
    def weights(self) -> dict[str, Array]:
        """By name, as tensors that training moves."""
        return dict(self.named_parameters())


class _StepWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Linear(3 * WIDTH + _FEATURES, 2 * WIDTH, bias=False)
        self.look_at_phase = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.look_at_worker = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conclude = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=_NORM_EPSILON)
        self.read = nn.Linear(WIDTH, 2, bias=False)


def first_look(weights: Mapping[str, Array], features: Sequence[Array]) -> tuple[Array, Array]:
    """Memories (..., K, L, W) and first changes of the logits (..., K, L, 2)."""
    seen = array_module(features[0]).concatenate(features, -1)
    memory = _silu(_linear(weights, "embed", seen))
    return memory, _linear(weights, "start", memory)


def network_step(
    weights: Mapping[str, Array],
    number: int,
    memory: Array,
    features: Sequence[Array],
    share: Array,
) -> tuple[Array, Array]:
    """New memories and changes of the logits.

    Args:
        weights: of the network, by name.
        number: of the step.
        memory: (..., K, L, W).
        features: of every worker in every phase, (..., K, L, ·).
        share: of every worker's interference, by whom it comes from, (..., K, L, L).
    """
    xp, step = array_module(memory), f"steps.{number}"
    heard = (memory, share @ memory, share.mT @ memory, *features)
    seen = (
        _linear(weights, f"{step}.look", xp.concatenate(heard, -1))
        + _linear(weights, f"{step}.look_at_phase", _mean(memory, -2))[..., None, :]
        + _linear(weights, f"{step}.look_at_worker", _mean(memory, -3))[..., None, :, :]
    )
    memory = memory + _linear(weights, f"{step}.conclude", _silu(seen))
    centred = memory - _mean(memory, -1)[..., None]
    spread = xp.sqrt(_mean(centred * centred, -1) + _NORM_EPSILON)[..., None]
    memory = centred / spread * weights[f"{step}.norm.weight"] + weights[f"{step}.norm.bias"]
    return memory, _linear(weights, f"{step}.read", memory)


def _linear(weights: Mapping[str, Array], name: str, inputs: Array) -> Array:
    # One product of two matrices: NumPy would make one for every phase.
    flat = inputs.reshape(-1, inputs.shape[-1]) @ weights[f"{name}.weight"].T
    bias = weights.get(f"{name}.bias")
    flat = flat if bias is None else flat + bias
    return flat.reshape(*inputs.shape[:-1], flat.shape[-1])


def _mean(values: Array, axis: int) -> Array:
    # The method of NumPy's arrays takes twice as long.
    return values.sum(axis) * (1 / values.shape[axis])


def _silu(inputs: Array) -> Array:
    """x / (1 + e^−x), by a function whose slopes do not overflow."""
    return 0.5 * inputs * (1 + array_module(inputs).tanh(0.5 * inputs))
