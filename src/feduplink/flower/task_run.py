"""A federated task as a Flower run: its settings, as the run's configuration carries them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from flwr.app import UserConfig
from pydantic import Field, field_validator

from feduplink.federated import Sender, Task, find_senders, load_task
from feduplink.scenario import Scenario
from feduplink.settings import PacketSuccess
from feduplink.validation import ValidatedModel


class TaskRun(ValidatedModel):
    """Settings of a run; the names are those of the options of ``feduplink federate``.

    Attributes:
        scenario: the cell and its radio, as YAML or JSON text in the configuration.
        task: by name.
        policy: a policy or access scheme by name, or the directory it was saved to.
        rounds: of the run; None takes the task's.
        seed: of data, first weights, minibatches, channels and arrivals.
        partition: how the task spreads its data; None is its own way.
        data: directory of the data sets, on every node; None looks at ``FEDUPLINK_DATA``.
        kappa: seconds that one joule is worth to access schemes that choose powers by it.
        delivery: share of the rounds in which models have to arrive with ``schedule``; one value,
            or one per worker with commas.
        deadline: longest round on the air, s; None is none.
        packet_success: which SINR decides whether an upload arrives.
        timeout: seconds that the server waits for nodes: to connect, and to reply in a round.
        out: directory on the server that the result is written to.

    """

    scenario: Scenario
    task: str = "digits"
    policy: str = "pdx"
    rounds: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0)
    partition: str | None = None
    data: Path | None = None
    kappa: float = Field(0.0, ge=0)
    delivery: str = "1"
    deadline: float | None = Field(None, gt=0)
    packet_success: PacketSuccess = "worst-phase"
    timeout: float = Field(3600.0, gt=0)
    out: Path

    @field_validator("scenario", mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return Scenario.from_text(value) if isinstance(value, str) else value

    @classmethod
    def from_run_config(cls, config: Mapping[str, Any]) -> Self:
        """From the configuration of a Flower run, whose keys have ``-`` for ``_``."""
        return cls(**{name.replace("-", "_"): value for name, value in config.items()})

    def run_config(self) -> UserConfig:
        """For Flower, which knows text and numbers only; without what is None."""
        config = self.model_dump(mode="json", exclude_none=True, exclude={"scenario"})
        config["scenario"] = self.scenario.model_dump_json()
        return {name.replace("_", "-"): value for name, value in config.items()}

    @functools.cached_property
    def loaded_task(self) -> Task:
        """The task itself."""
        return load_task(
            self.task,
            workers=self.scenario.workers,
            partition=self.partition,
            directory=self.data,
        )

    def sender(self) -> tuple[str, Sender]:
        """The policy or access scheme, and how tables call it."""
        found = find_senders(
            [self.policy],
            self.scenario,
            seed=self.seed,
            seconds_per_joule=self.kappa,
            delivery=[float(rate) for rate in self.delivery.split(",")],
        )
        return next(iter(found.items()))
