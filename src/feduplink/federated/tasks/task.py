"""Federated tasks: a model, data for every worker, a loss and a metric.

A task of your own is one :class:`Task`; ``docs/custom-task.md`` has a complete example.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor, nn

from feduplink.errors import InputError
from feduplink.federated.models.stacked import ModelStack, Weights, stacked
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Examples(TensorRecord):
    """N inputs with their targets.

    Attributes:
        inputs: (N, ...); sequences are (N, T, ...), padded at their end.
        targets: (N, ...).
        lengths: of sequences, from 1 to T, (N,) int64, always on the CPU; None if all inputs have
            the same size. Minibatches contain sequences of similar length, cut at the longest.

    """

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets) or len(self.inputs) == 0:
            raise InputError(
                f"examples: {len(self.inputs)} inputs and {len(self.targets)} targets; accepted: "
                "as many of each, at least one."
            )
        if self.lengths is None:
            return
        if self.lengths.shape != self.inputs.shape[:1] or self.inputs.ndim < 2:
            raise InputError(
                f"lengths: of shape {tuple(self.lengths.shape)} for inputs of shape "
                f"{tuple(self.inputs.shape)}; accepted: (N,) for (N, T, ...)."
            )
        shortest, longest = self.lengths.aminmax()
        if shortest < 1 or longest > self.inputs.shape[1]:
            raise InputError(
                f"lengths: from {shortest} to {longest}; accepted: 1 to {self.inputs.shape[1]}."
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, target: torch.device | torch.dtype | str) -> Examples:
        """Copy the examples to another device; the lengths stay on the CPU."""
        return replace(super().to(target), lengths=self.lengths)


@dataclass(frozen=True)
class FederatedData:
    """The data of one run.

    Attributes:
        pool: examples of all workers. Runs may share one object.
        shares: rows of the pool that each worker holds, L tensors (k_i,) int64.
        test: held-out examples on which the server measures the error. Runs that share one object
            are evaluated side by side.

    """

    pool: Examples
    shares: tuple[Tensor, ...]
    test: Examples

    @classmethod
    def from_workers(cls, workers: Sequence[Examples], test: Examples) -> FederatedData:
        """Join the examples of each worker; either all of them are sequences, or none is."""
        pool = Examples.concat(workers)
        rows = torch.split(torch.arange(len(pool)), [len(worker) for worker in workers])
        return cls(pool, tuple(rows), test)

    @property
    def sizes(self) -> Tensor:
        """k_i, (L,) float64."""
        return torch.tensor([len(share) for share in self.shares], dtype=torch.float64)


@dataclass(frozen=True)
class LocalWork:
    """Local training of a worker in one round: Adam with clipped gradients on minibatches.

    Attributes:
        batch_size: examples in a minibatch.
        batches: minibatches per round, drawn without replacement; None is one pass over the data.
        learning_rate: Adam's step.
        clip_norm: largest norm of a gradient.
        epsilon: Adam's ε.
        weight_decay: Adam's weight decay.

    """

    batch_size: int
    batches: int | None = None
    learning_rate: float = 1e-3
    clip_norm: float = 1.0
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_count("batch_size", self.batch_size)
        if self.batches is not None:
            _check_count("batches", self.batches)
        for name in ("learning_rate", "clip_norm", "epsilon", "weight_decay"):
            _check_size(name, getattr(self, name), zero=name == "weight_decay")


@dataclass(frozen=True)
class Task:
    """A federated learning task.

    Attributes:
        name: of the task in logs and checkpoints.
        model: makes a model with fresh weights (random numbers from torch's global generator,
            which is seeded for the call): any ``nn.Module`` without buffers that change.
        data: draws the data of one run from a NumPy generator.
        loss: maps outputs (B, ...) and targets (B, ...) to one loss per example, (B,).
        metric: maps outputs (N, ...) and targets (N, ...) of the test set to the error, a scalar;
            lower is better.
        work: local training of a round.
        rounds: number of rounds of a full run.
        metric_name: name of the error in figures.
        evaluation_batch: number of test examples evaluated at once; for sequences, that number of
            mean length.

    """

    name: str
    model: Callable[[], nn.Module]
    data: Callable[[np.random.Generator], FederatedData]
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Callable[[Tensor, Tensor], Tensor]
    work: LocalWork
    rounds: int = 100
    metric_name: str = "error"
    evaluation_batch: int = 1000

    def __post_init__(self) -> None:
        _check_count("rounds", self.rounds)
        _check_count("evaluation_batch", self.evaluation_batch)

    @functools.cached_property
    def weights(self) -> int:
        """n, the number of weights that are trained and sent."""
        with torch.random.fork_rng(devices=[]):
            return ModelStack(self.model()).weights_per_model


def error_rate(scores: Tensor, labels: Tensor) -> Tensor:
    """Share of wrong predictions: scores (N, classes) against labels (N,)."""
    return (scores.argmax(-1) != labels).double().mean()


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name}: {value!r} is not accepted; accepted: whole numbers from 1.")


def _check_size(name: str, value: object, *, zero: bool) -> None:
    """A finite number above 0, or from 0 where ``zero`` is accepted."""
    refused = not isinstance(value, Real) or not math.isfinite(value) or value < 0
    if refused or (value == 0 and not zero):
        accepted = "finite, 0 or more" if zero else "finite, above 0"
        raise InputError(f"{name}: {value!r} is not accepted; accepted: {accepted}.")


#: Numbers of copies of the model and of examples in the trial step.
_COPIES, _EXAMPLES = 2, 3


def check_task(task: Task, stack: ModelStack, pool: Examples) -> None:
    """Try a training step of two copies of the model on three examples.

    Neither the model nor the random numbers that follow change.

    Args:
        task: gives the loss and the metric.
        stack: the model.
        pool: examples of the workers.

    Raises:
        InputError: if a federation cannot use the model, the loss or the metric; PyTorch's own
            errors would come from deep inside, after minutes of preparation.
    """
    inputs, targets = _few(pool)
    device = inputs.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # A copy, because a forward pass may change running statistics.
        tried = ModelStack(copy.deepcopy(stack.module).train())
        weights = stacked([tried.initial()] * _COPIES)
        weights = {name: weight.requires_grad_() for name, weight in weights.items()}
        before = dict(stack.module.named_buffers())
        _check_alone(tried, inputs)
        _check_buffers(tried.module, before)
        outputs = _outputs(tried, weights, inputs).flatten(0, 1)
        _check_buffers(tried.module, before)
        targets = targets.repeat(_COPIES, *[1] * (targets.ndim - 1))
        _check_loss(task, outputs, targets, tuple(weights.values()))
        _check_metric(task, outputs.detach(), targets)


def _few(pool: Examples) -> tuple[Tensor, Tensor]:
    """Inputs and targets of the first examples, or of the shortest sequences."""
    if pool.lengths is None:
        return pool.inputs[:_EXAMPLES], pool.targets[:_EXAMPLES]
    short = pool.lengths.argsort(stable=True)[:_EXAMPLES]
    rows, longest = short.to(pool.inputs.device), int(pool.lengths[short].max())
    return pool.inputs[rows, :longest], pool.targets[rows]


def _check_alone(stack: ModelStack, inputs: Tensor) -> None:
    """Check the weights and, unless the module has its own pass for many copies, one copy."""
    name = type(stack.module).__name__
    if not stack.initial():
        raise InputError(
            f"model: {name} has no weights to train; accepted: a module with parameters that "
            "require a gradient."
        )
    if stack.is_vectorised:
        what = f"model: {name} fails on inputs of shape {tuple(inputs.shape)}"
        with _refused(what, "the task's inputs"):
            stack.module(inputs)


def _check_buffers(module: nn.Module, before: Weights) -> None:
    buffers = module.named_buffers()
    if changed := [n for n, b in buffers if n not in before or not b.equal(before[n])]:
        layer = module.get_submodule(changed[0].rpartition(".")[0])
        raise InputError(
            f"model: {type(layer).__name__} changes its buffers in training "
            f"({', '.join(changed)}), which workers do not send; accepted: layers without running "
            "statistics, such as nn.GroupNorm or nn.LayerNorm."
        )


def _outputs(stack: ModelStack, weights: Weights, inputs: Tensor) -> Tensor:
    """Outputs of all copies, (copies, examples, ...)."""
    name = type(stack.module).__name__
    accepted = (
        "layers that torch.func.vmap takes, or a module with a method stacked_forward(weights, "
        "inputs) for many copies"
    )
    with _refused(f"model: {name} fails for many workers at once", accepted):
        outputs = stack(weights, inputs.expand(_COPIES, *inputs.shape))
    if not isinstance(outputs, Tensor) or outputs.shape[:2] != (_COPIES, len(inputs)):
        raise InputError(
            f"model: {name} does not return one output per example; accepted: a tensor (B, ...) "
            "for inputs (B, ...)."
        )
    return outputs


def _check_loss(task: Task, outputs: Tensor, targets: Tensor, weights: tuple[Tensor, ...]) -> None:
    shapes = f"outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(targets.shape)}"
    accepted = "one value per example, (B,), as with reduction='none'"
    with _refused(f"loss: it fails on {shapes}", accepted):
        losses = torch.as_tensor(task.loss(outputs, targets))
    if losses.shape != (len(outputs),):
        raise InputError(
            f"loss: of shape {tuple(losses.shape)} for {len(outputs)} examples; accepted: "
            f"{accepted}."
        )
    with _refused("loss: it has no gradient", "a function that PyTorch differentiates"):
        torch.autograd.grad(losses.sum(), weights, allow_unused=True)


def _check_metric(task: Task, outputs: Tensor, targets: Tensor) -> None:
    accepted = "one number, lower is better"
    with _refused(f"metric: it fails on outputs of shape {tuple(outputs.shape)}", accepted):
        found = torch.as_tensor(task.metric(outputs, targets))
    if found.numel() != 1:
        raise InputError(f"metric: of shape {tuple(found.shape)}; accepted: {accepted}.")


@contextlib.contextmanager
def _refused(what: str, accepted: str) -> Iterator[None]:
    """Raise an :class:`InputError` for any exception of the user's own code."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].removesuffix(".")
        raise InputError(f"{what} ({reason}); accepted: {accepted}.") from error
