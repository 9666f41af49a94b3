"""Vectorised computation of many copies of a model, and the paper's feed-forward network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

#: Parameters by name, (*shape) each, or (R, *shape) of R copies: a tensor per parameter, not per
#: model, so that backpropagation leaves the gradients where the optimiser reads them.
Weights = dict[str, Tensor]


@runtime_checkable
class StackedForward(Protocol):
    """A module with its own forward pass for many copies, if it is faster than vmap."""

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return outputs (R, B, ...) for weights (R, *shape) by name and inputs (R, B, ...)."""


class ModelStack:
    """R copies of ``module``.

    Layers such as dropout follow ``module.training``, with different random numbers for every copy.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._has_frozen_weights = not all(p.requires_grad for p in module.parameters())

    @property
    def weights_per_model(self) -> int:
        """n, number of trained weights of a model."""
        return sum(math.prod(p.shape) for p in self._trained().values())

    @property
    def is_vectorised(self) -> bool:
        """Whether vmap computes the copies: no pass of the module's own, or frozen weights."""
        return self._has_frozen_weights or not isinstance(self.module, StackedForward)

    def initial(self) -> Weights:
        """Copy the module's own weights without frozen ones (``requires_grad`` is off)."""
        return {name: p.detach().clone() for name, p in self._trained().items()}

    def _trained(self) -> Weights:
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def __call__(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return outputs (R, B, ...) for inputs (R, B, ...); copies share frozen weights."""
        if isinstance(self.module, StackedForward) and not self._has_frozen_weights:
            return self.module.stacked_forward(weights, inputs)
        return vectorised(self.module)(weights, inputs)


def stacked(models: list[Weights]) -> Weights:
    """Stack R models, (R, *shape) by name."""
    return {name: torch.stack([model[name] for model in models]) for name in models[0]}


def vectorised(module: nn.Module) -> Callable[[Weights, Tensor], Tensor]:
    """Vectorise any module by ``torch.func.vmap``: weights and inputs (R, ...) to outputs."""

    def one(weights: Weights, inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(module, weights, (inputs,))
        return outputs

    return vmap(one, randomness="different")


class Perceptron(nn.Module):
    """x ↦ W2 tanh(W1 x + b1) + b2."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute outputs (B, outputs) of inputs (B, inputs)."""
        outputs: Tensor = self.output(torch.tanh(self.hidden(inputs)))
        return outputs

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Compute outputs (R, B, outputs) of inputs (R, B, inputs) by two batched products.

        The weights are the left factors, so that their gradients have their own layout;
        transposing them would take as long as the product.
        """
        weight, bias = weights["hidden.weight"], weights["hidden.bias"]
        if inputs.stride(0) == 0:  # expanded: one product for the same examples of all copies
            rows = torch.addmm(bias.reshape(-1, 1), weight.flatten(0, 1), inputs[0].mT)
            hidden = rows.tanh_().view(*bias.shape, -1)
        else:
            hidden = torch.baddbmm(bias[..., None], weight, inputs.mT).tanh()
        return torch.baddbmm(weights["output.bias"][..., None], weights["output.weight"], hidden).mT


@torch.no_grad()
def nguyen_widrow_(network: Perceptron) -> Perceptron:
    """Initialise by Nguyen–Widrow in place: active ranges of the units cover the inputs evenly.

    Each row of W is a random direction of length 0.7 n^(1/m), for m inputs and n units, and the
    biases b_j are spread evenly over ±0.7 n^(1/m); the hidden layer is scaled by 2, the half-width
    of the active range of tanh.
    """
    for layer, active in ((network.hidden, 2.0), (network.output, 1.0)):
        length = 0.7 * layer.out_features ** (1 / layer.in_features)
        direction = nn.functional.normalize(2 * torch.rand_like(layer.weight) - 1, dim=1)
        layer.weight.copy_(active * length * direction)
        spread = torch.linspace(-1, 1, layer.out_features)
        layer.bias.copy_(active * length * spread * direction[:, 0].sign())
    return network
