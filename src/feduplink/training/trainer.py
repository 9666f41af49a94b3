"""The training loop: epochs, the best weights, callbacks, checkpoints and exact resume.

A :class:`Trainer` runs a :class:`LearningAlgorithm`, which knows what a step and an epoch are.
:func:`make_trainer` makes the trainer of a policy class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from feduplink.channels import Channels
from feduplink.errors import InputError, did_you_mean
from feduplink.policies import Policy, policy_class
from feduplink.progress import Callback, Step, Work, track
from feduplink.registry import ALGORITHMS, POLICIES, TRAINABLE
from feduplink.scenario import Scenario
from feduplink.storage.tensorfile import (
    TensorFile,
    check_same,
    fitting,
    pack,
    read_tensors,
    unpack,
    write_tensors,
)
from feduplink.training.history import EpochRecord, History

R = TypeVar("R", bound=EpochRecord)

_CHECKPOINT = "training checkpoint"
#: To be increased when a checkpoint changes its meaning, so that older ones are refused.
_FORMAT = 3


class TrainingRequest(NamedTuple):
    """What :meth:`LearningAlgorithm.make` makes an algorithm from.

    Attributes:
        kind: class of policies whose ``algorithm`` is to be made.
        scenario: the cell and its problem.
        channels: training and validation channels.
        options: settings by name; those not given keep their defaults.
        seed: seed of weights and batches.
        device: device to train on.
    """

    kind: type[Any]
    scenario: Scenario
    channels: Channels
    options: Mapping[str, Any]
    seed: int
    device: torch.device | str

    def check_options(self, accepted: Collection[str]) -> None:
        """Refuse options that the policy does not have."""
        for name in self.options:
            if name not in accepted:
                raise InputError(
                    f"{name}: {self.kind.name} has no such training option"
                    f"{did_you_mean(name, accepted)} accepted: {', '.join(accepted)}."
                )


class LearningAlgorithm(ABC, Generic[R]):
    """What is trained, and how.

    A subclass sets the attributes in its constructor and overrides :meth:`batches`, :meth:`step`,
    :meth:`end_epoch`, :meth:`identity` and :meth:`trained`; with :meth:`make` it can be named by
    the ``algorithm`` of a policy class. One with variables of its own that the next step depends
    on, besides weights, optimiser and generator, overrides :meth:`state` and :meth:`restore`.

    Attributes:
        title: name of what is trained, for progress bars.
        network: module whose weights are trained, on its device.
        settings: hyperparameters.
        seed: seed of all random numbers.
        optimizer: optimiser of the weights.
        generator: generator of all random numbers of the training.
        epochs: largest number of epochs.
        total: amount of training at most, in ``unit``; an epoch reports how much is done.
        unit: what ``total`` counts, in the plural.
        checkpoint_every: epochs between checkpoints.
        callbacks: called in every run, such as early stopping.
        record_type: class of the records of epochs.
        state_types: dataclasses in :meth:`state`.
    """

    title: str
    network: nn.Module
    settings: BaseModel
    seed: int
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    epochs: int
    checkpoint_every: int = 1
    callbacks: Sequence[Callback] = ()
    unit: ClassVar[str] = "epochs"
    record_type: type[R]
    state_types: ClassVar[Sequence[type]] = ()

    @classmethod
    def make(cls, request: TrainingRequest) -> Self:
        """Make the algorithm that trains a policy class.

        Raises:
            InputError: an option is unknown or out of range.
        """
        raise InputError(f"algorithm: {cls.__name__} trains no class of policies.")

    @property
    def total(self) -> int:
        """Amount of training at most, in :attr:`unit`."""
        return self.epochs

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Any]:
        """Draw the batches of an epoch, counted from 0, one when the one before is done."""

    @abstractmethod
    def step(self, batch: Any) -> None:
        """Take one step on a batch."""

    @abstractmethod
    def end_epoch(self, epoch: int) -> R:
        """Validate and record an epoch, counted from 0."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything an epoch depends on, as JSON: a checkpoint of another one is refused."""

    @abstractmethod
    def trained(self) -> Any:
        """The result of a finished training on the CPU, as a rule a policy."""

    def weights(self) -> dict[str, Tensor]:
        """The weights that a finished training would return now."""
        return self.network.state_dict()

    def state(self) -> Any:
        """Variables that the next step depends on, besides weights, optimiser and generator.

        Tensors, numbers and texts in mappings, sequences and dataclasses of :attr:`state_types`.
        """
        return None

    def restore(self, state: Any) -> None:
        """Restore the variables of :meth:`state`, whose tensors are on the network's device."""


