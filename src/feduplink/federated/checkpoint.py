"""A comparison's state between two rounds, as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated.adam import AdamState
from feduplink.federated.models.stacked import Weights
from feduplink.federated.task import FederatedData
from feduplink.federated.uplink import Ideal, OrthogonalAccess, Outcome, Sender
from feduplink.tensorfile import TensorFile, check_same, checksum, read_tensors, write_tensors

_KIND = "federated checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """Everything the next round depends on.

    Random numbers of a round derive from the seed, the run and the round, so no generator needs
    saving; what was on the air is saved because a policy may hold a generator.

    Attributes:
        weights: global models, (lanes, *shape) by parameter.
        adam: of every worker.
        errors: of the rounds so far, each (policies, runs).
        outcomes: what happens on the air, one of each lane.

    """

    weights: Weights
    adam: AdamState
    errors: list[Tensor]
    outcomes: list[Outcome]

    def write(self, path: Path, identity: dict[str, Any]) -> None:
        """Write; ``identity`` says of which comparison this is."""
        tensors = {
            **_prefixed("weights", self.weights),
            **_prefixed("adam.mean", self.adam.mean),
            **_prefixed("adam.square", self.adam.square),
            "adam.steps": self.adam.steps,
            "errors": torch.stack(self.errors),
        }
        for lane, outcome in enumerate(self.outcomes):
            tensors |= _prefixed(f"outcome.{lane}", outcome.tensors())
        write_tensors(path, _KIND, TensorFile(tensors, identity))

    @classmethod
    def read(
        cls,
        path: Path,
        identity: dict[str, Any],
        parameters: Sequence[str],
        device: torch.device,
    ) -> Checkpoint:
        """Read one of the same comparison; others raise :class:`InputError`.

        ``parameters`` are the names of the model's, in its own order: a file gives them back in
        alphabetical order, in which the norm of a gradient would be rounded differently.
        """
        file = read_tensors(path, _KIND)
        check_same(path, file, identity)
        if set(file.under("weights.")) != set(parameters):
            raise InputError(
                f"{_KIND}: {path} was made with another model; accepted: the one it was started "
                "with."
            )

        def moved(prefix: str) -> Weights:
            found = file.under(prefix)
            return {name: found[name].to(device) for name in parameters}

        steps = file.tensors["adam.steps"].to(device)
        return cls(
            moved("weights."),
            AdamState(moved("adam.mean."), moved("adam.square."), steps),
            list(file.tensors["errors"].unbind(0)),
            [Outcome(**file.under(f"outcome.{lane}.")) for lane in range(len(steps))],
        )


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def policy_fingerprint(policy: Sender) -> str:
    """Tells policies apart that go by the same name."""
    if isinstance(policy, Ideal):
        return "ideal"
    if isinstance(policy, OrthogonalAccess):
        return f"{policy.name}, {policy.seconds_per_joule!r} s/J"
    made_of = {"kind": policy.name, "scenario": policy.scenario.model_dump(mode="json")}
    return checksum(policy.tensors(), made_of)


def channel_fingerprint(recorded: Tensor | None) -> str:
    """Of the recorded channels of all rounds; drawn ones follow from scenario and seed."""
    return "drawn" if recorded is None else checksum({"recorded": recorded}, {})


def data_fingerprint(runs: Sequence[FederatedData]) -> str:
    """Of all examples and of who holds which; examples that runs share are read once."""
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
