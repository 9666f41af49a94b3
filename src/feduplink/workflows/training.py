"""Train a policy.

>>> import feduplink as fu
>>> run = fu.train(fu.Scenario(workers=2), "pdm", epochs=2, channels_per_split=50)
>>> len(run.history)
2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from feduplink.errors import InputError
from feduplink.registry import TRAINABLE
from feduplink.scenario import Scenario
from feduplink.settings import (
    CHANNELS_PER_SPLIT,
    Architecture,
    GraphArchitecture,
    NetworkSettings,
    PresetName,
    TrainingSettings,
)
from feduplink.tables import TextTable
from feduplink.workflows.evaluation import (
    Outcome,
    channels_for,
    judge_policies,
    warn_unreachable,
)
from feduplink.workflows.options import (
    ChannelsOption,
    ChannelsPerSplit,
    CommandLine,
    Device,
    FieldsOf,
    Resume,
    Seed,
    workflow,
)
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from feduplink.channels import Channels
    from feduplink.policies import NeuralPolicy, Policy, UnrolledPolicy
    from feduplink.progress import Callback
    from feduplink.reporting.style import StyledFigure
    from feduplink.training import Epoch

CHECKPOINT_FILE = "checkpoint.safetensors"
#: Settings of primal–dual training that the other trainings have too.
_SHARED = ("batch_size", "learning_rate")


@dataclass(frozen=True, repr=False, eq=False)
class TrainingRun(Result):
    """A trained policy, its history, and its outcome on the test channels.

    Attributes:
        policy: with the weights of the best epoch.
        history: all epochs; empty for ``pdx``, whose network is trained in steps.
        test: the policy on the test channels.
        validation: the policy on the validation channels; None for ``pdx``.
        settings: of the training.
        channels: the entry ``channels`` of ``metrics.json``.
        notes: sentences for the reader on the channels.
        seed: of all random numbers.
    """

    kind = "training"
    files = "policy, history.csv, plots and metrics.json"

    policy: Policy
    history: tuple[Epoch, ...]
    test: Outcome
    validation: Outcome | None
    settings: Mapping[str, Any]
    channels: Mapping[str, Any]
    notes: tuple[str, ...]
    seed: int

    @property
    def scenario(self) -> Scenario:
        """The cell, the radio and the problem."""
        return self.policy.scenario

    @property
    def best_epoch(self) -> int | None:
        """Number of the best epoch, from 1; None for ``pdx``."""
        from feduplink.training import best_epoch

        return best_epoch(list(self.history)).number + 1 if self.history else None

    def headline(self) -> str:
        """The best epoch."""
        if not self.history:
            return ""
        epochs = len(self.history)
        return f"best epoch {self.best_epoch} of {epochs}; on the test channels:"

    def table(self) -> TextTable:
        """The policy on the test channels."""
        from feduplink.reporting.comparison_table import comparison_table

        judgements = {self.policy.name: self.test.judgement}
        return comparison_table(judgements, self.scenario, notes=self.notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The objective by epoch; without ``ax``, the constraints beside it."""
        from feduplink.problem import Problem
        from feduplink.reporting.training import plot_convergence, plot_objective

        if not self.history:
            raise InputError("plot: pdx has no epochs to plot; accepted: pdg and pdm.")
        if ax is None:
            problem = Problem.from_scenario(self.scenario)
            return plot_convergence(list(self.history), problem, self.policy.name).axes[-1]
        plot_objective(ax, list(self.history), self.policy.name)
        return ax

    def records(self) -> Iterator[dict[str, Any]]:
        """Columns epoch, objective, participation, violation, feasible, one per constraint."""
        for epoch in self.history:
            yield {
                "epoch": epoch.number + 1,
                "objective": epoch.objective,
                "participation": epoch.participation,
                "violation": epoch.violation,
                "feasible": epoch.feasible,
                **epoch.worst,
            }

    def metrics(self) -> dict[str, Any]:
        """Scenario, settings, and the outcomes on validation and test channels."""
        metrics: dict[str, Any] = {
            "title": f"Training of {self.policy.name}",
            "scenario": self.scenario.model_dump(mode="json"),
            "policy": self.policy.name,
            "seed": self.seed,
            **self.channels,
            "settings": dict(self.settings),
            "test": self.test.judgement.as_metrics(),
        }
        if self.history and self.validation is not None:
            architecture = getattr(self.policy, "architecture", None)
            metrics |= {
                "architecture": architecture.model_dump(mode="json") if architecture else None,
                "epochs": len(self.history),
                "best_epoch": self.best_epoch,
                "validation": self.validation.judgement.as_metrics(),
            }
        return metrics

    def write_files(self, directory: Path) -> None:
        """The policy, the history and the table."""
        from feduplink.policies import save_policy
        from feduplink.reporting.comparison_table import comparison_markdown
        from feduplink.storage.files import write_text

        save_policy(self.policy, directory)
        judgements = {self.policy.name: self.test.judgement}
        table = comparison_markdown(judgements, self.scenario, notes=self.notes)
        write_text(directory / "comparison.md", table)

    def figures(self) -> dict[str, StyledFigure]:
        """The convergence, and the distribution of the powers on the test channels."""
        from feduplink.problem import Problem
        from feduplink.reporting.comparison import plot_power_histogram
        from feduplink.reporting.training import plot_convergence

        name = self.policy.name
        figures = {"power-histogram": plot_power_histogram({name: self.test.power}, self.scenario)}
        if self.history:
            problem = Problem.from_scenario(self.scenario)
            figures["convergence"] = plot_convergence(list(self.history), problem, name)
        return figures

    @classmethod
    def classes(cls) -> list[type]:
        """Epochs and outcomes."""
        from feduplink.judgement import ConstraintValue, Judgement
        from feduplink.training import Epoch

        return [Epoch, Outcome, ConstraintValue, Judgement]


