"""A comparison's state between two rounds, as a file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated.local import AdamState
from feduplink.federated.uplink import Outcome
from feduplink.tensorfile import TensorFile, read_tensors, write_tensors

_KIND = "federated checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """Everything the next round depends on.

    Random numbers of a round derive from the seed, the run and the round, so no generator needs
    saving; what was on the air is saved because a policy may hold a generator.

    Attributes:
        weights: global models, (lanes, n).
        adam: of every worker.
        errors: of the rounds so far, each (policies, runs).
        outcomes: what happens on the air, one of each lane.

    """

    weights: Tensor
    adam: AdamState
    errors: list[Tensor]
    outcomes: list[Outcome]

    def write(self, path: Path, identity: dict[str, Any]) -> None:
        """Write; ``identity`` says of which comparison this is."""
        tensors = {
            "weights": self.weights,
            **{f"adam.{f.name}": getattr(self.adam, f.name) for f in fields(AdamState)},
            "errors": torch.stack(self.errors),
        }
        for lane, outcome in enumerate(self.outcomes):
            for name, tensor in outcome.tensors().items():
                tensors[f"outcome.{lane}.{name}"] = tensor
        write_tensors(path, _KIND, TensorFile(tensors, identity))

    @classmethod
    def read(cls, path: Path, identity: dict[str, Any], device: torch.device) -> Checkpoint:
        """Read one of the same comparison; others raise :class:`InputError`."""
        file = read_tensors(path, _KIND)
        for name, value in identity.items():
            if file.header.get(name) != value:
                raise InputError(
                    f"resume: {path} was made with another {name}; accepted: the one it was "
                    "started with."
                )
        saved = file.tensors
        lanes = len(saved["weights"])
        return cls(
            saved["weights"].to(device),
            AdamState(*(saved[f"adam.{f.name}"].to(device) for f in fields(AdamState))),
            list(saved["errors"].unbind(0)),
            [
                Outcome(**{f.name: saved[f"outcome.{lane}.{f.name}"] for f in fields(Outcome)})
                for lane in range(lanes)
            ],
        )
