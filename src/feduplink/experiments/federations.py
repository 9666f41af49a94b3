"""Federated comparisons that several figures show, run once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, RootModel

from feduplink.errors import InputError
from feduplink.experiments.compared_policies import (
    BASELINES,
    COMPARED,
    LEARNED,
    POLICIES_VERSION,
    UNSELECTED,
    names,
    policy_for,
)
from feduplink.experiments.compared_schedules import CHEAPER, FIFTH, HALF, SCHEDULES
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.table import csv_rows, csv_text
from feduplink.federated import (
    OFDMA,
    TDMA,
    FederatedHistory,
    FederationSettings,
    Ideal,
    RunHistory,
    Sender,
    Task,
    federate,
    find_access_scheme,
    load_task,
    task_options,
)
from feduplink.federated.data.datasets import require
from feduplink.federated.data.partition import weighed_by_noise
from feduplink.federated.tasks.reviews import imdb
from feduplink.policies import FullPower, Orthogonal, RandomPower, UnrolledPolicy
from feduplink.registry import ACCESS_SCHEMES
from feduplink.scenario import Scenario
from feduplink.settings import Partition
from feduplink.storage.files import write_text

Kind = Literal["images", "airquality", "reviews"]

#: Of kept comparisons.
FEDERATIONS_VERSION = 1

#: What the paper compares, with its baselines in both readings; what is compared here.
PAPERS = (Ideal.name, *BASELINES, *LEARNED)
ALL = (*names(Ideal, TDMA, OFDMA, FullPower), *COMPARED)
#: Reviews take long, also on a GPU; only what tells most is run on them.
ON_REVIEWS = (*PAPERS, UnrolledPolicy.name)
REVIEWS_PUBLISHED = (Ideal.name, *UNSELECTED, *LEARNED)
#: What other data than digits are learned with to tell what it costs. Rounds of other policies cost
#: as much more or less than these as with digits: the channels are the same, uploads longer or not.
ON_OTHER_DATA = (
    *names(Ideal, TDMA, RandomPower, Orthogonal, UnrolledPolicy),
    *(CHEAPER, HALF, FIFTH),
)
#: A model counts as learned from an error of this many times the final one of ``ideal``.
LEARNED_AT = 1.25

#: Columns of the CSV file, fields of :class:`RunHistory`.
_PER_ROUND = ("error", "arrivals", "transmitting", "airtime_s", "energy_j")
#: Rounds that an interruption may cost; a round of whole reviews takes 10 to 20 s on a GPU.
_CHECKPOINT_EVERY = 5


class _History(RootModel[FederatedHistory]):
    # A diverged model has an infinite or undefined error, which JSON proper does not know.
    model_config = ConfigDict(ser_json_inf_nan="constants")


@dataclass(frozen=True)
class Comparison:
    """One federated comparison.

    Attributes:
        kind: of data.
        runs: independent repetitions.
        policies: their names.
        partition: of the images.
        aggregation: the server's average.
    """

    kind: Kind
    runs: int
    policies: tuple[str, ...] = ALL
    partition: Partition = "iid"
    aggregation: str = "exact"


class Federations(BaseModel):
    """Federated comparisons side by side, by what sets them apart."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    comparisons: dict[str, FederatedHistory]

    def to_csv(self) -> str:
        """One row per comparison, policy, run and round."""
        rows = (
            [label, history.task, policy, number, place + 1, *values]
            for label, history in self.comparisons.items()
            for policy, runs in history.policies.items()
            for number, run in enumerate(runs)
            for place, values in enumerate(
                zip(*(getattr(run, name) for name in _PER_ROUND), strict=True)
            )
        )
        return csv_text(["comparison", "task", "policy", "run", "round", *_PER_ROUND], rows)

    @classmethod
    def from_csv(cls, text: str) -> Federations:
        """What :meth:`to_csv` wrote: without the metric's name and the bytes sent."""
        rows = csv_rows(text, ["comparison", "task", "policy", "run", "round", *_PER_ROUND])
        tasks = {row["comparison"]: row["task"] for row in rows}
        found: dict[str, dict[str, dict[str, list[dict[str, str]]]]] = {}
        for row in rows:
            policies = found.setdefault(row["comparison"], {})
            policies.setdefault(row["policy"], {}).setdefault(row["run"], []).append(row)
        return cls(
            comparisons={
                label: FederatedHistory(
                    task=tasks[label],
                    metric_name="error",
                    policies={
                        name: tuple(_run_history(rounds) for rounds in runs.values())
                        for name, runs in policies.items()
                    },
                )
                for label, policies in found.items()
            }
        )

    def final(self, label: str, policy: str) -> float:
        """Mean error of the last ten rounds over all runs."""
        return self.comparisons[label].final_error(policy)

    def in_words(self, label: str, policies: Sequence[str]) -> str:
        """The final errors in words."""
        return ", ".join(f"{name} {self.final(label, name):.3g}" for name in policies)


