"""Settings and result of a Flower run of a federated task."""

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
    """Settings of a Flower run, with the names of the options of ``feduplink federate``.

    Attributes:
        scenario: the cell and its radio; YAML or JSON text in the run configuration.
        task: name of the task.
        policy: name of a policy, or directory of a saved one.
        rounds: number of rounds; None uses that of the task.
        seed: seed of data, initial weights, minibatches, channels and arrivals.
        partition: partition of the data between the workers; None uses the task's default.
        data: directory of the data sets on every node; None uses that of ``FEDUPLINK_DATA``.
        kappa: price of energy κ, s/J, for policies that use it.
        delivery: required delivery rate of ``schedule``, one value or one per worker separated by
            commas.
        deadline: deadline of a round on the uplink, s; None: no deadline.
        packet_success: rule that decides which SINR an upload is received at.
        imports: modules to import before the run, separated by commas.
        timeout: time limit of the server for nodes to connect, and to reply in a round, s.
        out: directory on the server for the result.
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
        """Make the settings from a run configuration, and import the modules in ``imports``.

        Args:
            config: configuration of a Flower run, with ``-`` for ``_`` in keys and empty strings
                for None.

        Raises:
            InputError: if a value is not accepted or a module cannot be imported.
        """
        given = {name.replace("-", "_"): value for name, value in config.items() if value != ""}
        run = cls(**given)
        for module in filter(None, run.imports.split(",")):
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise InputError(
                    f"imports: {module} cannot be imported: {error}; accepted: modules that can be "
                    "imported in Flower's processes."
                ) from error
        return run

    def run_config(self) -> UserConfig:
        """Convert to a run configuration of strings and numbers, without fields that are None."""
        config = self.model_dump(mode="json", exclude_none=True, exclude={"scenario"})
        config["scenario"] = self.scenario.model_dump_json()
        return {name.replace("_", "-"): value for name, value in config.items()}

    @functools.cached_property
    def loaded_task(self) -> Task:
        """Task of the run."""
        return load_task(
            self.task,
            workers=self.scenario.workers,
            partition=self.partition,
            directory=self.data,
        )

    def data_and_model(self) -> tuple[FederatedData, ModelStack, Weights]:
        """Make data, model and initial weights, which are equal on the server and on all nodes.

        Returns:
            Data of the run, module of the models, and weights (1, *shape) per parameter.
        """
        (data,) = draw_runs(self.loaded_task, 1, self.scenario.workers, self.seed, CPU)
        stack, first = first_models(self.loaded_task, 1, 1, self.seed, CPU)
        return data, stack, first

    def make_policy(self) -> tuple[str, Policy]:
        """Make the policy, tuned for the scenario; returns its label and the policy."""
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
    """Format the log line of a round with the test error of the global model.

    >>> round_line(3, 0.25)
    'feduplink: round 3, error 0.25'
    """
    return f"feduplink: round {number}, error {error!r}"


_ROUND_LINE = re.compile(r"feduplink: round (\d+), error (\S+)")


def parse_round_line(line: str) -> tuple[int, float] | None:
    """Parse a log line of :func:`round_line`; None for other lines.

    >>> parse_round_line("INFO: feduplink: round 3, error 0.25")
    (3, 0.25)
    """
    found = _ROUND_LINE.search(line)
    return found and (int(found[1]), float(found[2]))


_RESULT_FILE, _KIND = "result.safetensors", "Flower result"


@dataclass(frozen=True)
class TaskResult:
    """Result of a Flower run of N rounds.

    Attributes:
        history: history of one policy and one run.
        present: workers whose node replied with a model, (N, L) bool.
        uplink: uploads of all rounds.
        model: final global model, (*shape) per parameter.
    """

    history: FederatedHistory
    present: Tensor
    uplink: UplinkRecord
    model: dict[str, Tensor]

    def write(self, directory: Path) -> None:
        """Save the result in ``directory``."""
        write_tensors(directory / _RESULT_FILE, _KIND, pack(self))

    @staticmethod
    def remove(directory: Path) -> None:
        """Remove the result of an earlier run from ``directory``."""
        (directory / _RESULT_FILE).unlink(missing_ok=True)

    @classmethod
    def read(cls, directory: Path) -> TaskResult:
        """Load the result of a run.

        Args:
            directory: directory that was given to :meth:`write`.

        Raises:
            InputError: if the run was not completed, or the file is damaged.
        """
        path = directory / _RESULT_FILE
        if not path.exists():
            raise InputError(
                f"result: {directory} has no {_RESULT_FILE}; accepted: the directory of a "
                "completed run."
            )
        file = read_tensors(path, _KIND)
        with fitting(path, _KIND, "this version"):
            result: TaskResult = unpack(file, [cls, FederatedHistory, RunHistory, UplinkRecord])
            return result
