"""Federated learning tasks: a model, data for every worker, a loss and a metric.

``docs/custom-task.md`` has a complete example of a user-defined :class:`Task`.
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
        inputs: inputs, (N, ...), or sequences (N, T, ...), padded at the end.
        targets: targets, (N, ...).
        lengths: lengths of sequences, from 1 to T, (N,) int64, always on the CPU; None if all
            inputs have the same size. Minibatches contain sequences of similar length.

    Raises:
        InputError: if the shapes do not fit together, or a length is out of range.

    >>> len(Examples(inputs=torch.zeros(5, 3), targets=torch.zeros(5, 1)))
    5
    """

    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets) or len(self.inputs) == 0:
            raise InputError(
                f"examples: {len(self.inputs)} inputs and {len(self.targets)} targets are given; "
                "accepted: equal numbers, at least one."
            )
        if self.lengths is None:
            return
        if self.lengths.shape != self.inputs.shape[:1] or self.inputs.ndim < 2:
            raise InputError(
                f"lengths: shape {tuple(self.lengths.shape)} is given for inputs of shape "
                f"{tuple(self.inputs.shape)}; accepted: (N,) for (N, T, ...)."
            )
        shortest, longest = self.lengths.aminmax()
        if shortest < 1 or longest > self.inputs.shape[1]:
            raise InputError(
                f"lengths: values from {shortest} to {longest} are given; accepted: 1 to "
                f"{self.inputs.shape[1]}."
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, target: torch.device | torch.dtype | str) -> Examples:
        """Convert inputs and targets to another device or type; the lengths stay on the CPU."""
        return replace(super().to(target), lengths=self.lengths)


@dataclass(frozen=True)
class FederatedData:
    """Data of one run.

    Attributes:
        pool: examples of all workers; runs may share one object.
        shares: rows of the pool that each worker has, L tensors (k_i,) int64.
        test: test set of the server; runs may share one object.

    """

    pool: Examples
    shares: tuple[Tensor, ...]
    test: Examples

    @classmethod
    def from_workers(cls, workers: Sequence[Examples], test: Examples) -> FederatedData:
        """Make the data from separate examples of each worker.

        Args:
            workers: examples of each of L workers, either all or none of them sequences.
            test: test set of the server.
        """
        pool = Examples.concat(workers)
        rows = torch.split(torch.arange(len(pool)), [len(worker) for worker in workers])
        return cls(pool, tuple(rows), test)

    @property
    def sizes(self) -> Tensor:
        """Number of examples k_i of each worker, (L,) float64."""
        return torch.tensor([len(share) for share in self.shares], dtype=torch.float64)


