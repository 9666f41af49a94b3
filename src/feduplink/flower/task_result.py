"""What a Flower run of a task leaves behind: its history, what was on the air, the final model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated import FederatedHistory, RunHistory, Task
from feduplink.flower.uplink_round import UplinkRound
from feduplink.storage.files import read_limited, write_json
from feduplink.storage.tensorfile import TensorFile, read_tensors, write_tensors

HISTORY_FILE = "flower.json"
MODEL_FILE = "model.safetensors"

_MODEL = "federated model"
#: Of the history: a thousand rounds of a hundred workers are a tenth of it.
_MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class TaskResult:
    """One finished run.

    Attributes:
        history: as the local engine gives it, of one policy in one run.
        uplink: who was present, sent and arrived, round by round.
        model: the final global model, (*shape) per parameter.

    """

    history: FederatedHistory
    uplink: tuple[UplinkRound, ...]
    model: dict[str, Tensor]

    @classmethod
    def from_run(
        cls,
        task: Task,
        policy: str,
        errors: Sequence[float],
        uplink: Sequence[UplinkRound],
        model: Mapping[str, Tensor],
    ) -> TaskResult:
        """From the error after every round and the history of the grid."""
        history = (run_history(errors, uplink),)
        return cls(
            FederatedHistory(task.name, task.metric_name, {policy: history}),
            tuple(uplink),
            dict(model),
        )

    def write(self, directory: Path) -> None:
        """Write ``model.safetensors``, then ``flower.json``: where that is, the run is complete.

        That of a run before goes first, so that it is never beside the model of another.
        """
        (directory / HISTORY_FILE).unlink(missing_ok=True)
        write_tensors(directory / MODEL_FILE, _MODEL, TensorFile(self.model, {}))
        (policy, runs), *_ = self.history.policies.items()
        content = {
            "task": self.history.task,
            "metric_name": self.history.metric_name,
            "policy": policy,
            "error": runs[0].to_json()["error"],
            "uplink": [found.to_json() for found in self.uplink],
        }
        write_json(directory / HISTORY_FILE, content)

    @classmethod
    def read(cls, directory: Path) -> TaskResult:
        """Read what :meth:`write` wrote."""
        file = directory / HISTORY_FILE
        if not file.exists():
            raise InputError(
                f"result: {directory} has no {HISTORY_FILE}; accepted: where a run was completed."
            )
        text = read_limited(file, "result", _MOST_BYTES)
        try:
            content = json.loads(text)
            errors = [math.nan if error is None else float(error) for error in content["error"]]
            uplink = tuple(map(UplinkRound.from_json, content["uplink"]))
            names = (str(content["task"]), str(content["metric_name"]))
            history = FederatedHistory(
                *names, {str(content["policy"]): (run_history(errors, uplink),)}
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
            raise InputError(f"result: {file} is damaged: {reason}.") from None
        return cls(history, uplink, read_tensors(directory / MODEL_FILE, _MODEL).tensors)


def run_history(errors: Sequence[float], uplink: Sequence[UplinkRound]) -> RunHistory:
    """A run of Flower as one of the local engine; one entry per round."""
    return RunHistory(
        error=tuple(errors),
        arrivals=tuple(len(found.arrived) for found in uplink),
        transmitting=tuple(len(found.transmitting) for found in uplink),
        airtime_s=tuple(found.airtime_s for found in uplink),
        energy_j=tuple(found.energy_j for found in uplink),
        sent_bytes=tuple(found.sent_bytes for found in uplink),
    )
