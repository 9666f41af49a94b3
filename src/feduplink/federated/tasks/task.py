"""Federated tasks: a model, data for every worker, a loss and a metric, checked before the first
round.

A task of your own is one :class:`Task`; ``docs/custom-task.md`` has a complete example.

Without this a model that cannot be vectorised, or a loss that is a mean already, ends in an error
from deep inside PyTorch, after minutes of preparation.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor, nn

from feduplink.errors import InputError
from feduplink.federated.models.stacked import ModelStack, Weights, stacked


@dataclass(frozen=True)
class Examples:
    """Inputs and targets, first dimension alike.

    Attributes:
        inputs: (N, ...); sequences are (N, T, ...), filled up at their end.
        targets: (N, ...).
        lengths: of sequences, from 1 to T, (N,) int64, always on the CPU; None where all inputs
            are of one size. Sequences are trained on in minibatches of similar length, and a
            model is given no more of them than the longest of its minibatch.

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

    def to(self, device: torch.device) -> Examples:
        """The same examples on another device; the lengths stay on the CPU."""
        return Examples(self.inputs.to(device), self.targets.to(device), self.lengths)

    def rows(self, index: Tensor) -> Examples:
        """Some of the examples, (n,) int64."""
        lengths = None if self.lengths is None else self.lengths[index]
        return Examples(self.inputs[index], self.targets[index], lengths)


@dataclass(frozen=True)
class FederatedData:
    """The data of one run.

    Attributes:
        pool: examples that the workers hold between them. Runs may share one object.
        shares: which rows of the pool each worker holds, L tensors (k_i,) int64.
        test: held-out examples that the server measures the error on. Runs that share one object
            are measured side by side.

    """

    pool: Examples
    shares: tuple[Tensor, ...]
    test: Examples

    @classmethod
    def from_workers(cls, workers: Sequence[Examples], test: Examples) -> FederatedData:
        """From the examples of each worker: all of them sequences, or none."""
        lengths = [worker.lengths for worker in workers if worker.lengths is not None]
        pool = Examples(
            torch.cat([worker.inputs for worker in workers]),
            torch.cat([worker.targets for worker in workers]),
            torch.cat(lengths) if lengths else None,
        )
        rows = torch.split(torch.arange(len(pool)), [len(worker) for worker in workers])
        return cls(pool, tuple(rows), test)

    @property
    def sizes(self) -> Tensor:
        """k_i, (L,) float64."""
        return torch.tensor([len(share) for share in self.shares], dtype=torch.float64)