def _run_history(rounds: Sequence[dict[str, str]]) -> RunHistory:
    """One run from its rows of a CSV file."""

    def cost(name: str) -> tuple[float | None, ...]:
        return tuple(float(row[name]) if row[name] else None for row in rounds)

    return RunHistory(
        error=tuple(float(row["error"]) for row in rounds),
        arrivals=tuple(int(row["arrivals"]) for row in rounds),
        transmitting=tuple(int(row["transmitting"]) for row in rounds),
        airtime_s=cost("airtime_s"),
        energy_j=cost("energy_j"),
        sent_bytes=(),
    )


def federation(context: ExperimentContext, comparison: Comparison) -> FederatedHistory:
    """Run a comparison, or read it if it was run before."""
    task = _task(context, comparison)
    rounds = context.scale.text_rounds if comparison.kind == "reviews" else context.scale.rounds
    scenario = Scenario()
    if comparison.partition == "gaussian":
        scenario = weighed_by_noise(scenario)
    identity = (
        task.name,
        asdict(task.work),
        rounds or task.rounds,
        context.seed,
        scenario.model_dump(mode="json"),
        asdict(comparison),
    )
    versions = (POLICIES_VERSION, FEDERATIONS_VERSION)
    cached = context.cache_path("federations", versions, *identity)
    file, checkpoint = cached.with_suffix(".json"), cached.with_suffix(".safetensors")
    if file.exists():
        return _History.model_validate_json(file.read_bytes()).root
    history = federate(
        task,
        {name: _policy(context, name, scenario) for name in comparison.policies},
        scenario,
        FederationSettings(
            runs=comparison.runs,
            rounds=rounds,
            aggregation=comparison.aggregation,
            checkpoint_every=_CHECKPOINT_EVERY,
        ),
        seed=context.seed,
        device=context.device,
        checkpoint=checkpoint,
        resume=checkpoint.exists(),
    )
    write_text(file, _History(history).model_dump_json())
    checkpoint.unlink(missing_ok=True)
    return history


def image_set(context: ExperimentContext) -> Literal["mnist", "digits"]:
    """MNIST where it is at hand, else the digits that come with the installation."""
    try:
        require("mnist", context.data)
    except InputError:
        return "digits"
    return "mnist"


def substitution(context: ExperimentContext, data: str | None) -> str | None:
    """What stands in for the paper's data set in a figure, in words; None: nothing does."""
    if data != "mnist" or image_set(context) == "mnist":
        return None
    return "the 5,000 digits that come with the installation, not MNIST"


def image_task(context: ExperimentContext, partition: Partition) -> Task:
    """Images of the set that is at hand."""
    name = image_set(context)
    directory = context.data if "directory" in task_options(name) else None
    return load_task(name, workers=Scenario().workers, partition=partition, directory=directory)


def _task(context: ExperimentContext, comparison: Comparison) -> Task:
    workers = Scenario().workers
    if comparison.kind == "images":
        return image_task(context, comparison.partition)
    if comparison.kind == "reviews":
        size, work = context.scale.text_size, context.scale.text_work
        return imdb(workers=workers, directory=context.data, size=size, work=work)
    return load_task("airquality", workers=workers, directory=context.data)


def _policy(context: ExperimentContext, name: str, scenario: Scenario) -> Sender:
    if name in SCHEDULES:
        return SCHEDULES[name]()
    if name in ACCESS_SCHEMES.names():
        return find_access_scheme(name)
    return policy_for(context, name, scenario, context.seed)
