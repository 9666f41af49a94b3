"""Many copies of one model with different weights, computed as one; the paper's feed-forward
network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

#: A model's parameters by name, (*shape) each; of R copies, (R, *shape). One tensor per parameter,
#: not one per model: backpropagation then leaves gradients where the optimiser reads them.
Weights = dict[str, Tensor]


@runtime_checkable
class StackedForward(Protocol):
    """A module with a forward pass of its own for many copies.

    Any module is vectorised by ``torch.func.vmap``; one that knows a faster way defines this.
    """

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Outputs (R, B, ...) for weights (R, *shape) by name and inputs (R, B, ...)."""


class ModelStack:
    """R copies of ``module``, whose own weights serve as the first starting point.

    Dropout and the like follow ``module.training``, with different random numbers for every copy.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._has_frozen_weights = not all(p.requires_grad for p in module.parameters())

    @property
    def weights_per_model(self) -> int:
        """n, the number of weights of one model that are trained and sent."""
        return sum(math.prod(p.shape) for p in self._trained().values())

    @property
    def is_vectorised(self) -> bool:
        """Whether copies are computed by ``vmap``: no pass of its own, or weights are frozen."""
        return self._has_frozen_weights or not isinstance(self.module, StackedForward)

    def initial(self) -> Weights:
        """A copy of the module's own weights, but for frozen ones (``requires_grad`` is off)."""
        return {name: p.detach().clone() for name, p in self._trained().items()}

    def _trained(self) -> Weights:
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def __call__(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Outputs (R, B, ...) of R copies on inputs (R, B, ...); frozen weights are shared."""
        if isinstance(self.module, StackedForward) and not self._has_frozen_weights:
            return self.module.stacked_forward(weights, inputs)
        return vectorised(self.module)(weights, inputs)


def stacked(models: list[Weights]) -> Weights:
    """R models as one, (R, *shape) by name."""
    return {name: torch.stack([model[name] for model in models]) for name in models[0]}


def vectorised(module: nn.Module) -> Callable[[Weights, Tensor], Tensor]:
    """R copies of any module by ``torch.func.vmap``: weights and inputs (R, ...) to outputs."""

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
        """(B, inputs) to (B, outputs)."""
        outputs: Tensor = self.output(torch.tanh(self.hidden(inputs)))
        return outputs

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(R, B, inputs) to (R, B, outputs): two batched products.

        The weights stand on the left, so that their gradients come out in their own layout; on
        the right they would have to be transposed, which costs as much as the product.
        """
        weight, bias = weights["hidden.weight"], weights["hidden.bias"]
        if inputs.stride(0) == 0:  # expanded: all copies see the same examples, in one product
            rows = torch.addmm(bias.reshape(-1, 1), weight.flatten(0, 1), inputs[0].mT)
            hidden = rows.tanh_().view(*bias.shape, -1)
        else:
            hidden = torch.baddbmm(bias[..., None], weight, inputs.mT).tanh()
        return torch.baddbmm(weights["output.bias"][..., None], weights["output.weight"], hidden).mT


@torch.no_grad()
def nguyen_widrow_(network: Perceptron) -> Perceptron:
    """Nguyen–Widrow weights, in place: the active ranges of the units cover the input evenly.

    Each row of W is a random direction of length 0.7 n^(1/m), for m inputs and n units, and the
    biases b_j = ±0.7 n^(1/m) are spread evenly over the range; the hidden layer is scaled by 2,
    the half-width of tanh's active range.
    """
    for layer, active in ((network.hidden, 2.0), (network.output, 1.0)):
        length = 0.7 * layer.out_features ** (1 / layer.in_features)
        direction = nn.functional.normalize(2 * torch.rand_like(layer.weight) - 1, dim=1)
        layer.weight.copy_(active * length * direction)
        spread = torch.linspace(-1, 1, layer.out_features)
        layer.bias.copy_(active * length * spread * direction[:, 0].sign())
    return network
