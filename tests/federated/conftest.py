from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from feduplink.federated import Examples, FederatedData, LocalWork, Task, error_rate
from feduplink.randomness import numpy_generator

SIZES = (12, 31, 20)


def blobs(rng: np.random.Generator, count: int) -> Examples:
    """Three classes of points in the plane."""
    labels = torch.from_numpy(rng.integers(0, 3, count))
    centres = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    noise = torch.from_numpy(rng.normal(size=(count, 2))).float()
    return Examples(centres[labels] + noise, labels)


def blob_task(work: LocalWork, model: Callable[[], nn.Module] | None = None) -> Task:
    """A task of three workers that trains in milliseconds."""

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 3))

    return Task(
        name="blobs",
        model=model or network,
        data=lambda rng: FederatedData.from_workers([blobs(rng, k) for k in SIZES], blobs(rng, 50)),
        loss=nn.CrossEntropyLoss(reduction="none"),
        metric=error_rate,
        work=work,
        rounds=6,
    )


def mean_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A metric that feels every change of the weights, unlike a share of errors."""
    return nn.functional.cross_entropy(outputs.double(), targets)


def data_of(task: Task, run: int = 0) -> FederatedData:
    """The data of a run with seed 0."""
    return task.data(numpy_generator(0, "data", run))


@pytest.fixture
def small_task() -> Task:
    return blob_task(LocalWork(batch_size=5, batches=2, learning_rate=0.02))