@workflow
def train(
    scenario: Scenario,
    policy: Annotated[
        str | type[Policy],
        Field(
            description=f"Policy to train: {', '.join(TRAINABLE)}, learned-schedule, or "
            "package.module:Class of your own"
        ),
        CommandLine("NAME", type=str),
    ],
    *,
    channels: ChannelsOption = None,
    channels_per_split: ChannelsPerSplit = CHANNELS_PER_SPLIT,
    preset: Annotated[
        PresetName | None,
        Field(
            description="Training settings: ours, or the equations and values of the paper; other "
            "options override those of the preset"
        ),
        CommandLine(default="ours"),
    ] = None,
    everything: Annotated[
        bool,
        Field(
            description="Train pdx for cells, radios, objectives, weights and thresholds of all "
            "kinds, as the shipped weights; the scenario then only sets the multipliers"
        ),
    ] = False,
    tensorboard: Annotated[
        bool, Field(description="Also log for TensorBoard (extra: track)")
    ] = False,
    out: Path | None = None,
    resume: Resume = False,
    seed: Seed = 0,
    device: Device = "cpu",
    **settings: Annotated[
        Any,
        FieldsOf(
            {
                "training of pdg and pdm (batch size and learning rate also of pdx)": (
                    TrainingSettings
                ),
                "network of pdg and pdm": GraphArchitecture,
                "training of pdx": NetworkSettings,
            }
        ),
    ],
) -> Any:
    """Train a policy on drawn or recorded channels.

    ``pdm`` and ``pdg`` are trained by primal–dual learning on the training channels; the best epoch
    is chosen on the validation channels. The network of ``pdx`` is trained on fresh channels, then
    the multipliers of the scenario are found.

    Args:
        scenario: the cell, the radio and the problem.
        policy: a registered name, ``package.module:Class`` or a class.
        channels: recorded or drawn channels.
        channels_per_split: number of channels to draw for each split, without ``channels``.
        preset: ``ours`` or ``paper``.
        everything: train ``pdx`` for scenarios of all kinds.
        tensorboard: also log for TensorBoard, in ``out``.
        out: directory for checkpoint and log; without it none is written.
        resume: continue from the checkpoint in ``out``.
        seed: of all random numbers.
        device: where the training runs.
        settings: fields of ``TrainingSettings``, ``NetworkSettings`` and ``GraphArchitecture``.

    """
    from feduplink.policies import NeuralPolicy, UnrolledPolicy
    from feduplink.policies.store import policy_class
    from feduplink.registry import POLICIES
    from feduplink.storage.run_directory import check_beginning, resume_hint
    from feduplink.validation import usable_device

    if policy == "learned-schedule":
        return _train_phases(settings, resume=resume, seed=seed, device=device)
    checkpoint = None if out is None else Path(out) / CHECKPOINT_FILE
    if checkpoint is not None:
        check_beginning(checkpoint, "a training run", resume=resume)
    elif resume:
        raise InputError("resume: accepted only with out, the directory of the checkpoint.")
    kind = policy_class(POLICIES.find(policy) if isinstance(policy, str) else policy)
    if not issubclass(kind, NeuralPolicy | UnrolledPolicy):
        raise InputError(
            f"policy: {policy} has nothing to train; accepted: {', '.join(TRAINABLE)}, or a "
            "subclass of feduplink.policies.NeuralPolicy."
        )
    usable_device(device)
    with resume_hint(checkpoint):
        if issubclass(kind, UnrolledPolicy):
            if preset or tensorboard:
                name = "preset" if preset else "tensorboard"
                raise InputError(f"{name}: accepted for pdg and pdm only.")
            chosen = NetworkSettings(**_only(settings, NetworkSettings, "pdx"))
            scenario, data = channels_for(scenario, channels, channels_per_split, seed=seed)
            _warn_unreachable(scenario, data)
            return _train_network(
                scenario, data, chosen, everything, seed, device, checkpoint, resume
            )
        if everything:
            raise InputError("everything: accepted for pdx only.")
        accepted = {*TrainingSettings.model_fields, *kind.architecture_type.model_fields}
        for name in settings.keys() - accepted:
            other = "pdg" if name in GraphArchitecture.model_fields else "pdx"
            raise InputError(f"{name}: {kind.name} has no such option; accepted for {other} only.")
        scenario, data = channels_for(scenario, channels, channels_per_split, seed=seed)
        _warn_unreachable(scenario, data)
        logs = _logs(out, tensorboard)
        return _train_primal_dual(
            kind, scenario, data, preset or "ours", settings, seed, device, checkpoint, resume, logs
        )


