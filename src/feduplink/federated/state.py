"""State of a federated comparison between two rounds, its data and its initial models."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated.local_training import AdamState
from feduplink.federated.models.stacked import ModelStack, Weights, stacked
from feduplink.federated.server import Aggregation
from feduplink.federated.tasks.task import Examples, FederatedData, Task
from feduplink.federated.uplink import UplinkRecord
from feduplink.randomness import numpy_generator, stream_seed
from feduplink.storage.tensorfile import (
    TensorFile,
    check_same,
    checksum,
    fitting,
    read_tensors,
    write_tensors,
)


def draw_runs(
    task: Task, runs: int, workers: int, seed: int, device: torch.device
) -> list[FederatedData]:
    """Draw the data of every run and move it to a device.

    Args:
        task: federated learning task.
        runs: number of runs.
        workers: required number of workers L.
        seed: seed of the data.
        device: device of the examples; examples that runs share are moved once.

    Returns:
        Data of every run.

    Raises:
        InputError: if the task has data for another number of workers.
    """
    on_device = functools.cache(lambda examples: examples.to(device))
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
    """SHA-256 checksum of the examples and shares of all runs."""

    @functools.cache
    def digest(examples: Examples) -> str:
        tensors = {"inputs": examples.inputs, "targets": examples.targets}
        if examples.lengths is not None:
            tensors["lengths"] = examples.lengths
        return checksum(tensors, {})

    shares = {f"{run}.{i}": s for run, data in enumerate(runs) for i, s in enumerate(data.shares)}
    return checksum(shares, {"runs": [(digest(data.pool), digest(data.test)) for data in runs]})


def first_models(
    task: Task, runs: int, policies: int, seed: int, device: torch.device
) -> tuple[ModelStack, Weights]:
    """Make the model and its initial weights, which are equal for all policies of a run.

    Args:
        task: federated learning task.
        runs: number of runs.
        policies: number of policies.
        seed: seed of the weights.
        device: device of model and weights.

    Returns:
        The model, and weights (policies · runs, *shape) per parameter.
    """
    starts = []
    for run in range(runs):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model", run))
            stack = ModelStack(task.model())
        starts.append(stack.initial())
    stack.module.to(device)
    weights = stacked(starts * policies)
    return stack, {name: weight.to(device) for name, weight in weights.items()}


_KIND = "federated checkpoint"
#: Format number of checkpoints, to be increased when their content changes.
_FORMAT = 1


@dataclass(frozen=True)
class FederationState:
    """All variables that the next round depends on.

    Random numbers of a round are derived from seed, run and round, so that no generator is saved.
    The uploads of all rounds are saved because a policy may have a generator.

    Attributes:
        weights: global models, (simulations, *shape) per parameter.
        adam: Adam's moments of every worker.
        errors: test errors of every round so far, (policies, runs) each.
        uplink: uploads of all rounds, one record per simulation.
        server: state of the aggregation, one per simulation.

    """

    weights: Weights
    adam: AdamState
    errors: list[Tensor]
    uplink: list[UplinkRecord]
    server: list[Weights]

    @classmethod
    def begin(
        cls,
        weights: Weights,
        workers: int,
        uplink: list[UplinkRecord],
        aggregation: Aggregation,
    ) -> FederationState:
        """Make the state before the first round.

        Args:
            weights: initial global models, (simulations, *shape) per parameter.
            workers: number of workers L.
            uplink: uploads of all rounds, one record per simulation.
            aggregation: aggregation rule, which defines the state of the server.
        """
        begun = cls(weights, AdamState.fresh(weights, workers), [], uplink, [])
        for simulation in range(len(uplink)):
            state = aggregation.initial_state(begun.model(simulation))
            begun.server.append({name: tensor.detach().clone() for name, tensor in state.items()})
        return begun

    def model(self, simulation: int) -> Weights:
        """View of one global model, (*shape) per parameter."""
        return {name: weights[simulation] for name, weights in self.weights.items()}

    def models(self, simulations: slice) -> Weights:
        """View of the global models of some simulations, (simulations, *shape) per parameter."""
        return {name: weights[simulations] for name, weights in self.weights.items()}

    def _tensors(self) -> dict[str, Tensor]:
        """All tensors except the errors, by their name in a checkpoint."""
        parts = {
            "weights": self.weights,
            "adam.mean": self.adam.mean,
            "adam.square": self.adam.square,
            "adam": {"steps": self.adam.steps},
            **{f"uplink.{n}": record.tensors() for n, record in enumerate(self.uplink)},
            **{f"server.{n}": state for n, state in enumerate(self.server)},
        }
        return {
            f"{part}.{name}": tensor
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }

    def write(self, path: Path, identity: dict[str, Any]) -> None:
        """Save a checkpoint with the identity of the comparison."""
        tensors = {**self._tensors(), "errors": torch.stack(self.errors)}
        write_tensors(path, _KIND, TensorFile(tensors, {"format": _FORMAT, **identity}))

    @classmethod
    def read(cls, path: Path, identity: dict[str, Any], begun: FederationState) -> FederationState:
        """Load a checkpoint of a comparison.

        Args:
            path: checkpoint file.
            identity: identity of the comparison.
            begun: state before the first round, which defines shapes, devices and the order of
                the parameters.

        Returns:
            The saved state.

        Raises:
            InputError: if the file is missing, damaged or belongs to another comparison.
        """
        file = read_tensors(path, _KIND)
        check_same(path, file, {"format": _FORMAT, **identity})
        with fitting(path, _KIND, "this comparison"):
            found = {}
            # In the order of the model, not of the file, because it affects the rounding of norms.
            for name, expected in begun._tensors().items():
                found[name] = file.tensors[name].to(expected.device)
                if (found[name].shape, found[name].dtype) != (expected.shape, expected.dtype):
                    raise ValueError(f"{name} has another shape or type")
            ordered = TensorFile(found, {})
            return cls(
                ordered.under("weights."),
                AdamState(
                    ordered.under("adam.mean."), ordered.under("adam.square."), found["adam.steps"]
                ),
                list(file.tensors["errors"].unbind(0)),
                [UplinkRecord(**ordered.under(f"uplink.{n}.")) for n in range(len(begun.uplink))],
                [ordered.under(f"server.{n}.") for n in range(len(begun.server))],
            )
