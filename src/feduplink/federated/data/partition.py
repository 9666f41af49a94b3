"""How examples are spread over the workers."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from feduplink.errors import InputError, unknown_name
from feduplink.scenario import Scenario, data_sizes
from feduplink.settings import Partition

#: Sum of the workers' noise levels in the paper's run, in grey levels of 0 to 255.
TOTAL_NOISE_STD = 500.0
#: Examples a worker must have for a draw of the Dirichlet partition to count.
LEAST_EXAMPLES = 10

_Sizes = np.ndarray[Any, np.dtype[np.int64]]


def check_partition(partition: str) -> None:
    """Refuse a name that is none of the partitions."""
    if partition not in get_args(Partition):
        raise unknown_name("partition", partition, get_args(Partition))


def fitted_sizes(sizes: _Sizes, available: int) -> _Sizes:
    """``sizes`` scaled down in proportion if they add up to more than ``available``."""
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
    """``sizes[i]`` rows for worker i, all different, in random order."""
    order = torch.from_numpy(rng.permutation(rows)[: sizes.sum()])
    return tuple(torch.split(order, sizes.tolist()))


def held_out_and_shares(
    rows: int, held_out: int, sizes: _Sizes, rng: np.random.Generator
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """``held_out`` random rows for the test, and :func:`iid_shares` of the others."""
    order = torch.from_numpy(rng.permutation(rows))
    test, train = order[:held_out], order[held_out:]
    return test, tuple(train[share] for share in iid_shares(len(train), sizes, rng))


def dirichlet_shares(
    labels: Tensor, sizes: _Sizes, rng: np.random.Generator, concentration: float = 1.0
) -> tuple[Tensor, ...]:
    """Skewed labels: worker i gets a share θ_{d,i} of class d, θ_d ~ Dir(κ, ..., κ).

    Of what falls to it, worker i keeps ``sizes[i]`` examples at random, or all if it has fewer.
    A draw that leaves a worker with under :data:`LEAST_EXAMPLES` examples is repeated.
    """
    classes = [np.flatnonzero(labels.numpy() == label) for label in np.unique(labels.numpy())]
    workers = len(sizes)
    if len(labels) < 2 * LEAST_EXAMPLES * workers:
        raise InputError(
            f"workers: {workers} workers cannot share {len(labels)} examples by label; accepted: "
            f"at most {len(labels) // (2 * LEAST_EXAMPLES)}."
        )
    while True:
        held: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(workers)]
        for members in classes:
            theta = rng.dirichlet(np.full(workers, concentration))
            cuts = (np.cumsum(theta)[:-1] * len(members)).astype(np.int64)
            for worker, part in enumerate(np.split(rng.permutation(members), cuts)):
                held[worker].append(part)
        rows = [rng.permutation(np.concatenate(parts)) for parts in held]
        if min(map(len, rows)) >= LEAST_EXAMPLES:
            return tuple(
                torch.from_numpy(kept[:size]) for kept, size in zip(rows, sizes, strict=True)
            )


def noise_levels(sizes: _Sizes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """η_i, standard deviation of worker i's pixel noise in grey levels, (L,).

    η_i is in proportion to 1 + ln(max k / k_i) and adds up to :data:`TOTAL_NOISE_STD`: the less
    data a worker has, the noisier it is.
    """
    relative = 1 + np.log(sizes.max() / sizes)
    return np.asarray(TOTAL_NOISE_STD * relative / relative.sum())


def importance_of_noise(
    levels: np.ndarray[Any, np.dtype[np.float64]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """ω_i = exp(2 − (η_i − min η) / 30), (L,): how much a worker of noise η_i should count."""
    return np.asarray(np.exp(2 - (levels - levels.min()) / 30))


def weighed_by_noise(scenario: Scenario) -> Scenario:
    """The scenario with the paper's weights for noisy data: by its quality, not its amount."""
    importance = importance_of_noise(noise_levels(data_sizes(scenario.workers)))
    return scenario.replace(weights=tuple(importance.tolist()))


def with_pixel_noise(
    images: Tensor,
    shares: tuple[Tensor, ...],
    levels: np.ndarray[Any, np.dtype[np.float64]],
    rng: np.random.Generator,
) -> Tensor:
    """A copy of ``images`` (N, pixels) uint8 with each worker's noise on the rows it holds."""
    noisy = images.clone()
    for rows, level in zip(shares, levels, strict=True):
        grey = images[rows].numpy()
        noise = rng.normal(0.0, level, grey.shape)
        noisy[rows] = torch.from_numpy((grey + noise).clip(0, 255).astype(np.uint8))
    return noisy
