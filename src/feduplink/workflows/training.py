"""Training of policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from feduplink.registry import TRAINABLE
from feduplink.scenario import Scenario
from feduplink.settings import (
    CHANNELS_PER_SPLIT,
    GraphArchitecture,
    NetworkSettings,
    PresetName,
    TrainingSettings,
)
from feduplink.tables import TextTable
from feduplink.workflows.evaluation import (
    Outcome,
    decide_verdicts,
    judge_policies,
    warn_unreachable,
)
from feduplink.workflows.options import (
    ChannelsOption,
    CommandLine,
    Device,
    FieldsOf,
    RecordingOptions,
    Resume,
    Seed,
    TestChannelsPerSplit,
    workflow,
)
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from feduplink.channels import Channels
    from feduplink.policies import Policy
    from feduplink.reporting.style import StyledFigure
    from feduplink.storage.tensorfile import TensorFile
    from feduplink.training import History, Trainer

CHECKPOINT_FILE = "checkpoint.safetensors"


@dataclass(frozen=True, repr=False, eq=False)
class TrainingRun(Result):
    """Result of :func:`train`: a trained policy, its history and its performance.

    Attributes:
        history: records of all epochs; for algorithms without validation, of every 100 steps.
        settings: settings of the training.
        seed: seed of all random numbers.
        policy: policy with the weights of the best epoch.
        test: performance on the test channels.
        validation: performance on the validation channels; None for algorithms without validation.
        channels: origin or number of the channels, as in ``metrics.json``.
        notes: remarks on the channels.

    >>> import feduplink as fu
    >>> run = fu.train(fu.Scenario(workers=2), "pdm", epochs=2, channels_per_split=50)
    >>> run.name, len(run.history)
    ('pdm', 2)
    """

    kind = "training"
    files = "policy, history.csv, plots and metrics.json"
    table_file = "comparison.md"
    parts = (Outcome,)

    history: History[Any]
    settings: Mapping[str, Any]
    seed: int
    policy: Policy
    test: Outcome
    validation: Outcome | None
    channels: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.policy.name

    @property
    def scenario(self) -> Scenario:
        """The cell, the radio and the problem."""
        return self.policy.scenario

    @property
    def is_validated(self) -> bool:
        """Whether the best epoch was selected on the validation channels."""
        return bool(self.history.best.is_validated)

    @property
    def best_epoch(self) -> int | None:
        """Number of the best epoch, counted from 1; None without validation."""
        return self.history.best.number + 1 if self.is_validated else None

    def headline(self) -> str:
        """Line above the table: the best epoch, if there is validation."""
        if self.best_epoch is None:
            return ""
        epochs = len(self.history)
        return f"best epoch {self.best_epoch} of {epochs}; on the test channels:"

    def table(self) -> TextTable:
        """Table of the performance on the test channels."""
        from feduplink.reporting.comparison import comparison_table

        judgements = {self.name: self.test.judgement}
        return comparison_table(judgements, self.scenario, notes=self.notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the objective by epoch.

        For algorithms without validation, plot the quantity that was optimised, by step.

        Args:
            ax: matplotlib axes to draw in; None: a new figure, with the constraints.

        Returns:
            The axes.
        """
        from feduplink.reporting.training import plot_objective, plot_training_figure

        if ax is None:
            return self._convergence().axes[-1]
        (plot_objective if self.is_validated else plot_training_figure)(ax, self.history, self.name)
        return ax

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows of ``history.csv``, one per epoch."""
        for epoch in self.history:
            yield epoch.row()

    def metrics(self) -> dict[str, Any]:
        """Scenario, settings, and performance on the validation and test channels."""
        metrics: dict[str, Any] = {
            "title": f"Training of {self.name}",
            "scenario": self.scenario.model_dump(mode="json"),
            "policy": self.name,
            "seed": self.seed,
            **self.channels,
            "settings": dict(self.settings),
            "test": self.test.judgement.as_metrics(),
        }
        if self.validation is not None:
            architecture = getattr(self.policy, "architecture", None)
            metrics |= {
                "architecture": architecture.model_dump(mode="json") if architecture else None,
                "epochs": len(self.history),
                "best_epoch": self.best_epoch,
                "validation": self.validation.judgement.as_metrics(),
            }
        return metrics

    def write_files(self, directory: Path) -> None:
        """Write the table and the policy."""
        from feduplink.policies import save_policy

        super().write_files(directory)
        save_policy(self.policy, directory)

    def figures(self) -> dict[str, StyledFigure]:
        """The distribution of the powers on the test channels, and the convergence."""
        from feduplink.reporting.comparison import plot_powers

        powers = plot_powers({self.name: self.test.power}, self.scenario)
        return {"power-histogram": powers, "convergence": self._convergence()}

    def _convergence(self) -> StyledFigure:
        """Figure of the convergence."""
        from feduplink.problem import Problem
        from feduplink.reporting.training import plot_convergence, plot_network_training

        if not self.is_validated:
            return plot_network_training(self.history, self.name)
        problem = Problem.from_scenario(self.scenario)
        return plot_convergence(self.history, problem, self.name, self.scenario.bandwidth_hz)

    @classmethod
    def from_tensors(cls, content: TensorFile, scenario: Scenario, directory: Path) -> Self:
        """Inverse of ``to_tensors``; the file contains the epochs as a list."""
        from feduplink.training import History

        run = super().from_tensors(content, scenario, directory)
        return replace(run, history=History(run.history))


@workflow
def train(
    scenario: Scenario,
    policy: Annotated[
        str | type[Policy],
        Field(description=f"Policy to train: {', '.join(TRAINABLE)}, or package.module:Class"),
        CommandLine("NAME", type=str),
    ],
    *,
    channels: ChannelsOption = None,
    channels_per_split: TestChannelsPerSplit = None,
    preset: Annotated[
        PresetName | None,
        Field(
            description="Training settings: the defaults (ours), or the equations and values of "
            "the paper; other options override those of the preset"
        ),
        CommandLine(default="ours"),
    ] = None,
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
                "training of pdg and pdm (batch size and learning rate also of the others)": (
                    TrainingSettings
                ),
                "network of pdg and pdm": GraphArchitecture,
                "training of pdx (steps also of learned-schedule)": NetworkSettings,
                "recorded channels": RecordingOptions,
            }
        ),
    ],
) -> TrainingRun:
    """Train a policy on drawn or recorded channels.

    ``pdm`` and ``pdg`` are trained by primal–dual learning on the training channels; the best epoch
    is selected on the validation channels. The network of ``pdx`` is trained on new channels in
    every step, then the multipliers of the scenario are calibrated. The network of
    ``learned-schedule`` is trained on random cells and prices of energy.

    Args:
        scenario: the cell, the radio and the problem.
        policy: registered name, ``package.module:Class``, or a class.
        channels: recorded or drawn :class:`feduplink.Channels`, a file, or an array (N, L, L);
            None: channels are drawn.
        channels_per_split: number of channels in each split and for the verdict; None: 1000, and
            as many as the verdict needs, see :func:`evaluate`.
        preset: ``ours`` or ``paper``; None: ``ours``.
        tensorboard: also write TensorBoard event files in ``out``.
        out: directory for the result, checkpoints and logs; None: nothing is written.
        resume: continue from the checkpoint in ``out``.
        seed: seed of all random numbers.
        device: device of the training.
        settings: fields of :class:`feduplink.TrainingSettings`, ``NetworkSettings`` and
            ``GraphArchitecture``; and ``noise_power_w``, ``transpose`` and ``channel_axes`` of
            recorded channels, see :func:`feduplink.make_channels`.

    Returns:
        The policy with the weights of the best epoch, its history and its performance on the test
        channels.

    Raises:
        InputError: if an argument is not accepted, or the policy cannot be trained.

    >>> import torch
    >>> import feduplink as fu
    >>> run = fu.train(fu.Scenario(workers=2), "pdm", epochs=2, channels_per_split=50)
    >>> run.policy.allocate(torch.ones(2, 2)).shape
    torch.Size([2])
    """
    from feduplink.channels.channel_set import channels_for
    from feduplink.optimum import check_reachable
    from feduplink.policies import LearnedSchedule
    from feduplink.policies.store import policy_class
    from feduplink.registry import POLICIES
    from feduplink.storage.run_directory import check_beginning, resume_hint
    from feduplink.tracking import make_trackers
    from feduplink.training import make_trainer
    from feduplink.validation import usable_device

    out = None if out is None else Path(out)
    checkpoint = out and out / CHECKPOINT_FILE
    check_beginning(checkpoint, "a training run", resume=resume)
    found = POLICIES.find(policy) if isinstance(policy, str) else policy
    reading = {n: settings.pop(n) for n in RecordingOptions.model_fields if n in settings}
    per_split = channels_per_split or CHANNELS_PER_SPLIT
    scenario, data = channels_for(scenario, channels, per_split, seed=seed, **reading)
    kind = policy_class(found)
    options = {"preset": preset, "device": usable_device(device), **settings}
    with resume_hint(checkpoint):
        trainer = make_trainer(kind, scenario, data, seed=seed, **options)
        if resume and checkpoint is not None:
            trainer.resume(checkpoint)
        if kind is not LearnedSchedule:
            warn_unreachable(check_reachable(scenario, data.training))
        trainer.run(make_trackers(out, tensorboard=tensorboard), checkpoint)
        is_fixed = channels is not None or channels_per_split is not None
        run = _result(trainer, data, is_fixed=is_fixed)
    if out is not None:
        run.save(out)
    return run


def _result(trainer: Trainer[Any], data: Channels, *, is_fixed: bool) -> TrainingRun:
    """Judge the trained policy; ``is_fixed`` limits the verdict to the test channels."""
    trained, algorithm = trainer.trained(), trainer.algorithm

    policies, scenario, seed = {trained.name: trained}, trained.scenario, algorithm.seed
    on_test = judge_policies(policies, data.test, scenario, seed=seed)
    if not is_fixed:
        on_test = decide_verdicts(on_test, policies, data, scenario, seed=seed)
    on_validation = None
    if algorithm.record_type.is_validated:
        on_validation = judge_policies(policies, data.validation, scenario, seed=seed)[trained.name]
    return TrainingRun(
        trainer.history,
        algorithm.settings.model_dump(mode="json"),
        algorithm.seed,
        trained,
        on_test[trained.name],
        on_validation,
        {"channels": data.as_metrics()}
        if data.recorded
        else {"channels_per_split": len(data.test)},
        tuple(data.notes),
    )
