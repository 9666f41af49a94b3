"""The state of a federated comparison between two rounds, its data and its first models."""

from __future__ import annotations

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


def first_models(
    task: Task, runs: int, policies: int, seed: int, device: torch.device
) -> tuple[ModelStack, Weights]:
    """The model, and its first weights, (policies · runs, *shape) per parameter.

    Those of a run are alike for all policies.
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
#: To be increased when a checkpoint changes its meaning, so that older ones are refused.
_FORMAT = 1


@dataclass(frozen=True)
class FederationState:
    """Everything the next round depends on.

    Random numbers of a round derive from the seed, the run and the round, so no generator needs
    saving; what was on the air is saved because a policy may hold a generator.

    Attributes:
        weights: global models, (simulations, *shape) per parameter.
        adam: of every worker.
        errors: of the rounds so far, each (policies, runs).
        uplink: what happens on the air, one per simulation.
        server: what the aggregation remembers, one per simulation.

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
        """Before the first round: first weights, fresh moments, no errors."""
        server = []
        for simulation in range(len(uplink)):
            state = aggregation.initial_state(_row(weights, simulation))
            server.append({name: tensor.detach().clone() for name, tensor in state.items()})
        return cls(weights, AdamState.fresh(weights, workers), [], uplink, server)

    def model(self, simulation: int) -> Weights:
        """A view of one global model, (*shape) per parameter."""
        return _row(self.weights, simulation)

    def models(self, simulations: slice) -> Weights:
        """A view of the global models of some simulations, (simulations, *shape) per parameter."""
        return {name: weights[simulations] for name, weights in self.weights.items()}

    def write(self, path: Path, identity: dict[str, Any]) -> None:
        """Write a checkpoint; ``identity`` says of which comparison this is."""
        tensors = {
            **_prefixed("weights", self.weights),
            **_prefixed("adam.mean", self.adam.mean),
            **_prefixed("adam.square", self.adam.square),
            "adam.steps": self.adam.steps,
            "errors": torch.stack(self.errors),
        }
        for simulation, (record, state) in enumerate(zip(self.uplink, self.server, strict=True)):
            tensors |= _prefixed(f"uplink.{simulation}", record.tensors())
            tensors |= _prefixed(f"server.{simulation}", state)
        write_tensors(path, _KIND, TensorFile(tensors, {"format": _FORMAT, **identity}))

    @classmethod
    def read(cls, path: Path, identity: dict[str, Any], begun: FederationState) -> FederationState:
        """Read one of the same comparison; others raise :class:`InputError`.

        ``begun`` is the comparison before its first round: its tensors say on which device and in
        which order those of the file belong. A file gives names back in alphabetical order, in
        which the norm of a gradient would be rounded differently.
        """
        file = read_tensors(path, _KIND)
        check_same(path, file, {"format": _FORMAT, **identity})
        if set(file.under("weights.")) != set(begun.weights):
            raise InputError(
                f"{_KIND}: {path} was made with another model; accepted: the one it was started "
                "with."
            )

        def like(known: Weights, prefix: str) -> Weights:
            found = file.under(prefix)
            for name, tensor in known.items():
                if (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype):
                    raise ValueError(f"{prefix}{name} has another shape or type")
            return {name: found[name].to(tensor.device) for name, tensor in known.items()}

        with fitting(path, _KIND, "this comparison"):
            return cls(
                like(begun.weights, "weights."),
                AdamState(
                    like(begun.adam.mean, "adam.mean."),
                    like(begun.adam.square, "adam.square."),
                    file.tensors["adam.steps"].to(begun.adam.steps.device),
                ),
                list(file.tensors["errors"].unbind(0)),
                [UplinkRecord(**file.under(f"uplink.{n}.")) for n in range(len(begun.uplink))],
                [like(state, f"server.{n}.") for n, state in enumerate(begun.server)],
            )


def _row(weights: Weights, row: int) -> Weights:
    return {name: weight[row] for name, weight in weights.items()}


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
