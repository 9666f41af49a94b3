"""What a federated task is: a model, data for every worker, a loss and a metric.

A task of your own is one :class:`Task`; ``docs/custom-task.md`` has a complete example.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor, nn

from feduplink.errors import InputError
from feduplink.federated.models.stacked import ModelStack


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
