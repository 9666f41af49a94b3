"""Training loop with callbacks, checkpoints, exact resume and selection of the best epoch.

A :class:`Trainer` runs a :class:`LearningAlgorithm`, which defines steps and epochs.
:func:`make_trainer` makes the trainer for a policy class.
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
#: Format number of checkpoints, to be increased when their content changes.
_FORMAT = 3


class TrainingRequest(NamedTuple):
    """Arguments of :meth:`LearningAlgorithm.make`.

    Attributes:
        kind: policy class whose ``algorithm`` is made.
        scenario: the cell and its problem.
        channels: training and validation channels.
        options: settings by name; missing ones have their defaults.
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
        """Check the names of the options.

        Args:
            accepted: names of the settings of the algorithm.

        Raises:
            InputError: if an option is not among them.
        """
        for name in self.options:
            if name not in accepted:
                raise InputError(
                    f"{name}: {self.kind.name} has no such training option"
                    f"{did_you_mean(name, accepted)} accepted: {', '.join(accepted)}."
                )


class LearningAlgorithm(ABC, Generic[R]):
    """Abstract base class of learning algorithms.

    A subclass sets the attributes in its constructor and implements :meth:`batches`, :meth:`step`,
    :meth:`end_epoch`, :meth:`identity` and :meth:`trained`. It implements :meth:`make` if the
    ``algorithm`` of a policy class refers to it, and :meth:`state` and :meth:`restore` if it has
    variables besides weights, optimiser and generator that the next step depends on.

    Attributes:
        title: name of the trained object in progress bars.
        network: module that is trained, in place and on its device.
        settings: hyperparameters.
        seed: seed of all random numbers.
        optimizer: optimiser of the weights.
        generator: generator of all random numbers of the training.
        epochs: maximum number of epochs.
        total: maximum amount of training, in ``unit``.
        unit: unit of ``total`` and of :attr:`EpochRecord.done`, in the plural.
        checkpoint_every: number of epochs between checkpoints.
        callbacks: callbacks of every run, such as early stopping.
        record_type: class of the epoch records.
        state_types: dataclasses that :meth:`state` may contain.
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
        """Make the algorithm for a policy class.

        Args:
            request: policy class, scenario, channels, options, seed and device.

        Returns:
            The algorithm, with an untrained network.

        Raises:
            InputError: if an option is unknown or out of range.
        """
        raise InputError(
            f"algorithm: {cls.__name__} does not train policy classes; accepted: a learning "
            "algorithm with a method make."
        )

    @property
    def total(self) -> int:
        """Maximum amount of training, in :attr:`unit`."""
        return self.epochs

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Any]:
        """Draw the batches of an epoch.

        Args:
            epoch: number of the epoch, counted from 0.

        Yields:
            The batches.
        """

    @abstractmethod
    def step(self, batch: Any) -> None:
        """Take one step.

        Args:
            batch: a batch of :meth:`batches`.
        """

    @abstractmethod
    def end_epoch(self, epoch: int) -> R:
        """Validate at the end of an epoch.

        Args:
            epoch: number of the epoch, counted from 0.

        Returns:
            The record of the epoch.
        """

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Identity of the training: a run can be resumed only from a checkpoint of equal identity.

        Returns:
            All inputs of the training, JSON-compatible.
        """

    @abstractmethod
    def trained(self) -> Any:
        """Result of the training.

        Returns:
            Usually a policy, on the CPU.
        """

    def weights(self) -> dict[str, Tensor]:
        """Weights that the training would return if it ended now.

        Returns:
            Weights by name.
        """
        return self.network.state_dict()

    def state(self) -> Any:
        """Further variables that the next step depends on.

        Returns:
            Tensors, numbers and strings in mappings, sequences and dataclasses of
            :attr:`state_types`; weights, optimiser and generator are saved separately.
        """
        return None

    def restore(self, state: Any) -> None:
        """Restore the variables of :meth:`state`.

        Args:
            state: variables, with tensors on the device of the network.
        """


class TrainingCallback(Callback):
    """Base class of training callbacks; a subclass overrides the methods it needs.

    Pass callbacks to :meth:`Trainer.run`, or activate them in a block with ``report_to``.

    >>> class StopAtObjective(TrainingCallback):
    ...     def on_epoch_end(self, trainer: Trainer, epoch: EpochRecord) -> None:
    ...         if epoch.objective > 0.95:
    ...             trainer.stop()
    """

    def on_train_begin(self, trainer: Trainer[Any]) -> None:
        """Called before the first epoch of a new or resumed run.

        Args:
            trainer: trainer of the run.
        """

    def on_epoch_end(self, trainer: Trainer[Any], epoch: Any) -> None:
        """Called after every epoch.

        Args:
            trainer: trainer of the run; its history includes the epoch.
            epoch: record of the epoch.
        """

    def on_train_end(self, trainer: Trainer[Any]) -> None:
        """Called after the last epoch, unless the training failed or was interrupted.

        Args:
            trainer: trainer of the run.
        """

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
    """Callback that saves a checkpoint periodically and at the end.

    Args:
        path: file to write.
        every: number of epochs between checkpoints.
    """

    def __init__(self, path: Path, every: int = 1) -> None:
        self.path, self.every = path, every

    def on_epoch_end(self, trainer: Trainer[Any], epoch: Any) -> None:
        """Save after every ``every``-th epoch."""
        if (epoch.number + 1) % self.every == 0:
            trainer.save(self.path)

    def on_train_end(self, trainer: Trainer[Any]) -> None:
        """Save the final state."""
        trainer.save(self.path)