@dataclass(frozen=True)
class LocalWork:
    """What a worker does in one round: minibatches of its own data, Adam, clipped gradients.

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
        name: how logs and checkpoints call it.
        model: makes a model with fresh weights (random numbers from torch's global generator,
            which is seeded for the call). Any ``nn.Module`` without buffers that change.
        data: draws the data of one run from a NumPy generator.
        loss: outputs (B, ...) and targets (B, ...) to one loss per example, (B,).
        metric: outputs (N, ...) and targets (N, ...) of the test set to the error, a scalar;
            lower is better.
        work: the local work of a round.
        rounds: rounds of a full run.
        metric_name: what the error is called in figures.
        evaluation_batch: test examples evaluated at once; of sequences, so many of mean length.

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
    """Share of wrong answers: scores (N, classes) against labels (N,)."""
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


#: Copies of the model and examples per copy that are tried.
_COPIES, _EXAMPLES = 2, 3
#: Layers for which PyTorch has no rule to compute many copies.
_RECURRENT = (nn.RNNBase, nn.LSTMCell)


def check_task(task: Task, stack: ModelStack, pool: Examples) -> None:
    """Refuse, in one sentence, a model, loss or metric that a federation cannot use.

    Tries one training step of two copies of the model on three examples of the workers' ``pool``.
    Nothing changes, also not the random numbers that follow.
    """
    inputs, targets = _few(pool)
    device = inputs.device
    # On a copy: running statistics must not move.
    tried = ModelStack(copy.deepcopy(stack.module).train())
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        weights = stacked([tried.initial()] * _COPIES)
        weights = {name: weight.requires_grad_() for name, weight in weights.items()}
        outputs = _outputs(tried, weights, inputs).flatten(0, 1)
        targets = targets.repeat(_COPIES, *[1] * (targets.ndim - 1))
        _check_loss(task, outputs, targets, tuple(weights.values()))
        _check_metric(task, outputs.detach(), targets)


def _few(pool: Examples) -> tuple[Tensor, Tensor]:
    """Inputs and targets of the first examples; of sequences, of the shortest, which cost least."""
    if pool.lengths is None:
        return pool.inputs[:_EXAMPLES], pool.targets[:_EXAMPLES]
    short = pool.lengths.argsort(stable=True)[:_EXAMPLES]
    rows, longest = short.to(pool.inputs.device), int(pool.lengths[short].max())
    return pool.inputs[rows, :longest], pool.targets[rows]


def _outputs(stack: ModelStack, weights: Weights, inputs: Tensor) -> Tensor:
    """Of all copies, (copies, examples, ...), if the module can be computed as many."""
    module, name = stack.module, type(stack.module).__name__
    if not weights:
        raise InputError(
            f"model: {name} has no weights to train; accepted: a module with parameters that "
            "require a gradient."
        )
    before = {buffer: values.clone() for buffer, values in module.named_buffers()}
    if stack.is_vectorised:  # first one copy alone: what fails there is not about many copies
        shape = tuple(inputs.shape)
        with _refused(f"model: {name} fails on inputs of shape {shape}", "the task's inputs"):
            module(inputs)
        _check_buffers(module, before)
    with _refused(*_unstackable(module)):
        outputs = stack(weights, inputs.expand(_COPIES, *inputs.shape))
    _check_buffers(module, before)
    if not isinstance(outputs, Tensor) or outputs.shape[:2] != (_COPIES, len(inputs)):
        raise InputError(
            f"model: {name} does not return one output per example; accepted: a tensor (B, ...) "
            "for inputs (B, ...)."
        )
    return outputs


def _check_buffers(module: nn.Module, before: Weights) -> None:
    changed = [
        name
        for name, values in module.named_buffers()
        if name not in before or not values.equal(before[name])
    ]
    if changed:
        layer = module.get_submodule(changed[0].rpartition(".")[0])
        raise InputError(
            f"model: {type(layer).__name__} changes its buffers in training "
            f"({', '.join(changed)}), and no worker sends those; accepted: layers without running "
            "statistics, such as nn.GroupNorm or nn.LayerNorm."
        )


def _unstackable(module: nn.Module) -> tuple[str, str]:
    """What to say of a module that fails for many copies, and what is accepted instead."""
    accepted = (
        "layers that torch.func.vmap takes, or a module with a method stacked_forward(weights, "
        "inputs) for many copies"
    )
    recurrent = [layer for layer in module.modules() if isinstance(layer, _RECURRENT)]
    if recurrent:
        name = type(recurrent[0]).__name__
        return f"model: nn.{name} cannot be computed for many workers at once", accepted
    return f"model: {type(module).__name__} fails for many workers at once", accepted


def _check_loss(task: Task, outputs: Tensor, targets: Tensor, weights: tuple[Tensor, ...]) -> None:
    shapes = f"outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(targets.shape)}"
    accepted = "one value per example, (B,), as with reduction='none'"
    with _refused(f"loss: it fails on {shapes}", accepted):
        losses = task.loss(outputs, targets)
    if not isinstance(losses, Tensor) or losses.shape != (len(outputs),):
        found = torch.as_tensor(losses).shape
        what = f"of shape {tuple(found)}" if len(found) else "one value"
        raise InputError(f"loss: {what} for {len(outputs)} examples; accepted: {accepted}.")
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
    """Whatever the user's own code raises becomes one sentence."""
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0].removesuffix(".")
        raise InputError(f"{what} ({reason}); accepted: {accepted}.") from error
