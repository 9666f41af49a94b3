"""Many copies of one model with different weights, computed as one."""

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
