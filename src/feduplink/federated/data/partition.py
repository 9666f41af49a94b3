"""Partitions of the examples between the workers."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from feduplink.errors import InputError, unknown_name
from feduplink.scenario import Scenario, data_sizes
from feduplink.settings import Partition

#: Sum of the workers' noise levels in the paper, in grey levels of 0 to 255.
TOTAL_NOISE_STD = 500.0
#: Minimum number of examples of a worker in the Dirichlet partition.
MIN_EXAMPLES = 10

_Sizes = np.ndarray[Any, np.dtype[np.int64]]


def check_partition(partition: str) -> None:
    """Refuse an unknown name of a partition."""
    if partition not in get_args(Partition):
        raise unknown_name("partition", partition, get_args(Partition))


def fitted_sizes(sizes: _Sizes, available: int) -> _Sizes:
    """Scale ``sizes`` down proportionally if their sum exceeds ``available``."""
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
    """Draw ``sizes[i]`` rows for worker i without replacement."""
    order = torch.from_numpy(rng.permutation(rows)[: sizes.sum()])
    return tuple(torch.split(order, sizes.tolist()))


def held_out_and_shares(
    rows: int, held_out: int, sizes: _Sizes, rng: np.random.Generator
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Draw ``held_out`` rows for the test, and :func:`iid_shares` of the others."""
    order = torch.from_numpy(rng.permutation(rows))
    test, train = order[:held_out], order[held_out:]
    return test, tuple(train[share] for share in iid_shares(len(train), sizes, rng))


def dirichlet_shares(
    labels: Tensor, sizes: _Sizes, rng: np.random.Generator, concentration: float = 1.0
) -> tuple[Tensor, ...]:
    """Draw skewed labels: worker i gets a share θ_{d,i} of class d, θ_d ~ Dir(κ, ..., κ).

    Worker i keeps at most ``sizes[i]`` of its examples at random. The draw is repeated if a worker
    gets fewer than :data:`MIN_EXAMPLES` examples.
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
    """Return η_i, standard deviation of worker i's pixel noise in grey levels, (L,).

    η_i is proportional to 1 + ln(max k / k_i), with the sum :data:`TOTAL_NOISE_STD`: the fewer data
    a worker has, the noisier they are.
    """
    relative = 1 + np.log(sizes.max() / sizes)
    return np.asarray(TOTAL_NOISE_STD * relative / relative.sum())


def importance_of_noise(
    levels: np.ndarray[Any, np.dtype[np.float64]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return weights ω_i = exp(2 − (η_i − min η) / 30) of workers with noise η_i, (L,)."""
    return np.asarray(np.exp(2 - (levels - levels.min()) / 30))


def weighed_by_noise(scenario: Scenario) -> Scenario:
    """Return the scenario with the paper's weights for noisy data, by quality instead of amount."""
    importance = importance_of_noise(noise_levels(data_sizes(scenario.workers)))
    return scenario.replace(weights=tuple(importance.tolist()))


def with_pixel_noise(
    images: Tensor,
    shares: tuple[Tensor, ...],
    levels: np.ndarray[Any, np.dtype[np.float64]],
    rng: np.random.Generator,
) -> Tensor:
    """Return a copy of ``images`` (N, pixels) uint8 with each worker's noise on its rows."""
    noisy = images.clone()
    for rows, level in zip(shares, levels, strict=True):
        grey = images[rows].numpy()
        noise = rng.normal(0.0, level, grey.shape)
        noisy[rows] = torch.from_numpy((grey + noise).clip(0, 255).astype(np.uint8))
    return noisy
