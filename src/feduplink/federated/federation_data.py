"""The data of all runs of a comparison, on the device where they are used."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from feduplink.errors import InputError
from feduplink.federated.task import Examples, FederatedData, Task
from feduplink.randomness import numpy_generator
from feduplink.tensorfile import checksum


def draw_runs(
    task: Task, runs: int, workers: int, seed: int, device: torch.device
) -> list[FederatedData]:
    """Every run's data; examples that runs share are moved to the device once."""
    moved: dict[int, tuple[Examples, Examples]] = {}  # as given, and on the device

    def on_device(given: Examples) -> Examples:
        if id(given) not in moved:
            moved[id(given)] = given, given.to(device)
        return moved[id(given)][1]

    drawn = []
    for run in range(runs):
        data = task.data(numpy_generator(seed, "data", run))
        if len(data.shares) != workers:
            raise InputError(
                f"workers: the task has data for {len(data.shares)} workers, the scenario "
                f"has {workers}; accepted: the same number."
            )
        drawn.append(FederatedData(on_device(data.pool), data.shares, on_device(data.test)))
    return drawn


def data_checksum(runs: Sequence[FederatedData]) -> str:
    """SHA-256 of all examples and shares; examples that runs have in common are read once."""
    known: dict[int, str] = {}
    for data in runs:
        for examples in (data.pool, data.test):
            if id(examples) not in known:
                tensors = {"inputs": examples.inputs, "targets": examples.targets}
                if examples.lengths is not None:
                    tensors["lengths"] = examples.lengths
                known[id(examples)] = checksum(tensors, {})
    shares = {f"{run}.{i}": s for run, data in enumerate(runs) for i, s in enumerate(data.shares)}
    return checksum(shares, {"runs": [(known[id(d.pool)], known[id(d.test)]) for d in runs]})
