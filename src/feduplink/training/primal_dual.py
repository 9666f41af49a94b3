"""Primal–dual learning of ``pdm`` and ``pdg``: presets, variables, subsets of workers, the step.

Where the paper gives no value, its preset has that of the authors' code. docs/paper-settings.md
shows both beside each other with the reasons; a test keeps that table and this module the same.

With ``subset_workers`` only a random subset of the workers transmits in each batch. The SINR of the
subset is that of the principal submatrix of H; the weights and thresholds by worker stay as they
are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from feduplink import link
from feduplink.channels import Channels, check_csi, noisy_csi
from feduplink.errors import InputError
from feduplink.judgement import judge
from feduplink.policies import allocate_from_noisy_csi
from feduplink.policies.base import NeuralPolicy
from feduplink.problem import Constraint, Problem
from feduplink.randomness import torch_generator
from feduplink.registry import MEASURES, POLICIES
from feduplink.settings import Architecture, PresetName, RequiredStart, TrainingSettings
from feduplink.storage.tensorfile import checksum, object_identity
from feduplink.training.history import Epoch
from feduplink.training.trainer import EarlyStopping, LearningAlgorithm, TrainingRequest

#: Settings that may change when a run is resumed, such as more epochs.
_STOPPING_SETTINGS = {"epochs", "patience", "checkpoint_every"}

_PAPER_SETTINGS = TrainingSettings(
    learning_rate=1e-3,
    primal_dual_step=1e-4,
    margin=0.0,
    relative_units=False,
    required_start="first-batch",
    patience=100,
)


@dataclass(frozen=True)
class Preset:
    """How a policy is built and trained."""

    settings: TrainingSettings
    architecture: Architecture

    @classmethod
    def for_policy(cls, kind: type[NeuralPolicy], name: PresetName = "ours") -> Preset:
        """The preset of a name for a class of policies."""
        if name == "paper":
            return cls(_PAPER_SETTINGS, kind.architecture_type.as_published())
        settings = TrainingSettings(learning_rate=kind.learning_rate)
        return cls(settings, kind.architecture_type())


@dataclass(frozen=True)
class Expectations:
    """Batch estimates of what the problem is about, for K constraints and L workers.

    Attributes:
        objective: E[f], (L,).
        constraints: E[c | p > 0], or E[c] of a measure over all rounds, (K, L); NaN where a
            worker never transmits in the batch.

    """

    objective: Tensor
    constraints: Tensor

    @classmethod
    def estimate(cls, problem: Problem, state: link.LinkState) -> Expectations:
        """Means over a batch of N rounds on the link; differentiable."""
        power = state.power
        rows = [c.mean(c.of(state), power) for c in problem.constraints]
        constraints = torch.stack(rows) if rows else power.new_zeros(0, power.shape[-1])
        return cls(problem.objective.of(state).mean(0), constraints)


@dataclass(frozen=True)
class PrimalDualState:
    """Auxiliary primal variables and multipliers, all ≥ 0 but ``achieved``.

    Attributes:
        achieved: y, what the objective counts as reached, (L,).
        required: r and e, what the constraints ask for, never under the thresholds, (K, L).
        objective_multiplier: λ_y, (L,).
        constraint_multiplier: λ_r and λ_e, (K, L).

    """

    achieved: Tensor
    required: Tensor
    objective_multiplier: Tensor
    constraint_multiplier: Tensor

    @classmethod
    def start(
        cls,
        problem: Problem,
        first: Expectations,
        required_start: RequiredStart = "thresholds",
        subset: Tensor | None = None,
    ) -> PrimalDualState:
        """``achieved`` at the first batch's values, ``required`` at the thresholds, λ = 0.

        The published code starts ``required`` at the first batch's values too (``first-batch``).
        Where those are above the thresholds they come down by γ λ per step, too slowly for a run:
        the policy is then trained for thresholds that its random initial weights happened to set.

        If only a ``subset`` (indices) was on the air in that batch, the other workers start at the
        mean over the subset.
        """
        achieved = first.objective.detach().clone()
        required = problem.thresholds.to(achieved)
        if required_start == "first-batch":
            reached = _filled(first.constraints.detach(), subset)
            required = torch.where(reached.isnan(), required, reached)
        achieved = _filled(achieved, subset)
        return cls(achieved, required, torch.zeros_like(achieved), torch.zeros_like(required))

    def lagrangian(self, expected: Expectations) -> Tensor:
        """λ_y·E[f] + Σ λ_c·E[c | p > 0]: the part of the Lagrangian that depends on the policy.

        A worker that never transmits in the batch has no conditional expectation, and adds
        nothing.
        """
        constraints = expected.constraints.nan_to_num(nan=0.0)
        return (self.objective_multiplier * expected.objective).sum() + (
            self.constraint_multiplier * constraints
        ).sum()

    def updated(
        self, problem: Problem, expected: Expectations, step: float, subset: Tensor | None = None
    ) -> PrimalDualState:
        """One step of size γ on the auxiliary variables and the multipliers.

        y ← y + γ(∇g(y) − λ_y);  c ← max(c − γ λ_c, c0);  λ ← max(λ − γ(E − x), 0), with the
        updated primal variables x = (y, c). With a ``subset`` (indices), only its workers' move.
        """
        objective = expected.objective.detach()
        constraints = expected.constraints.detach()
        thresholds = problem.thresholds.to(self.required)
        achieved = self.achieved + step * (
            problem.utility.gradient(self.achieved) - self.objective_multiplier
        )
        required = torch.maximum(self.required - step * self.constraint_multiplier, thresholds)
        surplus = torch.where(constraints.isnan(), 0.0, constraints - required)
        after = PrimalDualState(
            achieved,
            required,
            (self.objective_multiplier - step * (objective - achieved)).clamp_min(0.0),
            (self.constraint_multiplier - step * surplus).clamp_min(0.0),
        )
        if subset is None:
            return after
        moved = {name: tensor[..., subset] for name, tensor in after.tensors().items()}
        return PrimalDualState(
            **{n: own.index_copy(-1, subset, moved[n]) for n, own in self.tensors().items()}
        )

    def tensors(self) -> dict[str, Tensor]:
        """The variables by name."""
        return dict(vars(self))


def _filled(values: Tensor, subset: Tensor | None) -> Tensor:
    """Values (..., L) with the mean over the ``subset`` in all other places."""
    if subset is None:
        return values
    own = values[..., subset]
    mean = own.nanmean(-1, keepdim=True)
    return mean.expand_as(values).index_copy(-1, subset, own)


def check_subset_size(size: int | None, policy: NeuralPolicy) -> None:
    """Refuse subsets for a policy of fixed size, and those larger than the cell."""
    if size is None:
        return
    if policy.fixed_workers is not None:
        raise InputError(
            f"subset_workers: {policy.name} takes exactly {policy.fixed_workers} workers; "
            "accepted: none, or a policy that takes any number, such as pdg."
        )
    if size > policy.scenario.workers:
        raise InputError(
            f"subset_workers: {size} of {policy.scenario.workers} workers; accepted: none, or 1 "
            f"to {policy.scenario.workers}."
        )


def draw_subset(size: int, workers: int, generator: torch.Generator) -> Tensor:
    """``size`` of ``workers`` indices, each subset equally likely, in ascending order."""
    return torch.randperm(workers, generator=generator)[:size].sort().values


def subset_powers(policy: NeuralPolicy, csi: Tensor, subset: Tensor) -> Tensor:
    """Powers for the principal submatrix of the ``subset``, 0 W for the others.

    (N, L, L) and (K,) indices to (N, L), W; differentiable.
    """
    power: Tensor = policy(csi[:, subset[:, None], subset])
    return power.new_zeros(csi.shape[:-1]).index_copy(-1, subset, power)


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
    expected = Expectations.estimate(problem, link.upload(csi, power, policy.scenario))
    state = state or PrimalDualState.start(problem, expected, settings.required_start, subset)
    optimizer.zero_grad(set_to_none=True)
    (-state.lagrangian(expected)).backward()
    clip_grad_norm_(policy.parameters(), settings.clip_norm)
    optimizer.step()
    step = settings.primal_dual_step
    if subset is not None:
        step *= csi.shape[-1] / len(subset)
    return state.updated(problem, expected, step, subset)


class PrimalDualLearning(LearningAlgorithm[Epoch]):
    """Primal–dual learning of a policy: an epoch is one pass over the training channels.

    The best epoch is chosen on the validation channels. Training runs on the device of the policy;
    random numbers are those of the CPU on every device.

    Args:
        policy: network to be trained, in place.
        channels: training and validation channels.
        settings: hyperparameters.
        seed: seed of batches, noise and subsets.
        problem: problem to be solved; None is the problem of the policy's scenario.

    Attributes:
        problem: the problem that validation judges by.
        training_problem: the problem that training solves, in relative units and with a margin if
            the settings say so.
    """

    record_type = Epoch
    state_types = (PrimalDualState,)
    settings: TrainingSettings

    def __init__(
        self,
        policy: NeuralPolicy,
        channels: Channels,
        settings: TrainingSettings,
        *,
        seed: int = 0,
        problem: Problem | None = None,
    ) -> None:
        check_csi(channels.csi, policy.scenario.workers)
        if settings.fresh_channels and channels.recorded:
            raise InputError(
                "fresh_channels: the channels are recorded and no others can be drawn; accepted: "
                "channels drawn from a scenario."
            )
        check_subset_size(settings.subset_workers, policy)
        self.title, self.network, self.policy = policy.name, policy, policy
        self._device = next(policy.parameters()).device
        self.channels = channels
        self._training = channels.training.to(self._device)
        self._validation = channels.validation.to(self._device)
        self.settings, self.seed = settings, seed
        self.epochs, self.checkpoint_every = settings.epochs, settings.checkpoint_every
        self.callbacks = (EarlyStopping(settings.patience),)
        self.problem = problem or Problem.from_scenario(policy.scenario)
        # Now, before the problem is used: a user's measure may change its attributes.
        self._problem_identity = _problem_identity(self.problem)
        self.training_problem = replace(
            self.problem,
            constraints=tuple(_aimed_at(c, settings) for c in self.problem.constraints),
        )
        self.generator = torch_generator(seed, "batches")
        self._state: PrimalDualState | None = None
        self.optimizer = torch.optim.Adam(
            policy.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    @classmethod
    def make(cls, request: TrainingRequest) -> Self:
        """Make the algorithm for a policy with random weights.

        Options are ``preset``, the fields of :class:`TrainingSettings` and those of the policy's
        architecture.
        """
        kind, options, seed = request.kind, dict(request.options), request.seed
        of_architecture = kind.architecture_type.model_fields
        request.check_options(["preset", *TrainingSettings.model_fields, *of_architecture])
        preset = Preset.for_policy(kind, options.pop("preset", "ours"))
        of_network = {name: options.pop(name) for name in of_architecture if name in options}
        settings = preset.settings.replace(**options)
        architecture = preset.architecture.replace(**of_network)
        policy = kind.initialised(request.scenario, seed, architecture).to(request.device)
        return cls(policy, request.channels, settings, seed=seed)

    def trained(self) -> NeuralPolicy:
        """The policy, on the CPU."""
        return self.policy.cpu()

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Channels of each batch, (N, L, L), and the workers that transmit, (K,), or None."""
        # A generator per epoch, so that subsets need no state and leave the batches as they are.
        generator = torch_generator(self.seed, "batches", 1 + epoch)
        size, workers = self.settings.subset_workers, self.policy.scenario.workers
        for csi in self._csi_batches():
            yield csi, None if size is None else draw_subset(size, workers, generator)

    def step(self, batch: tuple[Tensor, Tensor | None]) -> None:
        """Take a primal–dual step on noisy CSI, if the scenario has noise."""
        csi, subset = batch
        self._state = primal_dual_step(
            self.policy,
            self.optimizer,
            self.training_problem,
            csi,
            self._state,
            self.settings,
            seen=noisy_csi(csi, self.policy.scenario.csi_noise, self.generator),
            subset=subset,
        )

    def end_epoch(self, epoch: int) -> Epoch:
        """Judge the policy on the validation channels."""
        scenario, csi = self.policy.scenario, self._validation
        power = allocate_from_noisy_csi(
            self.policy, csi, scenario, seed=self.seed, noise="validation-noise"
        )
        return Epoch.from_judgement(epoch, judge(scenario, csi, power, problem=self.problem))

    def identity(self) -> dict[str, Any]:
        """Policy, scenario, problem, settings, seed and a checksum of the channels."""
        channels = {"training": self._training, "validation": self._validation}
        return {
            "policy": POLICIES.name_of(type(self.policy)),
            "architecture": self.policy.architecture.model_dump(mode="json"),
            "scenario": self.policy.scenario.model_dump(mode="json"),
            "problem": self._problem_identity,
            "settings": self.settings.model_dump(mode="json", exclude=_STOPPING_SETTINGS),
            "seed": self.seed,
            "channel_set": checksum(channels, {}),
        }

    def state(self) -> PrimalDualState | None:
        """Auxiliary variables and multipliers; None before the first batch."""
        return self._state

    def restore(self, state: PrimalDualState | None) -> None:
        """Restore auxiliary variables and multipliers."""
        self._state = state

    def _csi_batches(self) -> Iterator[Tensor]:
        count, size = len(self._training), self.settings.batch_size
        if self.settings.fresh_channels:
            for start in range(0, count, size):
                fresh = self.channels.fresh(min(size, count - start), self.generator)
                yield fresh.to(self._device)
        else:
            for rows in torch.randperm(count, generator=self.generator).split(size):
                yield self._training[rows]


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