class EarlyStopping(TrainingCallback):
    """Callback that stops the training if the best epoch is feasible and has not improved.

    Args:
        patience: maximum number of epochs since the best epoch.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_train_begin(self, trainer: Trainer[Any]) -> None:
        """Stop a resumed training at once if its patience was exhausted."""
        if trainer.history:
            self.on_epoch_end(trainer, trainer.history[-1])

    def on_epoch_end(self, trainer: Trainer[Any], epoch: Any) -> None:
        """Stop if the patience is exhausted."""
        best = trainer.best
        if best.meets_constraints and epoch.number - best.number >= self.patience:
            trainer.stop()


class Trainer(Generic[R]):
    """Training run that can be stopped and resumed after any epoch.

    A checkpoint contains the weights, the state of the optimiser, the variables of the algorithm
    and the state of the random generator. On a CPU, an interrupted and resumed run ends with
    exactly the weights of an uninterrupted run.

    Args:
        algorithm: learning algorithm to run.

    Attributes:
        algorithm: learning algorithm.
        history: records of the epochs so far.

    >>> from feduplink.channels import make_channels
    >>> scenario = Scenario(workers=2)
    >>> trainer = make_trainer("pdg", scenario, make_channels(scenario, 20), epochs=2)
    >>> best = trainer.run()
    >>> len(trainer.history)
    2
    """

    def __init__(self, algorithm: LearningAlgorithm[R]) -> None:
        self.algorithm = algorithm
        self.history: History[R] = History()
        self._best_weights = _clone(algorithm.weights())
        # Weights to continue from: after a run, the network has those of the best epoch.
        self._last_weights: dict[str, Tensor] | None = None
        self._is_stopped = False

    def __repr__(self) -> str:
        """Title, number of epochs and best epoch so far."""
        done = f"{len(self.history)} of {self.algorithm.epochs} epochs"
        best = f", best: {self.best}" if self.history else ""
        return f"Trainer({self.algorithm.title}, {done}{best})"

    @property
    def best(self) -> R:
        """Record of the best epoch so far.

        Raises:
            InputError: if no epoch has been run.
        """
        if not self.history:
            raise InputError("best: no epoch has been run; run the trainer first.")
        return self.history.best

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are done or the run was stopped."""
        return self._is_stopped or len(self.history) >= self.algorithm.epochs

    def stop(self) -> None:
        """Stop the run after the current epoch."""
        self._is_stopped = True

    def run(self, callbacks: Sequence[Callback] = (), checkpoint: Path | None = None) -> R:
        """Train until all epochs are done or the run is stopped.

        The network then has the weights of the best epoch.

        Args:
            callbacks: callbacks of the run; ``detail`` of a step is the record of its epoch.
            checkpoint: checkpoint file, written before ``callbacks`` are called; None writes none.

        Returns:
            Record of the best epoch.
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
        """Result of the training.

        Returns:
            Usually a policy, on the CPU.
        """
        return self.algorithm.trained()

    def save(self, path: Path) -> None:
        """Save a checkpoint between two epochs.

        Args:
            path: file to write.
        """
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
        """Restore the state from a checkpoint.

        Args:
            path: checkpoint of a run with the same algorithm, settings, seed and channels.

        Raises:
            InputError: if the file is missing, damaged or a checkpoint of another run.
        """
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
        """Progress steps of the epochs so far."""
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
    """Make the trainer of a policy class.

    Args:
        kind: name of a registered trainable policy, ``package.module:Class``, or a policy class.
        scenario: the cell and its problem.
        channels: training and validation channels.
        seed: seed of weights and batches.
        device: device to train on.
        options: settings of the learning algorithm by name, such as the fields of
            :class:`~feduplink.settings.TrainingSettings`; None keeps the default.

    Returns:
        The trainer, before its first epoch.

    Raises:
        InputError: if the policy cannot be trained or an option is unknown or out of range.

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
            f"policy: {named.name} cannot be trained; accepted: {', '.join(TRAINABLE)}, or a "
            "subclass of feduplink.policies.NeuralPolicy."
        )
    given = {option: value for option, value in options.items() if value is not None}
    algorithm = ALGORITHMS.find(name)
    request = TrainingRequest(named, scenario, channels, given, seed, device)
    return Trainer(algorithm.make(request))


def _clone(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
