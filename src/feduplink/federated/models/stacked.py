"""Many copies of one model with different weights, computed as one.

The weights of R copies are one matrix (R, n): a copy a row, the model's parameters flattened and
joined in their order. Averaging models, Adam and the norm of a gradient are then row operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap


@runtime_checkable
class StackedForward(Protocol):
    """A module with a forward pass of its own for many copies.

    Any module is vectorised by ``torch.func.vmap``; one that knows a faster way defines this.
    """

    def stacked_forward(self, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        """Outputs (R, B, ...) for weights (R, *shape) by name and inputs (R, B, ...)."""


class ModelStack:
    """R copies of ``module``, whose own weights serve as the first starting point.

    Dropout and the like follow ``module.training``, with different random numbers for every copy.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        parameters = dict(module.named_parameters())
        self._names = tuple(parameters)
        self._shapes = tuple(p.shape for p in parameters.values())
        self._sizes = [p.numel() for p in parameters.values()]

    @property
    def weights_per_model(self) -> int:
        """n, the number of weights of one model."""
        return sum(self._sizes)

    def initial(self) -> Tensor:
        """The module's own weights, (n,)."""
        return torch.cat([p.detach().flatten() for p in self.module.parameters()])

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """Views of (R, n) as parameters (R, *shape) by name."""
        parts = torch.split(weights, self._sizes, dim=1)
        return {
            name: part.view(len(weights), *shape)
            for name, part, shape in zip(self._names, parts, self._shapes, strict=True)
        }

    def __call__(self, weights: Tensor, inputs: Tensor) -> Tensor:
        """Outputs (R, B, ...) of the copies with weights (R, n) on inputs (R, B, ...)."""
        named = self.named(weights)
        if isinstance(self.module, StackedForward):
            return self.module.stacked_forward(named, inputs)
        return _vectorised(self.module)(named, inputs)


def _vectorised(module: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    def one(weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(module, weights, (inputs,))
        return outputs

    return vmap(one, randomness="different")
