"""Vectorised computation of many copies of a module, and the perceptron of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

#: Parameters by name, (*shape) each, or (R, *shape) for R copies of a module.
Weights = dict[str, Tensor]


@runtime_checkable
class StackedForward(Protocol):
    """Protocol of modules with a forward pass for many copies, to be used instead of vmap."""

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Compute the outputs of R copies.

        Args:
            weights: weights of the copies, (R, *shape) per parameter.
            inputs: inputs of the copies, (R, B, ...).

        Returns:
            Outputs, (R, B, ...).
        """


class ModelStack:
    """Vectorised computation of R copies of a module.

    Layers such as dropout follow ``module.training`` and use different random numbers for every
    copy. Frozen parameters, with ``requires_grad`` off, are shared by all copies.

    Args:
        module: module to copy.

    >>> stack = ModelStack(nn.Linear(3, 1))
    >>> weights = stacked([stack.initial(), stack.initial()])
    >>> stack(weights, torch.ones(2, 5, 3)).shape
    torch.Size([2, 5, 1])
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._has_frozen_weights = not all(p.requires_grad for p in module.parameters())

    @property
    def weights_per_model(self) -> int:
        """Number of trainable weights n of a copy."""
        return sum(math.prod(p.shape) for p in self._trained().values())

    @property
    def is_vectorised(self) -> bool:
        """Whether vmap computes the copies: without ``stacked_forward``, or with frozen weights."""
        return self._has_frozen_weights or not isinstance(self.module, StackedForward)

    def initial(self) -> Weights:
        """Copy the trainable weights of the module, (*shape) per parameter."""
        return {name: p.detach().clone() for name, p in self._trained().items()}

    def _trained(self) -> Weights:
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def __call__(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Compute the outputs of R copies; see :meth:`StackedForward.stacked_forward`."""
        if isinstance(self.module, StackedForward) and not self._has_frozen_weights:
            return self.module.stacked_forward(weights, inputs)
        return vectorised(self.module)(weights, inputs)


def stacked(models: list[Weights]) -> Weights:
    """Stack the weights of R models, (*shape) per parameter each, to (R, *shape)."""
    return {name: torch.stack([model[name] for model in models]) for name in models[0]}


def vectorised(module: nn.Module) -> Callable[[Weights, Tensor], Tensor]:
    """Vectorise a module with ``torch.func.vmap``.

    Args:
        module: module to vectorise.

    Returns:
        Function of weights (R, *shape) and inputs (R, B, ...) that returns outputs (R, B, ...).
    """

    def one(weights: Weights, inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(module, weights, (inputs,))
        return outputs

    return vmap(one, randomness="different")


class Perceptron(nn.Module):
    """Perceptron with one hidden layer, x ↦ W2 tanh(W1 x + b1) + b2.

    Args:
        inputs: number of inputs.
        hidden: number of hidden units.
        outputs: number of outputs.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute outputs (B, outputs) of inputs (B, inputs)."""
        outputs: Tensor = self.output(torch.tanh(self.hidden(inputs)))
        return outputs

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Compute outputs (R, B, outputs) of inputs (R, B, inputs) with two batched products."""
        # The weights are the left factors, so that their gradients need not be transposed.
        weight, bias = weights["hidden.weight"], weights["hidden.bias"]
        if inputs.stride(0) == 0:  # expanded: all copies have the same inputs
            rows = torch.addmm(bias.reshape(-1, 1), weight.flatten(0, 1), inputs[0].mT)
            hidden = rows.tanh_().view(*bias.shape, -1)
        else:
            hidden = torch.baddbmm(bias[..., None], weight, inputs.mT).tanh()
        return torch.baddbmm(weights["output.bias"][..., None], weights["output.weight"], hidden).mT


@torch.no_grad()
def nguyen_widrow_(network: Perceptron) -> Perceptron:
    """Initialise a perceptron in place by the method of Nguyen and Widrow.

    For m inputs and n units, each row of W is a random direction of length 0.7 n^(1/m), and the
    biases are evenly spaced in ±0.7 n^(1/m), so that the active ranges of the units cover the
    inputs evenly. The hidden layer is scaled by 2, the half-width of the active range of tanh.

    Args:
        network: perceptron to initialise.

    Returns:
        The same perceptron.
    """
    for layer, active in ((network.hidden, 2.0), (network.output, 1.0)):
        length = 0.7 * layer.out_features ** (1 / layer.in_features)
        direction = nn.functional.normalize(2 * torch.rand_like(layer.weight) - 1, dim=1)
        layer.weight.copy_(active * length * direction)
        spread = torch.linspace(-1, 1, layer.out_features)
        layer.bias.copy_(active * length * spread * direction[:, 0].sign())
    return network
