"""The training loop: early stopping, the best epoch, checkpoints, exact resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from feduplink.channels import Channels, check_csi, noisy_csi
from feduplink.errors import InputError
from feduplink.evaluation import allocate_seen
from feduplink.judgement import Judgement, feasible_first, judge
from feduplink.policies.base import NeuralPolicy
from feduplink.problem import Constraint, Problem
from feduplink.progress import Callback, Step, track
from feduplink.randomness import torch_generator
from feduplink.registry import MEASURES, POLICIES
from feduplink.settings import TrainingSettings
from feduplink.storage.tensorfile import (
    TensorFile,
    check_same,
    checksum,
    fitting,
    object_identity,
    read_tensors,
    write_tensors,
)
from feduplink.training.primal_dual import (
    Expectations,
    PrimalDualState,
    check_subset_size,
    draw_subset,
    subset_powers,
)


def adam_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and steps of every parameter, ``exp_avg.0`` and so on."""
    return {
        f"{name}.{i}": tensor
        for i, entry in optimizer.state_dict()["state"].items()
        for name, tensor in entry.items()
    }


def restore_adam(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Inverse of :func:`adam_tensors`."""
    saved = optimizer.state_dict()
    for key, tensor in tensors.items():
        name, index = key.rsplit(".", 1)
        saved["state"].setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict(saved)


@dataclass(frozen=True)
class Epoch:
    """The validation figures after one epoch.

    Attributes:
        number: counted from 0.
        objective, participation, violation, feasible: as in a :class:`Judgement`.
        constraints: what every constrained measure came to, by its name, one value per worker.
        worst: of each, that of the worker nearest to its limit, as in ``metrics.json``.

    """

    number: int
    objective: float
    participation: float
    violation: float
    feasible: bool | None
    constraints: dict[str, tuple[float, ...]]
    worst: dict[str, float]

    @classmethod
    def from_judgement(cls, number: int, verdict: Judgement) -> Epoch:
        """The record of epoch ``number`` judged on the validation channels."""
        return cls(
            number,
            verdict.objective,
            verdict.participation,
            verdict.violation,
            verdict.feasible,
            {name: tuple(r.expected.tolist()) for name, r in verdict.constraints.items()},
            {value.key: value.worst for value in verdict.constraints.values()},
        )

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Epoch:
        """Inverse of :meth:`to_json`."""
        listed = {name: tuple(values) for name, values in fields["constraints"].items()}
        return cls(**{**fields, "constraints": listed})

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key of the best-epoch rule.

        Epochs in which all workers meet all constraints, without tolerance, come first, by
        objective; the others by how little they miss.
        """
        return feasible_first(self.violation, self.objective)

    @property
    def met(self) -> bool:
        """Whether every worker meets every constraint exactly."""
        return self.violation == 0.0


def best_epoch(history: list[Epoch]) -> Epoch:
    """The first epoch of the highest rank."""
    return max(history, key=lambda epoch: epoch.rank)


_CHECKPOINT = "training checkpoint"
#: To be increased when a checkpoint changes its meaning, so that older ones are refused.
_FORMAT = 1
#: Settings that may change when a run is resumed: more epochs, for instance.
_WHEN_TO_STOP = {"epochs", "patience", "checkpoint_every"}


@dataclass(frozen=True, repr=False)
class TrainingData:
    """Channels to learn from and to choose the best epoch on, (N, L, L) each.

    ``fresh(count, generator)`` draws further ones to learn from, for ``fresh_channels``; None
    where no others can be drawn.
    """

    training: Tensor
    validation: Tensor
    fresh: Callable[[int, torch.Generator], Tensor] | None = None

    @classmethod
    def from_source(cls, source: Channels) -> TrainingData:
        """The parts of a source that training may see."""
        return cls(source.training, source.validation, None if source.recorded else source.fresh)

    def __repr__(self) -> str:
        """How many channels there are."""
        return (
            f"TrainingData({len(self.training)} channels for training, {len(self.validation)} for "
            f"validation, {self.training.shape[-1]} workers)"
        )

    def to(self, device: torch.device) -> TrainingData:
        """The same channels on another device."""
        return TrainingData(self.training.to(device), self.validation.to(device), self.fresh)

    def checksum(self) -> str:
        """SHA-256 of all channels."""
        return checksum({"training": self.training, "validation": self.validation}, {})


def primal_dual_step(
    policy: NeuralPolicy,
    optimizer: torch.optim.Optimizer,
    problem: Problem,
    csi: Tensor,
    state: PrimalDualState | None,
    settings: TrainingSettings,
    *,
    seen: Tensor | None = None,
    subset: Tensor | None = None,
) -> PrimalDualState:
    """One batch: ascend the weights on the Lagrangian, then update the other variables.

    ``state`` is None for the first batch of a run, which sets the starting point. The policy sees
    ``seen`` instead of the channels ``csi`` (N, L, L), if given. With a ``subset`` of the workers,
    (K,) indices, the others are silent and their variables stay; those of the subset take steps
    L/K times as long, so that on average they get as far as with all workers in every batch.
    """
    seen = csi if seen is None else seen
    power = policy(seen) if subset is None else subset_powers(policy, seen, subset)
    expected = Expectations.estimate(problem, csi, power)
    state = state or PrimalDualState.start(problem, expected, settings.required_start, subset)
    optimizer.zero_grad(set_to_none=True)
    (-state.lagrangian(expected)).backward()
    clip_grad_norm_(policy.parameters(), settings.clip_norm)
    optimizer.step()
    step = settings.primal_dual_step
    if subset is not None:
        step *= csi.shape[-1] / len(subset)
    return state.updated(problem, expected, step, subset)


class Training:
    """A run of primal–dual learning that can be stopped and resumed at any epoch.

    Everything that the next epoch depends on is in the checkpoint: weights, Adam's moments,
    primal and dual variables, the random generator. A run that is killed and resumed therefore
    ends with the same weights, bit for bit, as one left alone on the same machine.

    It runs on the device that the policy is on; random numbers are those of the CPU everywhere.
    """

    def __init__(
        self,
        policy: NeuralPolicy,
        data: TrainingData,
        settings: TrainingSettings,
        *,
        seed: int = 0,
        problem: Problem | None = None,
    ) -> None:
        for csi in (data.training, data.validation):
            check_csi(csi, policy.scenario.workers)
        if settings.fresh_channels and data.fresh is None:
            raise InputError(
                "fresh_channels: the channels are recorded and no others can be drawn; accepted: "
                "channels drawn from a scenario."
            )
        check_subset_size(settings.subset_workers, policy)
        self.policy = policy
        self._device = next(policy.parameters()).device
        self.data = data.to(self._device)
        self.settings = settings
        self.problem = problem or Problem.from_scenario(policy.scenario)
        # Now, before the problem is used: a measure of the user's own may change its attributes.
        self._problem_identity = _problem_identity(self.problem)
        self.history: list[Epoch] = []
        self._state: PrimalDualState | None = None
        self._seed = seed
        self._generator = torch_generator(seed, "batches")
        with track("loading PyTorch's optimisers", transient=True):  # seconds, for the first one
            self._optimizer = torch.optim.Adam(
                policy.parameters(),
                lr=settings.learning_rate,
                weight_decay=settings.weight_decay,
                fused=True,
            )
        self._best_weights = _clone(policy.state_dict())
        # Training may aim above the thresholds and measure by them; validation judges.
        self._training_problem = replace(
            self.problem,
            constraints=tuple(_aimed_at(c, settings) for c in self.problem.constraints),
        )

    def __repr__(self) -> str:
        """How far it is, and the best epoch so far."""
        so_far = f"{len(self.history)} of {self.settings.epochs} epochs"
        if not self.history:
            return f"Training({self.policy.name}, {so_far})"
        best = best_epoch(self.history)
        misses = "constraints met" if best.met else f"misses {best.violation:.1%}"
        return (
            f"Training({self.policy.name}, {so_far}, best: epoch {best.number + 1}, objective "
            f"{best.objective:.4f}, {misses})"
        )

    @property
    def finished(self) -> bool:
        """All epochs done, or no better epoch for ``patience`` of them since a feasible one."""
        if len(self.history) >= self.settings.epochs:
            return True
        if not self.history or not (best := best_epoch(self.history)).met:
            return False
        return len(self.history) - 1 - best.number >= self.settings.patience

    def run(self, callbacks: Sequence[Callback] = (), checkpoint: Path | None = None) -> Epoch:
        """Train to the end; the policy then has the best epoch's weights. Returns that epoch.

        The ``callbacks`` are called after every :class:`Epoch`.
        """
        title, epochs = f"training of {self.policy.name}", self.settings.epochs
        earlier = _advances(self.history)
        with track(title, epochs, "epochs", callbacks, earlier=earlier) as progress:
            while not self.finished:
                epoch = self._run_epoch()
                # First the checkpoint, which a failing callback must not cost.
                if checkpoint and len(self.history) % self.settings.checkpoint_every == 0:
                    self.save(checkpoint)
                best = best_epoch(self.history)
                progress.advance(epoch.number + 1, _figures(epoch, best), epoch)
        if checkpoint:
            self.save(checkpoint)
        self.policy.load_state_dict(self._best_weights)
        return best_epoch(self.history)

    def save(self, path: Path) -> None:
        """Write a checkpoint of the state between two epochs."""
        tensors = {
            **{f"policy.{k}": v for k, v in self.policy.state_dict().items()},
            **{f"best.{k}": v for k, v in self._best_weights.items()},
            **{f"adam.{k}": v for k, v in adam_tensors(self._optimizer).items()},
            **{f"state.{k}": v for k, v in (self._state.tensors() if self._state else {}).items()},
            "generator": self._generator.get_state(),
        }
        header = {
            **self._identity(),
            "history": [epoch.to_json() for epoch in self.history],
        }
        write_tensors(path, _CHECKPOINT, TensorFile(tensors, header))

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same policy, problem, settings, seed and channels."""
        file = read_tensors(path, _CHECKPOINT)
        check_same(path, file, self._identity())
        with fitting(path, _CHECKPOINT, "this run"):
            self.policy.load_state_dict(file.under("policy."))
            self._best_weights = file.under("best.")
            state = file.under("state.")
            self._state = (
                PrimalDualState(**{name: t.to(self._device) for name, t in state.items()})
                if state
                else None
            )
            restore_adam(self._optimizer, file.under("adam."))
            self._generator.set_state(file.tensors["generator"])
            self.history = [Epoch.from_json(fields) for fields in file.header["history"]]

    def _identity(self) -> dict[str, Any]:
        """What a run must share with a checkpoint to continue it: all that an epoch depends on."""
        return {
            "format": _FORMAT,
            "policy": POLICIES.name_of(type(self.policy)),
            "architecture": self.policy.architecture.model_dump(mode="json"),
            "scenario": self.policy.scenario.model_dump(mode="json"),
            "problem": self._problem_identity,
            "settings": self.settings.model_dump(mode="json", exclude=_WHEN_TO_STOP),
            "seed": self._seed,
            "channel_set": self.data.checksum(),
        }

    def _run_epoch(self) -> Epoch:
        for csi, subset in zip(self._batches(), self._subsets(), strict=False):
            self._state = primal_dual_step(
                self.policy,
                self._optimizer,
                self._training_problem,
                csi,
                self._state,
                self.settings,
                seen=noisy_csi(csi, self.policy.scenario.csi_noise, self._generator),
                subset=subset,
            )
        verdict = judge(
            self.policy.scenario,
            self.data.validation,
            allocate_seen(self.policy, self.data.validation, self.policy.scenario, seed=self._seed),
            problem=self.problem,
        )
        epoch = Epoch.from_judgement(len(self.history), verdict)
        self.history.append(epoch)
        if best_epoch(self.history) is epoch:
            self._best_weights = _clone(self.policy.state_dict())
        return epoch

    def _batches(self) -> Iterator[Tensor]:
        size = self.settings.batch_size
        if self.settings.fresh_channels and self.data.fresh is not None:
            for start in range(0, len(self.data.training), size):
                count = min(size, len(self.data.training) - start)
                yield self.data.fresh(count, self._generator).to(self._device)
        else:
            order = torch.randperm(len(self.data.training), generator=self._generator)
            for start in range(0, len(order), size):
                yield self.data.training[order[start : start + size]]

    def _subsets(self) -> Iterator[Tensor | None]:
        """The workers of every batch of the coming epoch, without end; None: all of them."""
        # A generator per epoch, so that subsets need no state and leave the batches as they are.
        generator = torch_generator(self._seed, "batches", 1 + len(self.history))
        size = self.settings.subset_workers
        workers = self.policy.scenario.workers
        while True:
            yield None if size is None else draw_subset(size, workers, generator)


def _aimed_at(constraint: Constraint, settings: TrainingSettings) -> Constraint:
    """The constraint in the units and with the margin of the settings."""
    constraint = constraint.relative() if settings.relative_units else constraint
    return constraint.with_margin(settings.margin)


def _problem_identity(problem: Problem) -> dict[str, Any]:
    """Objective, utility and constraints by name and settings, for JSON."""
    return {
        "objective": object_identity(problem.objective, MEASURES),
        "utility": object_identity(problem.utility),
        "constraints": [
            {
                "measure": object_identity(constraint.measure, MEASURES),
                "limit": constraint.limit.tolist(),
                "at most": constraint.at_most,
                "active": constraint.active.tolist(),
            }
            for constraint in problem.constraints
        ],
    }


def _advances(history: list[Epoch]) -> list[Step]:
    """The steps that were reported for the epochs of ``history``."""
    best_so_far = accumulate(history, lambda *epochs: best_epoch(list(epochs)))
    return [
        Step(epoch.number + 1, _figures(epoch, best), epoch)
        for epoch, best in zip(history, best_so_far, strict=True)
    ]


def _figures(epoch: Epoch, best: Epoch) -> dict[str, float]:
    """Of an epoch and of the best one so far."""
    return {"objective": epoch.objective, "best": best.objective, "best misses": best.violation}


def _clone(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
