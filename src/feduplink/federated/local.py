"""Local training of many workers as one computation.

A *simulation* is one federation: one policy in one run. The workers of a simulation, and as many
simulations as serve the hardware, train side by side as R copies of one model. The result is that
of a loop over the workers with ``nn.Module``, ``clip_grad_norm_`` and ``torch.optim.Adam``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from feduplink.federated.adam import AdamState, optimiser
from feduplink.federated.minibatches import Minibatches
from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.task import Task


def train_locally(
    stack: ModelStack,
    task: Task,
    start: Weights,
    state: AdamState,
    batches: Minibatches,
    room: float = math.inf,
) -> Weights:
    """Train every worker of some simulations from its simulation's global model.

    Args:
        stack: the model.
        task: gives the loss and the local work.
        start: global models, (simulations, *shape) per parameter.
        state: the workers' Adam, updated in place.
        batches: what the R = simulations · L models see.
        room: of sequences, steps in time that the memory has room for; a step of the R models
            that takes more is done in parts.

    Returns:
        The workers' models, (simulations, L, *shape) per parameter.

    """
    simulations, workers = state.steps.shape
    weights = {
        name: model.repeat_interleave(workers, dim=0).requires_grad_()
        for name, model in start.items()
    }
    adam = optimiser(weights, state, batches.steps, task.work)
    for step in range(max(batches.steps)):
        # Not kept here: the next step's gradients then take the same memory, still in the cache.
        adam.update(_clipped_gradients(stack, task, weights, batches, step, room), step)
    adam.write_back()
    return {
        name: model.detach().view(simulations, workers, *model.shape[1:])
        for name, model in weights.items()
    }


def _clipped_gradients(
    stack: ModelStack, task: Task, weights: Weights, batches: Minibatches, step: int, room: float
) -> list[Tensor]:
    """Of every model's mean loss on its minibatch number ``step``, (R, *shape) per parameter."""
    parts = batches.parts(step, room)
    if parts is None:
        gradients = _gradients(stack, task, weights, *batches.step(step))
    else:
        gradients = tuple(torch.empty_like(model) for model in weights.values())
        for models in parts:
            there = models.to(gradients[0].device)
            some = {name: model.detach()[there].requires_grad_() for name, model in weights.items()}
            found = _gradients(stack, task, some, *batches.step(step, models))
            for gradient, part in zip(gradients, found, strict=True):
                gradient[there] = part
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
    """Of the mean loss of models (R, *shape) on (R, B, ...) with ``weight`` (R, B)."""
    losses = task.loss(stack(weights, inputs).flatten(0, 1), targets.flatten(0, 1))
    # Models do not interact: the gradient of the sum of all mean losses holds that of each.
    return torch.autograd.grad(
        losses, tuple(weights.values()), weight.flatten(), materialize_grads=True
    )


def clip_each_(gradients: tuple[Tensor, ...], largest_norm: float) -> None:
    """Scale the gradient of every model down to the largest norm, as ``clip_grad_norm_`` does.

    ``gradients``: (R, *shape), one per parameter.
    """
    parts = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]
    norm = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    scale = (largest_norm / (norm + 1e-6)).clamp_max_(1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
