"""Federated learning over the uplink: compare policies by error, time and energy."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from feduplink.errors import InputError
from feduplink.registry import AGGREGATIONS, SCHEDULED, TASKS
from feduplink.scenario import Scenario
from feduplink.settings import ArrivalRule
from feduplink.tables import TextTable, three_digits
from feduplink.validation import import_extra
from feduplink.workflows.options import (
    POLICY_NAMES,
    ChannelsOption,
    CommandLine,
    DataDirectory,
    Device,
    PoliciesOption,
    Reading,
    Resume,
    Seed,
    workflow,
)
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from feduplink.channels import Channels
    from feduplink.federated import FederatedHistory, PolicyHistory, Task
    from feduplink.federated.history import Cost
    from feduplink.reporting.style import StyledFigure

CHECKPOINT_FILE = "federated.safetensors"
#: The default target is the smallest final error times this.
_TARGET_FACTOR = 1.2
#: Quantities to plot an error against, and their names in the history.
_COSTS: dict[str, Any] = {"rounds": "rounds", "seconds": "airtime_s", "joules": "energy_j"}

Delivery = Annotated[
    "float | Sequence[float]",
    Field(
        description="Share of the rounds in which the model of every worker has to arrive with "
        "schedule and learned-schedule; one value or one per worker; 1: everyone in every round"
    ),
    CommandLine(
        metavar="D[,D...]", type=tuple[Annotated[float, Field(gt=0, le=1)], ...], default="1"
    ),
]


#: A worker whose model arrives in fewer of the rounds is reported.
_HEARD = 0.5


@dataclass(frozen=True, repr=False, eq=False)
class FederatedComparison(Result, Mapping[str, "PolicyHistory"]):
    """The histories of all policies in a federation, by name.

    Attributes:
        history: errors, arrivals, time and energy of every round.
        scenario: the cell, the radio and the problem.
        target: the error that time and energy are counted to.
        settings: further entries of ``metrics.json``, as they were given.
        notes: sentences for the reader, without capital and full stop.
    """

    kind = "federation"
    files = "federated.md, error.png, arrivals.png, metrics.json"
    table_file = "federated.md"

    history: FederatedHistory
    scenario: Scenario
    target: float
    settings: Mapping[str, Any]
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> PolicyHistory:
        from feduplink.federated import PolicyHistory

        return PolicyHistory(self.history.policies[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.history.policies)

    def __len__(self) -> int:
        return len(self.history.policies)

    def table(self) -> TextTable:
        """A row per policy: final error, arrivals, time and energy, and the cost to the target."""
        return replace(self.history.table(self.target), notes=self.notes)

    def findings(self) -> list[str]:
        """Who reaches the target fastest and with least energy, who does not, and who is heard."""
        history, found = self.history, []
        costs: dict[str, tuple[Cost, str]] = {
            "time": ("airtime_s", "s"),
            "energy": ("energy_j", "J"),
        }
        for quantity, (cost, unit) in costs.items():
            reached = {
                name: value
                for name in self
                if (value := history.median_cost_to(name, self.target, cost)) is not None
            }
            ranked = sorted(reached, key=reached.__getitem__)[:3]
            shown = ", ".join(f"{name} {three_digits(reached[name])} {unit}" for name in ranked)
            if shown:
                found.append(
                    f"Least {quantity} until the {history.metric_name} is at most "
                    f"{self.target:.3g} (median over the runs): {shown}."
                )
        late = [n for n in self if history.median_cost_to(n, self.target, "rounds") is None]
        if late:
            found.append(f"Not reached in half of the runs or more: {', '.join(late)}.")
        least = {n: min(self[n].delivered) for n in self if any(run.arrived for run in self[n])}
        neglected = [f"{name} {share:.0%}" for name, share in least.items() if share < _HEARD]
        if neglected:
            found.append(
                "Share of the rounds in which the model of the worker that is heard least arrives: "
                f"{', '.join(neglected)}; at least {_HEARD:.0%} with the others."
            )
        return found

    def plot(
        self,
        quantity: Literal["error"] = "error",
        ax: Axes | None = None,
        *,
        against: Literal["rounds", "seconds", "joules"] = "rounds",
    ) -> Axes:
        """Draw the error of the global model against rounds, seconds or joules."""
        from feduplink.reporting.federated import plot_error

        if quantity != "error" or against not in _COSTS:
            raise InputError(
                f"plot: {quantity} against {against}; accepted: error against rounds, seconds or "
                "joules."
            )
        axes: Axes = plot_error(self.history, _COSTS[against], ax)
        return axes

    def records(self) -> Iterator[dict[str, Any]]:
        """Columns policy, run, round, and one per quantity."""
        for name, runs in self.history.policies.items():
            for number, run in enumerate(runs):
                columns = run.to_json()
                for index in range(len(run.error)):
                    row = {"policy": name, "run": number, "round": index + 1}
                    yield row | {key: values[index] for key, values in columns.items()}

    def metrics(self) -> dict[str, Any]:
        """The settings, and per policy and run one value per round."""
        history = self.history
        return {
            "title": f"Federated learning of {history.task}",
            "scenario": self.scenario.model_dump(mode="json"),
            **self.settings,
            "notes": list(self.notes),
            "task": history.task,
            "metric": history.metric_name,
            "target_error": self.target,
            "policies": {
                name: {
                    **{
                        f"median_{cost}_to_target": history.median_cost_to(name, self.target, cost)
                        for cost in _COSTS.values()
                    },
                    **entry,
                }
                for name, entry in history.to_json().items()
            },
        }

    def figures(self) -> dict[str, StyledFigure]:
        """Arrivals per round, and the error against rounds, seconds and joules."""
        from feduplink.reporting.federated import plot_arrivals, plot_costs

        history = self.history
        arrivals = {name: [run.arrivals for run in runs] for name, runs in history.policies.items()}
        return {
            "arrivals": plot_arrivals(arrivals),
            "error": plot_costs({history.task: history}),
        }


@workflow
def federate(
    scenario: Scenario,
    task: Annotated[
        Task | str,
        Field(description="Task to learn: a name or package.module:function"),
        TASKS,
        CommandLine(metavar="NAME", type=str),
    ] = "digits",
    policies: Annotated[
        PoliciesOption,
        replace(POLICY_NAMES, default=f"{', '.join(SCHEDULED)}, {POLICY_NAMES.default}"),
    ] = None,
    *,
    channels: ChannelsOption = None,
    runs: Annotated[
        int, Field(ge=1, le=10_000, description="Independent repetitions"), CommandLine("N")
    ] = 1,
    rounds: Annotated[
        int | None,
        Field(ge=1, le=10**6, description="Rounds of every run"),
        CommandLine("N", default="the task's"),
    ] = None,
    partition: Annotated[
        str | None,
        Field(
            description="Distribution of the data over the workers; images: iid, gaussian (pixel "
            "noise) or dirichlet (skewed labels)"
        ),
        CommandLine("NAME", default="iid"),
    ] = None,
    aggregation: Annotated[
        Any,
        Field(
            description="Average of the server: unbiased weighs by 1/PSR, published has the faults "
            "of the authors' code and only serves to show them"
        ),
        AGGREGATIONS,
        CommandLine("NAME", type=str),
    ] = "exact",
    deadline: Annotated[
        float | None,
        Field(gt=0, description="Longest round, in seconds; what is not sent by then is lost"),
        CommandLine("S"),
    ] = None,
    packet_success: Annotated[
        ArrivalRule,
        Field(
            description="SINR that decides whether an upload arrives: with all senders active, or "
            "of every phase, weighted by the bits sent in it"
        ),
    ] = "worst-phase",
    present: Annotated[
        Tensor | str | None,
        Field(
            description="Workers that leave and join: from a round on those listed, both counted "
            "from 0, as in '20:0,1,2;60:0,1,2,3'"
        ),
        CommandLine("ROUND:WORKERS[;...]", type=str | None, default="all workers, always"),
    ] = None,
    kappa: Annotated[
        float,
        Field(
            ge=0,
            description="Seconds that one joule is worth to tdma, ofdma, fixed-power and schedule, "
            "which choose their powers by it; 0: as fast as possible",
        ),
        CommandLine("S/J"),
    ] = 0.0,
    delivery: Delivery = (1.0,),
    target: Annotated[
        float | None,
        Field(gt=0, description="Error that time and energy are counted to"),
        CommandLine("ERROR", default="the smallest final error plus 20 %"),
    ] = None,
    resample_channels: Annotated[
        bool,
        Field(
            description="Draw the channels of the rounds from the test channels with replacement, "
            "for more rounds than there are channels"
        ),
    ] = False,
    engine: Annotated[
        Literal["local", "flower"],
        Field(description="Train the workers in this process, or in Flower's simulation runtime"),
    ] = "local",
    data: DataDirectory = None,
    checkpoint_every: Annotated[
        int, Field(ge=1, le=10**6, description="Rounds between checkpoints"), CommandLine("N")
    ] = 10,
    out: Path | None = None,
    resume: Resume = False,
    imports: Collection[str] = (),
    seed: Seed = 0,
    device: Device = "cpu",
    **reading: Reading,
) -> FederatedComparison:
    """Train a federated model over the uplink; compare policies by error, time and energy.

    Policies share the data, the first weights, the minibatches, the channels and the random numbers
    that decide arrivals of each run.

    Args:
        scenario: the cell, the radio and the problem.
        task: a registered name, ``package.module:function`` or a :class:`feduplink.Task`.
        policies: names, objects, functions ``f(csi, scenario)`` or directories of training runs.
        channels: recorded channels: policies are tuned on the training split, and the test
            channels are those of the rounds, in their order, run after run.
        runs: independent repetitions, each with its own data, weights, channels and arrivals.
        rounds: of every run; by default those of the task.
        partition: distribution of the data over the workers.
        aggregation: a registered name, ``package.module:Class`` or an object.
        deadline: longest round, s.
        packet_success: the SINR that decides whether an upload arrives.
        present: workers in the federation by round, (rounds, L) bool, or text.
        kappa: κ, s/J.
        delivery: d, share of the rounds, one value or one per worker.
        target: error that time and energy are counted to.
        resample_channels: draw the channels of the rounds with replacement.
        engine: ``local`` or ``flower``.
        data: directory of the data sets.
        checkpoint_every: rounds between checkpoints.
        out: directory for result and checkpoint; without it none is written.
        resume: continue from the checkpoint in ``out``.
        imports: modules that Flower's processes import first.
        seed: of all random numbers.
        device: where workers are trained.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, as of
            :func:`feduplink.make_channels`.

    """
    from feduplink import federated
    from feduplink.channels import Channels, resample_csi
    from feduplink.channels.channel_set import channels_for
    from feduplink.federated.data.partition import weighed_by_noise
    from feduplink.federated.uplink import recorded_rounds
    from feduplink.policies.store import (
        default_policies,
        made_for,
        made_for_sentence,
        make_policies,
    )
    from feduplink.storage.run_directory import check_beginning, resume_hint

    if engine == "flower":
        _check_flower_options(
            runs=(runs, 1),
            aggregation=(aggregation, "exact"),
            present=(present, None),
            channels=(channels, None),
            device=(device, "cpu"),
            resume=(resume, False),
            checkpoint_every=(checkpoint_every, 10),
        )
    if resample_channels and channels is None:
        raise InputError("resample-channels: accepted only with --channels FILE.")
    checkpoint = None if out is None else Path(out) / CHECKPOINT_FILE
    check_beginning(checkpoint, "a federated comparison", resume=resume)
    recording: Channels | None = None
    if channels is not None or reading:
        scenario, recording = channels_for(
            scenario, channels, 0, seed=seed, has_data_sizes=True, **reading
        )
    if isinstance(task, str):
        TASKS.find(task)  # so that an unknown name is refused before channels are drawn
    if recording is not None and len(recording.rows["training"]):
        tuned_on = recording
    else:
        tuned_on = Channels.from_scenario(scenario.any_cell(), seed=seed)
    found = task_of(scenario, task, partition=partition, data=data)
    if partition == "gaussian" and "weights" not in scenario.model_fields_set:
        scenario = weighed_by_noise(scenario)
    count = rounds or found.rounds
    csi = None
    if recording is not None:
        csi = recording.test
        if resample_channels:
            csi = resample_csi(csi, runs * count, seed=seed)
        csi = recorded_rounds(csi, runs * count, csi.shape[-1])
    settings = federated.FederationSettings(
        runs=runs,
        rounds=count,
        aggregation=aggregation,
        deadline_s=deadline,
        packet_success=packet_success,
        present=_presence(present, count, scenario.workers),
        checkpoint_every=checkpoint_every,
    )
    names = [*SCHEDULED, *default_policies()] if policies is None else policies
    shares = delivery_of(delivery, scenario)
    anywhere = scenario.any_cell()
    with resume_hint(checkpoint):
        compared = make_policies(
            names,
            anywhere,
            channels=tuned_on,
            seed=seed,
            options={
                "kappa": kappa,
                "delivery": shares,
                "bits": scenario.model_bits(found.weights),
            },
        )
        if engine == "flower":
            flower = import_extra("feduplink.flower", "flower")
            history: FederatedHistory = flower.federate_with_flower(
                task,
                compared,
                scenario,
                rounds=count,
                seed=seed,
                partition=partition,
                data=data,
                deadline_s=deadline,
                packet_success=packet_success,
                imports=imports,
            )
        else:
            federation = federated.Federation(
                found, compared, scenario, settings, seed=seed, device=device, recorded=csi
            )
            history = federation.run(checkpoint=checkpoint, resume=resume)
    differences = {
        name: differing
        for name, policy in compared.items()
        if (differing := made_for(policy, anywhere, recorded=recording is not None))
    }
    usual = federated.task_options(task) if isinstance(task, str) else {}
    entries: dict[str, Any] = {
        "seed": seed,
        "engine": engine,
        "partition": partition or usual.get("partition"),
        "aggregation": str(aggregation),
        "kappa_s_per_j": kappa,
        "delivery": [shares] if isinstance(shares, float) else list(shares),
        "deadline_s": deadline,
        "packet_success": packet_success,
        "present": present if isinstance(present, str) else None,
        "made_for": differences,
    }
    notes: list[str] = []
    if recording is not None:
        entries["channels"] = {**recording.as_metrics(), "resampled": resample_channels}
        how = "drawn with replacement" if resample_channels else "in their order"
        notes = [*recording.notes, f"the channels of the rounds are those for the test, {how}"]
    comparison = FederatedComparison(
        history,
        scenario,
        default_target(history) if target is None else target,
        entries,
        (*notes, *(made_for_sentence(name, differs) for name, differs in differences.items())),
    )
    if out is not None:
        comparison.save(out)
    return comparison


def task_of(
    scenario: Scenario,
    task: Task | str = "digits",
    *,
    partition: str | None = None,
    data: Path | None = None,
    **_further: Any,
) -> Task:
    """The task of a federation, for the workers of its scenario."""
    from feduplink.federated import Task, load_task

    if isinstance(task, Task):
        return task
    return load_task(task, workers=scenario.workers, partition=partition, directory=data)


def _check_flower_options(**options: tuple[Any, Any]) -> None:
    """Refuse options that the Flower engine does not have, given with their only accepted value."""
    for name, (value, accepted) in options.items():
        if value != accepted:
            raise InputError(
                f"{name.replace('_', '-')}: not available with --engine flower; accepted: "
                f"{accepted}, or --engine local."
            )
    import_extra("feduplink.flower", "flower")  # before anything takes long


def default_target(history: FederatedHistory) -> float:
    """The error that costs are counted to by default; 0 if every model diverged."""
    errors = (history.final_error(name) for name in history.policies)
    return _TARGET_FACTOR * min((error for error in errors if math.isfinite(error)), default=0.0)


def delivery_of(delivery: float | Sequence[float], scenario: Scenario) -> float | tuple[float, ...]:
    """The delivery rates d: one for all workers, or one per worker."""
    rates = (delivery,) if isinstance(delivery, int | float) else tuple(delivery)
    if len(rates) not in (1, scenario.workers):
        raise InputError(
            f"delivery: {len(rates)} values; accepted: one, or one for each of the "
            f"{scenario.workers} workers."
        )
    return float(rates[0]) if len(rates) == 1 else rates


def _presence(present: Tensor | str | None, rounds: int, workers: int) -> Tensor | None:
    """Workers in the federation by round, (rounds, L) bool, from text or as given."""
    from feduplink.federated import presence

    if not isinstance(present, str):
        return present
    accepted = (
        f"present: {present!r} is not accepted; accepted: ROUND:WORKER,WORKER;... with rounds from "
        f"0 to {rounds - 1} and workers from 0 to {workers - 1}."
    )
    entries = [entry.split(":") for entry in present.split(";")]
    try:
        # A range has no index for a number that is not in it.
        changes = {
            range(rounds).index(int(start)): {
                range(workers).index(int(worker)) for worker in listed.split(",")
            }
            for start, listed in entries
        }
    except ValueError:
        raise InputError(accepted) from None
    if len(changes) < len(entries):
        raise InputError(accepted)
    return presence(rounds, workers, changes)