class TrainingCallback(Callback):
    """Callbacks of a training run; a subclass overrides those it needs.

    >>> class StopAtObjective(TrainingCallback):
    ...     def on_epoch_end(self, trainer: Trainer, epoch: EpochRecord) -> None:
    ...         if epoch.objective > 0.95:
    ...             trainer.stop()

    They are given to :meth:`Trainer.run`, beside callbacks of any work such as
    :class:`~feduplink.tracking.CsvLog`, or hold for a block by ``report_to``.
    """

    def on_train_begin(self, trainer: Trainer[Any]) -> None:
        """Called before the first epoch of a run, which may be a resumed one."""

    def on_epoch_end(self, trainer: Trainer[Any], epoch: Any) -> None:
        """Called after every epoch with its record, which the trainer's history already has."""

    def on_train_end(self, trainer: Trainer[Any]) -> None:
        """Called after the last epoch; not if the training failed or was interrupted."""

    def on_begin(self, work: Work) -> None:
        """Call :meth:`on_train_begin`."""
        if isinstance(work.source, Trainer):
            self.on_train_begin(work.source)

    def on_step(self, work: Work, step: Step) -> None:
        """Call :meth:`on_epoch_end`."""
        if isinstance(work.source, Trainer):
            self.on_epoch_end(work.source, step.detail)

    def on_end(self, work: Work) -> None:
        """Call :meth:`on_train_end` if the training is finished."""
        if isinstance(work.source, Trainer) and work.source.is_finished:
            self.on_train_end(work.source)


class Checkpoint(TrainingCallback):
    """Save a checkpoint every few epochs and at the end.

    Args:
        path: file to write.
        every: epochs between checkpoints.
    """

    def __init__(self, path: Path, every: int = 1) -> None:
        self.path, self.every = path, every

    def on_epoch_end(self, trainer: Trainer[Any], epoch: Any) -> None:
        """Save if it is time."""
        if (epoch.number + 1) % self.every == 0:
            trainer.save(self.path)

    def on_train_end(self, trainer: Trainer[Any]) -> None:
        """Save the final state."""
        trainer.save(self.path)


