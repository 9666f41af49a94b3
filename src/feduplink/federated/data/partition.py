"""Partition of examples between workers, and noise on their data."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from feduplink.errors import InputError, unknown_name
from feduplink.scenario import Scenario, data_sizes
from feduplink.settings import Partition

#: Sum of the noise standard deviations of all workers in the paper, in grey levels from 0 to 255.
TOTAL_NOISE_STD = 500.0
#: Minimum number of examples per worker in the Dirichlet partition.
MIN_EXAMPLES = 10

_Sizes = np.ndarray[Any, np.dtype[np.int64]]


def check_partition(partition: str) -> None:
    """Check the name of a partition.

    Raises:
        InputError: if the name is unknown.
    """
    if partition not in get_args(Partition):
        raise unknown_name("partition", partition, get_args(Partition))


def fitted_sizes(sizes: _Sizes, available: int) -> _Sizes:
    """Scale numbers of examples down proportionally if their sum is too large.

    Args:
        sizes: numbers of examples k_i of the workers, (L,).
        available: maximum of their sum.

    Returns:
        Numbers of examples, (L,).

    Raises:
        InputError: if a worker would have no examples.

    >>> fitted_sizes(np.array([10, 30]), available=20)
    array([ 5, 15])
    """
    if sizes.sum() <= available:
        return sizes
    fitted: _Sizes = np.floor(sizes * (available / sizes.sum())).astype(np.int64)
    if fitted.min() < 1:
        raise InputError(
            f"workers: {len(sizes)} workers cannot share {available} examples; accepted: fewer "
            "workers, or a task with more data."
        )
    return fitted


def iid_shares(rows: int, sizes: _Sizes, rng: np.random.Generator) -> tuple[Tensor, ...]:
    """Draw rows for every worker without replacement.

    Args:
        rows: number of rows N.
        sizes: numbers of examples k_i of the workers, (L,).
        rng: generator of random numbers.

    Returns:
        Rows of each worker, (k_i,) int64.
    """
    order = torch.from_numpy(rng.permutation(rows)[: sizes.sum()])
    return tuple(torch.split(order, sizes.tolist()))


def held_out_and_shares(
    rows: int, held_out: int, sizes: _Sizes, rng: np.random.Generator
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Draw rows of the test set, and rows of every worker from the others.

    Args:
        rows: number of rows N.
        held_out: number of rows of the test set.
        sizes: numbers of examples k_i of the workers, (L,).
        rng: generator of random numbers.

    Returns:
        Rows of the test set, (held_out,), and of each worker, (k_i,), int64.
    """
    order = torch.from_numpy(rng.permutation(rows))
    test, train = order[:held_out], order[held_out:]
    return test, tuple(train[share] for share in iid_shares(len(train), sizes, rng))


def dirichlet_shares(
    labels: Tensor, sizes: _Sizes, rng: np.random.Generator, concentration: float = 1.0
) -> tuple[Tensor, ...]:
    """Draw rows with different distributions of labels for every worker.

    Worker i gets the fraction θ_{d,i} of class d, with θ_d ~ Dir(κ, ..., κ), and keeps a random
    subset of at most k_i examples. The draw is repeated if a worker gets fewer than
    :data:`MIN_EXAMPLES` examples.

    Args:
        labels: classes of the examples, (N,) int64.
        sizes: maximum numbers of examples k_i of the workers, (L,).
        rng: generator of random numbers.
        concentration: κ; smaller values give more different distributions.

    Returns:
        Rows of each worker, int64.

    Raises:
        InputError: if there are too few examples for the number of workers.
    """
    classes = [np.flatnonzero(labels.numpy() == label) for label in np.unique(labels.numpy())]
    workers = len(sizes)
    if len(labels) < 2 * MIN_EXAMPLES * workers:
        raise InputError(
            f"workers: {workers} workers cannot share {len(labels)} examples by label; accepted: "
            f"at most {len(labels) // (2 * MIN_EXAMPLES)}."
        )
    while True:
        held: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(workers)]
        for members in classes:
            theta = rng.dirichlet(np.full(workers, concentration))
            cuts = (np.cumsum(theta)[:-1] * len(members)).astype(np.int64)
            for worker, part in enumerate(np.split(rng.permutation(members), cuts)):
                held[worker].append(part)
        rows = [rng.permutation(np.concatenate(parts)) for parts in held]
        if min(map(len, rows)) >= MIN_EXAMPLES:
            return tuple(
                torch.from_numpy(kept[:size]) for kept, size in zip(rows, sizes, strict=True)
            )


def noise_levels(sizes: _Sizes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Compute the standard deviation η_i of the pixel noise of every worker.

    η_i is proportional to 1 + ln(max k / k_i), with the sum :data:`TOTAL_NOISE_STD`, so that
    workers with few examples have noisy ones.

    Args:
        sizes: numbers of examples k_i of the workers, (L,).

    Returns:
        η in grey levels, (L,).
    """
    relative = 1 + np.log(sizes.max() / sizes)
    return np.asarray(TOTAL_NOISE_STD * relative / relative.sum())


def importance_of_noise(
    levels: np.ndarray[Any, np.dtype[np.float64]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Compute the weights of workers with noisy data, ω_i = exp(2 − (η_i − min η) / 30).

    Args:
        levels: standard deviations η of the noise in grey levels, (L,).

    Returns:
        Weights ω, (L,).
    """
    return np.asarray(np.exp(2 - (levels - levels.min()) / 30))


def weighed_by_noise(scenario: Scenario) -> Scenario:
    """Replace the weights of a scenario by those of the paper for noisy data.

    See :func:`importance_of_noise`.
    """
    importance = importance_of_noise(noise_levels(data_sizes(scenario.workers)))
    return scenario.replace(weights=tuple(importance.tolist()))


def with_pixel_noise(
    images: Tensor,
    shares: tuple[Tensor, ...],
    levels: np.ndarray[Any, np.dtype[np.float64]],
    rng: np.random.Generator,
) -> Tensor:
    """Add Gaussian noise to the images of every worker.

    Args:
        images: grey levels, (N, pixels) uint8.
        shares: rows of each worker, (k_i,) int64.
        levels: standard deviation of each worker's noise in grey levels, (L,).
        rng: generator of random numbers.

    Returns:
        Noisy images, clipped to 0 to 255, (N, pixels) uint8.
    """
    noisy = images.clone()
    for rows, level in zip(shares, levels, strict=True):
        grey = images[rows].numpy()
        noise = rng.normal(0.0, level, grey.shape)
        noisy[rows] = torch.from_numpy((grey + noise).clip(0, 255).astype(np.uint8))
    return noisy
