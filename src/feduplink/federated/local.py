"""Local training of many workers as one computation.

A *lane* is one federation: one policy in one run. The workers of a lane, and as many lanes as
serve the hardware, train side by side as the rows of one matrix of weights. The result is that
of a loop over the workers with ``nn.Module``, ``clip_grad_norm_`` and ``torch.optim.Adam``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adam import adam

from feduplink.federated.minibatches import Minibatches
from feduplink.federated.models.stacked import ModelStack
from feduplink.federated.task import LocalWork, Task

_BETA1, _BETA2 = 0.9, 0.999


@dataclass(frozen=True)
class AdamState:
    """Adam's memory of every worker of some lanes: (lanes, L, n) moments, (lanes, L) steps.

    Updated in place; kept between rounds.
    """

    mean: Tensor
    square: Tensor
    steps: Tensor

    @classmethod
    def fresh(cls, lanes: int, workers: int, weights: int, device: torch.device) -> AdamState:
        """All zero."""
        return cls(
            torch.zeros(lanes, workers, weights, device=device),
            torch.zeros(lanes, workers, weights, device=device),
            torch.zeros(lanes, workers, device=device),
        )

    def lanes(self, lanes: slice) -> AdamState:
        """A view of some lanes."""
        return AdamState(self.mean[lanes], self.square[lanes], self.steps[lanes])

    def clone(self) -> AdamState:
        """A copy that can be trained without a trace."""
        return AdamState(self.mean.clone(), self.square.clone(), self.steps.clone())


def train_locally(
    stack: ModelStack, task: Task, start: Tensor, state: AdamState, batches: Minibatches
) -> Tensor:
    """Train every worker of some lanes from its lane's global model.

    Args:
        stack: the model.
        task: gives the loss and the local work.
        start: global models, (lanes, n).
        state: the workers' Adam, updated in place.
        batches: what the R = lanes · L rows see.

    Returns:
        The workers' models, (lanes, L, n).

    """
    lanes, workers = state.steps.shape
    weights = start.repeat_interleave(workers, dim=0)
    rows = _AdamRows(weights, state, batches.steps)
    for step in range(max(batches.steps)):
        gradient = _gradient(
            stack, task, weights, batches.inputs[step], batches.targets[step], batches.weight[step]
        )
        clip_rows_(gradient, task.work.clip_norm)
        rows.update(gradient, step, task.work)
    rows.settle()
    return weights.view(lanes, workers, -1)


def clip_rows_(gradient: Tensor, largest_norm: float) -> None:
    """Scale every row (R, n) down to the largest norm, as ``clip_grad_norm_`` does for one."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    gradient.mul_((largest_norm / (norm + 1e-6)).clamp_max_(1.0))


def _gradient(
    stack: ModelStack, task: Task, weights: Tensor, inputs: Tensor, targets: Tensor, share: Tensor
) -> Tensor:
    """Gradient of every row's mean loss, (R, n)."""
    tracked = weights.detach().requires_grad_()
    outputs = stack(tracked, inputs)
    # Rows do not interact: the gradient of the sum of all mean losses holds that of each.
    losses = task.loss(outputs.flatten(0, 1), targets.flatten(0, 1))
    (gradient,) = torch.autograd.grad(losses, tracked, share.flatten())
    return gradient


class _AdamRows:
    """PyTorch's fused Adam with every row of (R, n) as a parameter of its own.

    Rows have their own step counters, and those that have no minibatch left stay as they are.
    Rows in lockstep, which is the usual case, are one parameter: fewer and larger kernels.
    """

    def __init__(self, weights: Tensor, state: AdamState, minibatches: list[int]) -> None:
        self._state, self._minibatches = state, minibatches
        self._lockstep = len(set(minibatches)) == 1 and bool(
            (state.steps == state.steps[0, 0]).all()
        )
        self._weights = self._rows(weights)
        self._means = self._rows(state.mean.flatten(0, 1))
        self._squares = self._rows(state.square.flatten(0, 1))
        self._steps = state.steps.flatten().unbind(0)

    def update(self, gradient: Tensor, step: int, work: LocalWork) -> None:
        """One step of the rows that have a minibatch number ``step``."""
        gradients = self._rows(gradient)
        active = [row for row in range(len(gradients)) if step < self._minibatches[row]]
        adam(
            [self._weights[row] for row in active],
            [gradients[row] for row in active],
            [self._means[row] for row in active],
            [self._squares[row] for row in active],
            [],
            [self._steps[row] for row in active],
            fused=True,
            amsgrad=False,
            beta1=_BETA1,
            beta2=_BETA2,
            lr=work.learning_rate,
            weight_decay=work.weight_decay,
            eps=work.epsilon,
            maximize=False,
        )

    def settle(self) -> None:
        """Rows in lockstep counted their steps as one; give each its count."""
        if self._lockstep:
            self._state.steps.copy_(self._steps[0].clone().expand_as(self._state.steps))

    def _rows(self, matrix: Tensor) -> tuple[Tensor, ...]:
        return (matrix,) if self._lockstep else matrix.unbind(0)