class EarlyStopping(TrainingCallback):
    """Stop after some epochs without a better one, counted from the first feasible one.

    Args:
        patience: number of epochs without a better one.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_train_begin(self, trainer: Trainer[Any]) -> None:
        """Stop a resumed training that had been stopped."""
        if trainer.history:
            self.on_epoch_end(trainer, trainer.history[-1])

    def on_epoch_end(self, trainer: Trainer[Any], epoch: Any) -> None:
        """Stop if patience is exhausted."""
        best = trainer.best
        if best.meets_constraints and epoch.number - best.number >= self.patience:
            trainer.stop()


class Trainer(Generic[R]):
    """A training run that can be stopped and resumed after any epoch.

    A checkpoint holds everything that the next epoch depends on: weights, the optimiser's moments,
    the algorithm's variables, the state of the random generator. A run that is interrupted and
    resumed therefore ends with the same weights as one left alone, bit for bit on a CPU.

    Args:
        algorithm: what is trained, and how.

    Attributes:
        algorithm: as given.
        history: the records of the epochs so far.
    """

    def __init__(self, algorithm: LearningAlgorithm[R]) -> None:
        self.algorithm = algorithm
        self.history: History[R] = History()
        self._best_weights = _clone(algorithm.weights())
        # Weights to continue from; the network has the best ones after a run.
        self._last_weights: dict[str, Tensor] | None = None
        self._is_stopped = False

    def __repr__(self) -> str:
        """The number of epochs, and the best epoch so far."""
        done = f"{len(self.history)} of {self.algorithm.epochs} epochs"
        best = f", best: {self.best}" if self.history else ""
        return f"Trainer({self.algorithm.title}, {done}{best})"

    @property
    def best(self) -> R:
        """The record of the best epoch so far."""
        if not self.history:
            raise InputError("best: there is no epoch yet; run the trainer first.")
        return self.history.best

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are done or the run was stopped."""
        return self._is_stopped or len(self.history) >= self.algorithm.epochs

    def stop(self) -> None:
        """End the run after the present epoch."""
        self._is_stopped = True

    def run(self, callbacks: Sequence[Callback] = (), checkpoint: Path | None = None) -> R:
        """Train to the end; the network then has the best epoch's weights.

        Args:
            callbacks: called after every epoch, also with its record as the step's ``detail``.
            checkpoint: file to save checkpoints to, before other callbacks are called.

        Returns:
            The record of the best epoch.
        """
        algorithm = self.algorithm
        own = list(algorithm.callbacks)
        if checkpoint:
            own.append(Checkpoint(checkpoint, algorithm.checkpoint_every))
        self._continue_from_last_weights()
        self._is_stopped = False
        with track(
            f"training of {algorithm.title}",
            algorithm.total,
            algorithm.unit,
            [*own, *callbacks],
            earlier=self._steps(),
            source=self,
        ) as progress:
            while not self.is_finished:
                epoch = self._run_epoch()
                progress.advance(epoch.done, epoch.figures(self.best), epoch)
        self._last_weights = _clone(algorithm.network.state_dict())
        algorithm.network.load_state_dict(self._best_weights)
        return self.best

    def trained(self) -> Any:
        """The result of a finished training, as a rule the policy, on the CPU."""
        return self.algorithm.trained()

    def save(self, path: Path) -> None:
        """Write a checkpoint of the state between two epochs."""
        algorithm = self.algorithm
        content = pack(
            {
                "network": self._last_weights or algorithm.network.state_dict(),
                "best": self._best_weights,
                "optimizer": algorithm.optimizer.state_dict(),
                "algorithm": algorithm.state(),
                "generator": algorithm.generator.get_state(),
                "history": self.history,
            }
        )
        header = {**self._identity(), **content.header}
        write_tensors(path, _CHECKPOINT, TensorFile(content.tensors, header))

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same algorithm, settings, seed and channels."""
        file = read_tensors(path, _CHECKPOINT)
        check_same(path, file, self._identity())
        algorithm = self.algorithm
        device = next(algorithm.network.parameters()).device
        moved = {name: tensor.to(device) for name, tensor in file.tensors.items()}
        with fitting(path, _CHECKPOINT, "this run"):
            types = [algorithm.record_type, *algorithm.state_types]
            saved = unpack(TensorFile(moved, file.header), types)
            algorithm.network.load_state_dict(saved["network"])
            self._best_weights, self._last_weights = saved["best"], None
            algorithm.optimizer.load_state_dict(saved["optimizer"])
            algorithm.restore(saved["algorithm"])
            algorithm.generator.set_state(saved["generator"].cpu())
            self.history = History(saved["history"])

    def _identity(self) -> dict[str, Any]:
        name = ALGORITHMS.name_of(type(self.algorithm))
        return {"format": _FORMAT, "algorithm": name, **self.algorithm.identity()}

    def _run_epoch(self) -> R:
        number = len(self.history)
        for batch in self.algorithm.batches(number):
            self.algorithm.step(batch)
        epoch = self.algorithm.end_epoch(number)
        self.history.append(epoch)
        if self.best is epoch:
            self._best_weights = _clone(self.algorithm.weights())
        return epoch

    def _continue_from_last_weights(self) -> None:
        if self._last_weights is not None:
            self.algorithm.network.load_state_dict(self._last_weights)
            self._last_weights = None

    def _steps(self) -> list[Step]:
        """The steps that were reported for the epochs so far."""
        steps: list[Step] = []
        best: R | None = None
        for epoch in self.history:
            best = epoch if best is None or epoch.rank > best.rank else best
            steps.append(Step(epoch.done, epoch.figures(best), epoch))
        return steps


def make_trainer(
    kind: str | type[Policy],
    scenario: Scenario,
    channels: Channels,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    **options: Any,
) -> Trainer[Any]:
    """Make the trainer of a policy class, which names its learning algorithm.

    Args:
        kind: a registered policy that learns, ``package.module:Class`` or a class.
        scenario: the cell and its problem.
        channels: training and validation channels.
        seed: seed of weights and batches.
        device: device to train on.
        options: settings by name, see the settings of the algorithm; None keeps the default.

    >>> from feduplink.channels import make_channels
    >>> scenario = Scenario(workers=2)
    >>> trainer = make_trainer("pdg", scenario, make_channels(scenario, 20), epochs=1)
    >>> epoch = trainer.run()
    >>> trainer.trained()
    GraphPolicy(pdg for 2 workers, 3,768 stored numbers)
    """
    named = policy_class(POLICIES.find(kind)) if isinstance(kind, str) else kind
    name = getattr(named, "algorithm", None)
    if name is None:
        raise InputError(
            f"policy: {named.name} has nothing to train; accepted: {', '.join(TRAINABLE)}, or a "
            "subclass of feduplink.policies.NeuralPolicy."
        )
    given = {option: value for option, value in options.items() if value is not None}
    algorithm = ALGORITHMS.find(name)
    request = TrainingRequest(named, scenario, channels, given, seed, device)
    return Trainer(algorithm.make(request))


def _clone(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
