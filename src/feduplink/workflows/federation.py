"""Federated learning over the uplink: comparison of policies by error, time and energy."""

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
from feduplink.units import scaled_unit
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
#: Default target error divided by the smallest final error.
_TARGET_FACTOR = 1.2
#: Quantities on the horizontal axis of :meth:`FederatedComparison.plot`, with their history fields.
_COSTS: dict[str, Any] = {"rounds": "rounds", "seconds": "airtime_s", "joules": "energy_j"}

Delivery = Annotated[
    "float | Sequence[float]",
    Field(
        description="Required delivery rate of every worker with schedule and learned-schedule: "
        "share of the rounds in which its model arrives; one value or one per worker"
    ),
    CommandLine(
        metavar="D[,D...]", type=tuple[Annotated[float, Field(gt=0, le=1)], ...], default="1"
    ),
]


#: Delivery rate of a worker below which a policy appears in the findings.
_MIN_DELIVERY_RATE = 0.5


@dataclass(frozen=True, repr=False, eq=False)
class FederatedComparison(Result, Mapping[str, "PolicyHistory"]):
    """Result of :func:`federate`: a mapping of policy names to their histories.

    Attributes:
        history: errors, arrivals, time and energy of every round.
        scenario: the cell, the radio and the problem.
        target: error up to which the cost (rounds, time, energy) is measured.
        settings: settings of the federation, further entries of ``metrics.json``.
        notes: remarks for the reader, without initial capital and full stop.

    >>> import feduplink as fu
    >>> compared = fu.federate(fu.Scenario(workers=2), "digits", ["max"], rounds=1)
    >>> list(compared), len(compared["max"][0].error)
    (['max'], 1)
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
        """Row per policy: final error, arrivals, time, energy, and the cost to the target."""
        return replace(self.history.table(self.target), notes=self.notes)

    def findings(self) -> list[str]:
        """Policies with the lowest time and energy to the target, failures, and delivery rates."""
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
            scaled = scaled_unit(unit, [reached[name] for name in ranked])
            shown = ", ".join(
                f"{name} {scaled.label(three_digits(scaled.displayed(reached[name])))}"
                for name in ranked
            )
            if shown:
                found.append(
                    f"Least {quantity} until the {history.metric_name} is at most "
                    f"{self.target:.3g} (median over the runs): {shown}."
                )
        late = [n for n in self if history.median_cost_to(n, self.target, "rounds") is None]
        if late:
            found.append(f"Not reached in half of the runs or more: {', '.join(late)}.")
        least = {n: min(self[n].delivered) for n in self if any(run.arrived for run in self[n])}
        neglected = [
            f"{name} {share:.0%}" for name, share in least.items() if share < _MIN_DELIVERY_RATE
        ]
        if neglected:
            found.append(
                f"Lowest delivery rate of a worker: {', '.join(neglected)}; at least "
                f"{_MIN_DELIVERY_RATE:.0%} with the others."
            )
        return found

    def plot(
        self,
        quantity: Literal["error"] = "error",
        ax: Axes | None = None,
        *,
        against: Literal["rounds", "seconds", "joules"] = "rounds",
    ) -> Axes:
        """Plot the error of the global model.

        Args:
            quantity: ``error``.
            ax: matplotlib axes to draw in; None: a new figure.
            against: horizontal axis: ``rounds``, ``seconds`` of airtime or ``joules``.

        Returns:
            The axes.

        Raises:
            InputError: if a quantity is unknown.
        """
        from feduplink.reporting.federated import plot_error

        if quantity != "error" or against not in _COSTS:
            raise InputError(
                f"plot: {quantity} against {against} is not available; accepted: error against "
                "rounds, seconds or joules."
            )
        axes: Axes = plot_error(self.history, _COSTS[against], ax)
        return axes

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows with the columns policy, run, round, and one per quantity."""
        for name, runs in self.history.policies.items():
            for number, run in enumerate(runs):
                columns = run.to_json()
                for index in range(len(run.error)):
                    row = {"policy": name, "run": number, "round": index + 1}
                    yield row | {key: values[index] for key, values in columns.items()}

    def metrics(self) -> dict[str, Any]:
        """Settings, median costs to the target, and the values of every round."""
        history = self.history
        kept = ", positions kept" if self.scenario.geometry == "kept" else ""
        return {
            "title": f"Federated learning of {history.task}{kept}",
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
        """Delivery by worker, and the error against rounds, seconds and joules."""
        from feduplink.reporting.federated import plot_arrivals, plot_costs, plot_delivery

        policies = self.history.policies
        if all(run.arrived for runs in policies.values() for run in runs):
            arrivals = plot_delivery(self.history)
        else:  # histories with the numbers of arrivals only
            arrivals = plot_arrivals(
                {name: [run.arrivals for run in runs] for name, runs in policies.items()}
            )
        return {
            "arrivals": arrivals,
            "error": plot_costs({self.history.task: self.history}, target=self.target),
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
            description="Aggregation of the models: unbiased weights them by 1/PSR; published "
            "reproduces the errors of the authors' code"
        ),
        AGGREGATIONS,
        CommandLine("NAME", type=str),
    ] = "exact",
    deadline: Annotated[
        float | None,
        Field(gt=0, description="End of a round, in seconds; incomplete uploads are lost"),
        CommandLine("S"),
    ] = None,
    packet_success: Annotated[
        ArrivalRule,
        Field(
            description="SINR that determines whether an upload arrives: the SINR with all workers "
            "active, or a mean over the phases weighted by the bits sent"
        ),
    ] = "worst-phase",
    present: Annotated[
        Tensor | str | None,
        Field(
            description="Workers in the federation from given rounds on, such as "
            "'20:0,1,2;60:0,1,2,3'; rounds and workers are numbered from 0"
        ),
        CommandLine("ROUND:WORKERS[;...]", type=str | None, default="all workers, always"),
    ] = None,
    kappa: Annotated[
        float,
        Field(
            ge=0,
            description="Price of energy kappa, in seconds per joule, for tdma, ofdma, fixed-power "
            "and schedule, which minimise time + kappa * energy; 0: minimum time",
        ),
        CommandLine("S/J"),
    ] = 0.0,
    delivery: Delivery = (1.0,),
    target: Annotated[
        float | None,
        Field(gt=0, description="Error up to which rounds, time and energy are measured"),
        CommandLine("ERROR", default="the smallest final error plus 20 %"),
    ] = None,
    resample_channels: Annotated[
        bool,
        Field(
            description="Draw the channels of the rounds from the recorded test channels with "
            "replacement, which allows more rounds than channels"
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

    In each run all policies share the data, the initial weights, the minibatches, the channels and
    the random numbers that determine arrivals.

    Args:
        scenario: the cell, the radio and the problem.
        task: registered name, ``package.module:function``, or a :class:`feduplink.Task`.
        policies: names, :class:`feduplink.Policy` objects or classes, functions
            ``f(csi, scenario)``, or directories of training runs. None: the default policies and
            those that transmit in schedules.
        channels: recorded channels. Policies are tuned on the training split; the test channels are
            those of the rounds, in their order. None: channels are drawn.
        runs: number of independent repetitions, with different data, weights, channels and
            arrivals.
        rounds: number of rounds of every run; None: that of the task.
        partition: distribution of the data over the workers; None: that of the task.
        aggregation: registered name, ``package.module:Class``, or an object.
        deadline: end of every round, s, at which incomplete uploads are lost; None: none.
        packet_success: arrival rule, see :mod:`feduplink.link.arrivals`.
        present: workers in the federation by round, (rounds, L) bool, or text such as
            ``20:0,1,2``; None: all workers in all rounds.
        kappa: price of energy κ of schedules, s/J.
        delivery: required delivery rate d of ``schedule`` and ``learned-schedule``, in (0, 1]; one
            value or one per worker.
        target: error up to which the cost is measured; None: 1.2 times the smallest final error.
        resample_channels: draw the channels of the rounds with replacement.
        engine: ``local`` (this process) or ``flower`` (Flower's simulation runtime).
        data: directory of the data sets; None: that of ``FEDUPLINK_DATA``.
        checkpoint_every: number of rounds between checkpoints.
        out: directory for the result and checkpoints; None: nothing is written.
        resume: continue from the checkpoint in ``out``.
        imports: modules that Flower's processes import first.
        seed: seed of all random numbers.
        device: device for the local training.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, see
            :func:`feduplink.make_channels`.

    Returns:
        Histories of all policies: error, arrivals, time (s) and energy (J) of every round.

    Raises:
        InputError: if an argument is not accepted.

    >>> import feduplink as fu
    >>> compared = fu.federate(fu.Scenario(workers=2), "digits", ["max"], rounds=1)
    >>> compared["max"][0].arrivals
    (2,)
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
        TASKS.find(task)  # raises for an unknown name before channels are drawn
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
    """Load the task of a federation.

    Args:
        scenario: its number of workers.
        task: registered name, ``package.module:function``, or a :class:`feduplink.Task`.
        partition: distribution of the data over the workers; None: that of the task.
        data: directory of the data sets; None: that of ``FEDUPLINK_DATA``.

    Returns:
        The task. Further keyword arguments of :func:`federate` are ignored.
    """
    from feduplink.federated import Task, load_task

    if isinstance(task, Task):
        return task
    return load_task(task, workers=scenario.workers, partition=partition, directory=data)


def _check_flower_options(**options: tuple[Any, Any]) -> None:
    """Raise for options that the Flower engine does not support.

    Args:
        options: value given and only value accepted, by name of the option.
    """
    for name, (value, accepted) in options.items():
        if value != accepted:
            raise InputError(
                f"{name.replace('_', '-')}: not available with --engine flower; accepted: "
                f"{accepted}, or --engine local."
            )
    import_extra("feduplink.flower", "flower")  # raises before channels and data are loaded


def default_target(history: FederatedHistory) -> float:
    """Default target error: 1.2 times the smallest final error; 0 if every model diverged."""
    errors = (history.final_error(name) for name in history.policies)
    return _TARGET_FACTOR * min((error for error in errors if math.isfinite(error)), default=0.0)


def delivery_of(delivery: float | Sequence[float], scenario: Scenario) -> float | tuple[float, ...]:
    """Delivery rates d: a number for all workers, or a tuple with one per worker."""
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