def _train_primal_dual(
    kind: type[NeuralPolicy],
    scenario: Scenario,
    data: Channels,
    preset: PresetName,
    given: Mapping[str, Any],
    seed: int,
    device: str,
    checkpoint: Path | None,
    resume: bool,
    logs: list[Callback],
) -> TrainingRun:
    from feduplink.training import Preset, Training, TrainingData, training_settings

    fields = {name: value for name, value in given.items() if name in TrainingSettings.model_fields}
    settings = training_settings(kind, preset, **fields)
    architecture = _architecture(Preset.for_policy(kind, preset).architecture, given)
    training = Training(
        kind.initialised(scenario, seed, architecture).to(device),
        TrainingData.from_source(data),
        settings,
        seed=seed,
    )
    if resume and checkpoint is not None:
        training.resume(checkpoint)
    training.run(logs, checkpoint)
    policy = training.policy.cpu()
    by_name = {policy.name: policy}
    validation = judge_policies(by_name, data.validation, scenario, seed=seed)[policy.name]
    test = judge_policies(by_name, data.test, scenario, seed=seed)[policy.name]
    return TrainingRun(
        policy,
        tuple(training.history),
        test,
        validation,
        settings.model_dump(mode="json"),
        _channel_entries(data),
        tuple(data.notes),
        seed,
    )


def _train_network(
    scenario: Scenario,
    data: Channels,
    settings: NetworkSettings,
    everything: bool,
    seed: int,
    device: str,
    checkpoint: Path | None,
    resume: bool,
) -> TrainingRun:
    from feduplink.policies import UnrolledNetwork, UnrolledPolicy
    from feduplink.training import NetworkTraining, OneScenario, TunedProblems

    recorded = data.training if data.recorded else None
    curriculum = TunedProblems(seed=seed) if everything else OneScenario(scenario, recorded)
    network = UnrolledNetwork.initialised(seed).to(device)
    training = NetworkTraining(network, curriculum, settings, seed=seed)
    if resume and checkpoint is not None:
        training.resume(checkpoint)
    training.run(checkpoint=checkpoint)
    if recorded is None:
        policy: UnrolledPolicy = UnrolledPolicy.calibrated_on_draws(
            network.cpu(), scenario, seed=seed
        )
    else:
        policy = UnrolledPolicy.calibrated(network.cpu(), scenario, recorded, seed=seed)
    test = judge_policies({policy.name: policy}, data.test, scenario, seed=seed)[policy.name]
    return TrainingRun(
        policy,
        (),
        test,
        None,
        {**settings.model_dump(mode="json"), "everything": everything},
        _channel_entries(data),
        tuple(data.notes),
        seed,
    )