@dataclass(frozen=True)
class LocalWork:
    """Local training of a worker in one round: Adam with clipped gradients on minibatches.

    Attributes:
        batch_size: number of examples in a minibatch.
        batches: number of minibatches per round, drawn without replacement; None is one pass over
            the data.
        learning_rate: learning rate of Adam.
        clip_norm: maximum norm of a gradient.
        epsilon: ε of Adam.
        weight_decay: weight decay of Adam.

    Raises:
        InputError: if a number is out of range.

    >>> LocalWork(batch_size=16, batches=5).learning_rate
    0.001
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
        name: name of the task in logs and checkpoints.
        model: function that makes a model with random weights, drawn from the global generator of
            PyTorch, which is seeded for the call: any ``nn.Module`` without buffers that change.
        data: function that draws the data of one run from a NumPy generator.
        loss: function of outputs (B, ...) and targets (B, ...) that returns one loss per example,
            (B,).
        metric: function of outputs (N, ...) and targets (N, ...) of the test set that returns the
            test error, a scalar; lower is better.
        work: local training of a worker in one round.
        rounds: default number of rounds of a run.
        metric_name: name of the test error in figures.
        evaluation_batch: batch size of the evaluation; for sequences, the batch size at mean
            length.

    Raises:
        InputError: if a number is out of range.

    >>> def data(rng: np.random.Generator) -> FederatedData:
    ...     workers = [Examples(torch.ones(20, 3), torch.zeros(20, 1)) for _ in range(2)]
    ...     return FederatedData.from_workers(workers, test=workers[0])
    >>> def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    ...     return (outputs - targets).square().mean(-1)
    >>> def metric(outputs: Tensor, targets: Tensor) -> Tensor:
    ...     return loss(outputs, targets).mean().sqrt()
    >>> task = Task("sensor", lambda: nn.Linear(3, 1), data, loss, metric, LocalWork(batch_size=4))
    >>> task.weights
    4
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
        """Number of weights n of the model, which are trained and transmitted."""
        with torch.random.fork_rng(devices=[]):
            return ModelStack(self.model()).weights_per_model


def error_rate(scores: Tensor, labels: Tensor) -> Tensor:
    """Fraction of wrong predictions.

    Args:
        scores: scores of the classes, (N, classes).
        labels: correct classes, (N,) int64.

    Returns:
        Error rate, a scalar from 0 to 1.

    >>> error_rate(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]))
    tensor(0.5000, dtype=torch.float64)
    """
    return (scores.argmax(-1) != labels).double().mean()


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name}: {value!r} is not accepted; accepted: whole numbers from 1.")


def _check_size(name: str, value: object, *, zero: bool) -> None:
    """Check that a number is finite and above 0, or at least 0 if ``zero`` is accepted."""
    refused = not isinstance(value, Real) or not math.isfinite(value) or value < 0
    if refused or (value == 0 and not zero):
        accepted = "finite, 0 or more" if zero else "finite, above 0"
        raise InputError(f"{name}: {value!r} is not accepted; accepted: {accepted}.")


#: Numbers of copies of the model and of examples in the trial step of :func:`check_task`.
_COPIES, _EXAMPLES = 2, 3


def check_task(task: Task, stack: ModelStack, pool: Examples) -> None:
    """Check that a federation can use a task, with a training step on three examples.

    The model and the state of random generators do not change.

    Args:
        task: task with the loss and the metric.
        stack: module of the models.
        pool: examples of the workers.

    Raises:
        InputError: if the model, the loss or the metric cannot be used.
    """
    inputs, targets = _trial_examples(pool)
    device = inputs.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # A copy, because a forward pass may change its running statistics.
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


def _trial_examples(pool: Examples) -> tuple[Tensor, Tensor]:
    """Inputs and targets of the first three examples, or of the three shortest sequences."""
    if pool.lengths is None:
        return pool.inputs[:_EXAMPLES], pool.targets[:_EXAMPLES]
    short = pool.lengths.argsort(stable=True)[:_EXAMPLES]
    rows, longest = short.to(pool.inputs.device), int(pool.lengths[short].max())
    return pool.inputs[rows, :longest], pool.targets[rows]


def _check_alone(stack: ModelStack, inputs: Tensor) -> None:
    """Check that the module has weights and, if it is vectorised, that it accepts the inputs."""
    name = type(stack.module).__name__
    if not stack.initial():
        raise InputError(
            f"model: {name} has no trainable weights; accepted: a module with parameters that "
            "require a gradient."
        )
    if stack.is_vectorised:
        what = f"model: {name} fails on inputs of shape {tuple(inputs.shape)}"
        with _converting_errors(what, "the task's inputs"):
            stack.module(inputs)


def _check_buffers(module: nn.Module, before: Weights) -> None:
    buffers = module.named_buffers()
    if changed := [n for n, b in buffers if n not in before or not b.equal(before[n])]:
        layer = module.get_submodule(changed[0].rpartition(".")[0])
        raise InputError(
            f"model: {type(layer).__name__} changes its buffers in training "
            f"({', '.join(changed)}), which workers do not transmit; accepted: layers without "
            "running statistics, such as nn.GroupNorm or nn.LayerNorm."
        )


def _outputs(stack: ModelStack, weights: Weights, inputs: Tensor) -> Tensor:
    """Outputs of all copies, (copies, examples, ...)."""
    name = type(stack.module).__name__
    accepted = (
        "layers that torch.func.vmap supports, or a module with a method stacked_forward(weights, "
        "inputs) for many copies"
    )
    with _converting_errors(f"model: {name} fails for many workers at once", accepted):
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
    with _converting_errors(f"loss: it fails on {shapes}", accepted):
        losses = torch.as_tensor(task.loss(outputs, targets))
    if losses.shape != (len(outputs),):
        raise InputError(
            f"loss: shape {tuple(losses.shape)} is returned for {len(outputs)} examples; "
            f"accepted: {accepted}."
        )
    with _converting_errors(
        "loss: it has no gradient", "a function that PyTorch can differentiate"
    ):
        torch.autograd.grad(losses.sum(), weights, allow_unused=True)


def _check_metric(task: Task, outputs: Tensor, targets: Tensor) -> None:
    accepted = "one number, lower is better"
    with _converting_errors(
        f"metric: it fails on outputs of shape {tuple(outputs.shape)}", accepted
    ):
        found = torch.as_tensor(task.metric(outputs, targets))
    if found.numel() != 1:
        raise InputError(f"metric: shape {tuple(found.shape)} is returned; accepted: {accepted}.")


@contextlib.contextmanager
def _converting_errors(what: str, accepted: str) -> Iterator[None]:
    """Context that converts any exception of user code to an :class:`InputError`."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].removesuffix(".")
        raise InputError(f"{what} ({reason}); accepted: {accepted}.") from error
