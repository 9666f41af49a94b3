"""A federated task as a Flower run: its settings as the run's configuration, and its result."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from flwr.app import UserConfig
from pydantic import Field, field_validator
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated import (
    FederatedHistory,
    RunHistory,
    Task,
    UplinkRecord,
    load_task,
)
from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.state import draw_runs, first_models
from feduplink.federated.tasks.task import FederatedData
from feduplink.policies import Policy, make_policies
from feduplink.scenario import Scenario
from feduplink.settings import ArrivalRule
from feduplink.storage.tensorfile import fitting, pack, read_tensors, unpack, write_tensors
from feduplink.validation import ValidatedModel

#: Device of the server and of the nodes.
CPU = torch.device("cpu")


class TaskRun(ValidatedModel):
    """Settings of a run, named like the options of ``feduplink federate``.

    Attributes:
        scenario: the cell and its radio; YAML or JSON text in the configuration.
        task: name of the task.
        policy: name of a policy, or the directory of a saved one.
        rounds: number of rounds; None takes the task's.
        seed: seed of data, first weights, minibatches, channels and arrivals.
        partition: how the task distributes its data over the workers; None takes the task's.
        data: directory of the data sets on every node; None takes ``FEDUPLINK_DATA``.
        kappa: price of energy, s/J, for policies that choose powers by it.
        delivery: share of the rounds in which models have to arrive with ``schedule``; one value,
            or one per worker separated by commas.
        deadline: longest round on the uplink, s; None: no deadline.
        packet_success: SINR that decides whether an upload arrives.
        imports: modules with objects of your own, separated by commas; imported first.
        timeout: how long the server waits for nodes to connect, and to reply in a round, s.
        out: directory on the server to which the result is written.
    """

    scenario: Scenario
    task: str = "digits"
    policy: str = "pdx"
    rounds: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=0)
    partition: str | None = None
    data: Path | None = None
    kappa: float = Field(default=0.0, ge=0)
    delivery: str = "1"
    deadline: float | None = Field(default=None, gt=0)
    packet_success: ArrivalRule = "worst-phase"
    imports: str = ""
    timeout: float = Field(default=3600.0, gt=0)
    out: Path

    @field_validator("scenario", mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return Scenario.from_text(value) if isinstance(value, str) else value

    @classmethod
    def from_run_config(cls, config: Mapping[str, Any]) -> Self:
        """From the configuration of a Flower run: keys with ``-`` for ``_``, empty text for None.

        Imports the modules in ``imports``.
        """
        given = {name.replace("-", "_"): value for name, value in config.items() if value != ""}
        run = cls(**given)
        for module in filter(None, run.imports.split(",")):
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise InputError(
                    f"imports: {module} cannot be imported: {error}; accepted: modules that "
                    "Python finds in Flower's processes."
                ) from error
        return run

    def run_config(self) -> UserConfig:
        """For Flower, whose configurations hold text and numbers; without fields that are None."""
        config = self.model_dump(mode="json", exclude_none=True, exclude={"scenario"})
        config["scenario"] = self.scenario.model_dump_json()
        return {name.replace("_", "-"): value for name, value in config.items()}

    @functools.cached_property
    def loaded_task(self) -> Task:
        """The task."""
        return load_task(
            self.task,
            workers=self.scenario.workers,
            partition=self.partition,
            directory=self.data,
        )

    def data_and_model(self) -> tuple[FederatedData, ModelStack, Weights]:
        """Data, model and first weights (1, *shape), the same on the server and on every node."""
        (data,) = draw_runs(self.loaded_task, 1, self.scenario.workers, self.seed, CPU)
        stack, first = first_models(self.loaded_task, 1, 1, self.seed, CPU)
        return data, stack, first

    def make_policy(self) -> tuple[str, Policy]:
        """Name and object of the policy, tuned for the scenario."""
        found = make_policies(
            [self.policy],
            self.scenario.any_cell(),
            seed=self.seed,
            options={
                "kappa": self.kappa,
                "delivery": [float(rate) for rate in self.delivery.split(",")],
                "bits": self.scenario.model_bits(self.loaded_task.weights),
            },
        )
        return next(iter(found.items()))


def round_line(number: int, error: float) -> str:
    """The line that the server logs after a round, with the error of the global model."""
    return f"feduplink: round {number}, error {error!r}"


_ROUND_LINE = re.compile(r"feduplink: round (\d+), error (\S+)")


def parse_round_line(line: str) -> tuple[int, float] | None:
    """Inverse of :func:`round_line` for a line of a log; None for other lines."""
    found = _ROUND_LINE.search(line)
    return found and (int(found[1]), float(found[2]))


_RESULT_FILE, _KIND = "result.safetensors", "Flower result"


@dataclass(frozen=True)
class TaskResult:
    """Result of a run of N rounds.

    Attributes:
        history: history of one policy in one run, as the local engine returns it.
        present: workers whose node replied with a model, (N, L) bool.
        uplink: the rounds on the uplink, as the local engine records them.
        model: the final global model, (*shape) per parameter.
    """

    history: FederatedHistory
    present: Tensor
    uplink: UplinkRecord
    model: dict[str, Tensor]

    def write(self, directory: Path) -> None:
        """Write the result to one file in ``directory``."""
        write_tensors(directory / _RESULT_FILE, _KIND, pack(self))

    @staticmethod
    def remove(directory: Path) -> None:
        """Remove the result of an earlier run."""
        (directory / _RESULT_FILE).unlink(missing_ok=True)

    @classmethod
    def read(cls, directory: Path) -> TaskResult:
        """Read what :meth:`write` wrote.

        Raises:
            InputError: if there is no result, because no run was completed, or a damaged one.
        """
        path = directory / _RESULT_FILE
        if not path.exists():
            raise InputError(
                f"result: {directory} has no {_RESULT_FILE}; accepted: the directory of a run that "
                "was completed."
            )
        file = read_tensors(path, _KIND)
        with fitting(path, _KIND, "this version"):
            result: TaskResult = unpack(file, [cls, FederatedHistory, RunHistory, UplinkRecord])
            return result