@dataclass(frozen=True, repr=False, eq=False)
class PhaseNetworkRun(Result):
    """The trained network of learned schedules.

    Attributes:
        weights: of the network, by name.
        settings: of the training.
        seed: of all random numbers.
    """

    kind = "phase-network"
    files = "phase_network.safetensors and metrics.json"

    weights: Mapping[str, Tensor]
    settings: Mapping[str, Any]
    seed: int

    def table(self) -> TextTable:
        """The settings."""
        entries = {name: f"{value:g}" for name, value in self.settings.items()}
        return TextTable.of_entries("training of learned schedules", entries)

    def plot(self, ax: Axes | None = None) -> Axes:
        """There is nothing to draw."""
        raise InputError("plot: the training of learned schedules has no epochs to plot.")

    def records(self) -> Iterator[dict[str, Any]]:
        """The settings."""
        yield dict(self.settings)

    def metrics(self) -> dict[str, Any]:
        """Settings and seed."""
        title = "training of learned schedules"
        return {"title": title, "settings": dict(self.settings), "seed": self.seed}

    def write_files(self, directory: Path) -> None:
        """The weights."""
        from feduplink.scheduling import PhaseNetwork, save_phase_network

        network = PhaseNetwork.initialised(0)
        network.load_state_dict(dict(self.weights))
        save_phase_network(network, directory / "phase_network.safetensors")


def _train_phases(
    given: Mapping[str, Any], *, resume: bool, seed: int, device: str
) -> PhaseNetworkRun:
    from feduplink.training import PhaseSettings, train_phase_network
    from feduplink.validation import usable_device

    if resume:
        raise InputError("resume: accepted for pdg, pdm and pdx; learned-schedule begins anew.")
    settings = PhaseSettings(**_only(given, PhaseSettings, "learned-schedule"))
    network = train_phase_network(settings, seed=seed, device=usable_device(device)).cpu()
    return PhaseNetworkRun(network.state_dict(), settings.model_dump(mode="json"), seed)


def _only(given: Mapping[str, Any], model: Any, policy: str) -> dict[str, Any]:
    """The given settings; those of primal–dual training are refused."""
    for name in sorted(given.keys() - model.model_fields.keys()):
        raise InputError(
            f"{name}: an option of primal-dual training; accepted for {policy}: steps, "
            f"{', '.join(_SHARED)}."
        )
    return dict(given)


def _architecture(preset: Architecture, given: Mapping[str, Any]) -> Architecture:
    """The preset's architecture with the given fields."""
    accepted = type(preset).model_fields
    fields = {name: value for name, value in given.items() if name in accepted}
    return type(preset)(**{**preset.model_dump(), **fields})


def _warn_unreachable(scenario: Scenario, data: Channels) -> None:
    from feduplink.optimum import check_reachable

    warn_unreachable(check_reachable(scenario, data.training))


def _logs(out: Path | None, tensorboard: bool) -> list[Callback]:
    from feduplink.tracking import CsvLog, TensorBoardLog

    if out is None:
        if tensorboard:
            raise InputError("tensorboard: accepted only with out, the directory of the log.")
        return []
    logs: list[Callback] = []
    if tensorboard:
        try:
            logs.append(TensorBoardLog(Path(out) / "tensorboard"))
        except ModuleNotFoundError:
            raise InputError(
                "tensorboard: not installed; accepted after pip install 'feduplink[track]'."
            ) from None
    return [*logs, CsvLog(Path(out) / "history.csv")]


def _channel_entries(data: Channels) -> dict[str, Any]:
    """Entries of ``metrics.json`` on the channels."""
    if data.recorded:
        return {"channels": data.as_metrics()}
    return {"channels_per_split": len(data.test)}
