"""Batched local training of many workers.

A *simulation* is one policy in one run. The models of all workers of several simulations are
trained together as R copies of one module. The result equals that of a loop over the workers with
``nn.Module``, ``clip_grad_norm_`` and ``torch.optim.Adam``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adam import adam

from feduplink.federated.minibatches import Minibatches
from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.tasks.task import LocalWork, Task
from feduplink.tensor_record import TensorRecord

_BETA1, _BETA2 = 0.9, 0.999


@dataclass(frozen=True)
class AdamState(TensorRecord):
    """Adam's moments of the workers of some simulations, which persist between rounds.

    Attributes:
        mean: first moments of the gradients, (simulations, L, *shape) per parameter.
        square: second moments of the gradients, (simulations, L, *shape) per parameter.
        steps: number of steps so far, (simulations, L).

    """

    mean: Weights
    square: Weights
    steps: Tensor

    @classmethod
    def fresh(cls, models: Weights, workers: int) -> AdamState:
        """Make zero moments.

        Args:
            models: global models, (simulations, *shape) per parameter.
            workers: number of workers L.
        """

        def zeros() -> Weights:
            return {
                name: weights.new_zeros(len(weights), workers, *weights.shape[1:])
                for name, weights in models.items()
            }

        first = next(iter(models.values()))
        return cls(zeros(), zeros(), first.new_zeros(len(first), workers))


class Optimiser(ABC):
    """Abstract base class of Adam on R = simulations · L models during one round.

    Args:
        weights: weights of the models, (R, *shape) per parameter, updated in place.
        state: moments of the workers, updated in place.
        work: learning rate, weight decay and ε.
    """

    def __init__(self, weights: Weights, state: AdamState, work: LocalWork) -> None:
        self._work = work
        self._weights = list(weights.values())
        self._means = [moment.flatten(0, 1) for moment in state.mean.values()]
        self._squares = [moment.flatten(0, 1) for moment in state.square.values()]
        self._steps = state.steps.view(-1)

    @abstractmethod
    def update(self, gradients: list[Tensor], step: int) -> None:
        """Take one step of the models that have more than ``step`` minibatches, in place.

        Args:
            gradients: gradients in the order of the parameters, (R, *shape) each; they may be
                overwritten.
            step: index of the step in the round, from 0.
        """


def optimiser(
    weights: Weights, state: AdamState, minibatches: list[int], work: LocalWork
) -> Optimiser:
    """Make the fastest optimiser for the numbers of steps in a round.

    Args:
        weights: weights of the models, (R, *shape) per parameter, updated in place.
        state: moments of the workers, updated in place.
        minibatches: number of steps of each of the R models.
        work: learning rate, weight decay and ε.
    """
    if len(set(minibatches)) == 1 and bool((state.steps == state.steps[0, 0]).all()):
        return _EqualSteps(weights, state, work)
    return _UnequalSteps(weights, state, work, minibatches)


class _EqualSteps(Optimiser):
    """Adam for models with equal numbers of steps.

    PyTorch's fused Adam updates all models at once, three times as fast as :class:`_UnequalSteps`.
    """

    @torch.no_grad()
    def update(self, gradients: list[Tensor], step: int) -> None:
        adam(
            self._weights,
            # The kernel requires contiguous memory; backpropagation may return a transpose.
            [gradient.contiguous() for gradient in gradients],
            self._means,
            self._squares,
            [],
            [self._steps[0].clone() for _ in self._weights],
            fused=True,
            amsgrad=False,
            beta1=_BETA1,
            beta2=_BETA2,
            lr=self._work.learning_rate,
            weight_decay=self._work.weight_decay,
            eps=self._work.epsilon,
            maximize=False,
        )
        self._steps += 1


class _UnequalSteps(Optimiser):
    """Adam for models with different numbers of steps.

    A model without a minibatch keeps its moments (decay 1) and its weights (learning rate 0). Its
    gradient is zero because its examples have zero weight.
    """

    def __init__(
        self, weights: Weights, state: AdamState, work: LocalWork, minibatches: list[int]
    ) -> None:
        super().__init__(weights, state, work)
        self._minibatches = torch.tensor(minibatches, device=state.steps.device)

    @torch.no_grad()
    def update(self, gradients: list[Tensor], step: int) -> None:
        active = (step < self._minibatches).double()
        self._steps += active
        taken = self._steps.double().clamp_min(
            1
        )  # avoids 1 / 0; the rate is 0 before the first step
        rate = active * self._work.learning_rate / (1 - _BETA1**taken)
        spread = 1 / (1 - _BETA2**taken).sqrt()
        keep_mean = 1 - active * (1 - _BETA1)
        keep_square = 1 - active * (1 - _BETA2)
        decay = active * self._work.weight_decay
        for weights, gradient, mean, square in zip(
            self._weights, gradients, self._means, self._squares, strict=True
        ):
            if self._work.weight_decay:
                gradient.add_(weights * _per_model(decay, weights))
            mean.mul_(_per_model(keep_mean, mean)).add_(gradient, alpha=1 - _BETA1)
            square.mul_(_per_model(keep_square, square))
            square.addcmul_(gradient, gradient, value=1 - _BETA2)
            root = square.sqrt().mul_(_per_model(spread, square)).add_(self._work.epsilon)
            weights.addcdiv_(mean * _per_model(rate, mean), root, value=-1)


def _per_model(coefficients: Tensor, weights: Tensor) -> Tensor:
    """Reshape coefficients (R,) to factors of (R, *shape)."""
    return coefficients.to(weights.dtype).view(-1, *[1] * (weights.ndim - 1))


def train_locally(
    stack: ModelStack,
    task: Task,
    start: Weights,
    state: AdamState,
    batches: Minibatches,
    max_load: float = math.inf,
) -> Weights:
    """Train every worker of some simulations for one round.

    Args:
        stack: module of the models.
        task: defines the loss and the local work.
        start: global models, (simulations, *shape) per parameter.
        state: moments of the workers, updated in place.
        batches: minibatches of the R = simulations · L models.
        max_load: maximum number of sequence elements per step; larger steps are computed in parts.

    Returns:
        Models of the workers, (simulations, L, *shape) per parameter.

    """
    simulations, workers = state.steps.shape
    weights = {
        name: model.repeat_interleave(workers, dim=0).requires_grad_()
        for name, model in start.items()
    }
    adam = optimiser(weights, state, batches.steps.tolist(), task.work)
    for step in range(int(batches.steps.max())):
        # No variable holds the gradients, so that the next step reuses their cached memory.
        adam.update(_clipped_gradients(stack, task, weights, batches, step, max_load), step)
    return {
        name: model.detach().view(simulations, workers, *model.shape[1:])
        for name, model in weights.items()
    }


def _clipped_gradients(
    stack: ModelStack,
    task: Task,
    weights: Weights,
    batches: Minibatches,
    step: int,
    max_load: float,
) -> list[Tensor]:
    """Clipped gradients of every model's mean loss in step ``step``, (R, *shape) per parameter."""
    parts = batches.parts(step, max_load)
    if parts is None:
        gradients = _gradients(stack, task, weights, *batches.step(step))
    else:
        gradients = tuple(torch.empty_like(model) for model in weights.values())
        for models in parts:
            rows = models.to(gradients[0].device)
            some = {name: model.detach()[rows].requires_grad_() for name, model in weights.items()}
            found = _gradients(stack, task, some, *batches.step(step, models))
            for gradient, part in zip(gradients, found, strict=True):
                gradient[rows] = part
    clip_each_(gradients, task.work.clip_norm)
    return list(gradients)


def _gradients(
    stack: ModelStack,
    task: Task,
    weights: Weights,
    inputs: Tensor,
    targets: Tensor,
    weight: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients of the weighted loss of R models on examples (R, B, ...), weights (R, B)."""
    losses = task.loss(stack(weights, inputs).flatten(0, 1), targets.flatten(0, 1))
    # Models do not interact, so the gradient of the sum of losses contains that of each model.
    return torch.autograd.grad(
        losses, tuple(weights.values()), weight.flatten(), materialize_grads=True
    )


def clip_each_(gradients: tuple[Tensor, ...], largest_norm: float) -> None:
    """Clip the gradient of each of R models in place, as ``clip_grad_norm_`` does for one model.

    Args:
        gradients: gradients of all parameters, (R, *shape) each.
        largest_norm: maximum norm of a model's gradient.

    >>> gradients = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_each_((gradients,), 1.0)
    >>> gradients.norm(dim=1).round(decimals=3)
    tensor([1.0000, 0.5000])
    """
    parts = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]
    norm = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    scale = (largest_norm / (norm + 1e-6)).clamp_max_(1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
