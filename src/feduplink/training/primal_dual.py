"""Primal–dual learning of ``pdm`` and ``pdg``: presets, variables, subsets of workers, steps.

The preset ``paper`` has the values of the paper and, where it gives none, those of the authors'
code. A test keeps it equal to the table of docs/paper-settings.md.

With ``subset_workers``, only a random subset of the workers transmits in each batch. The SINR of
the subset is that of the principal submatrix of H; weights and thresholds do not change.
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

#: Settings that may change when a run is resumed.
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
    """Settings of training and architecture of a policy.

    Attributes:
        settings: hyperparameters of the training.
        architecture: settings of the network.
    """

    settings: TrainingSettings
    architecture: Architecture

    @classmethod
    def for_policy(cls, kind: type[NeuralPolicy], name: PresetName = "ours") -> Preset:
        """Look up a preset.

        Args:
            kind: policy class.
            name: ``ours`` or ``paper``.

        >>> from feduplink.policies import GraphPolicy
        >>> Preset.for_policy(GraphPolicy, "paper").settings.learning_rate
        0.001
        """
        if name == "paper":
            return cls(_PAPER_SETTINGS, kind.architecture_type.as_published())
        settings = TrainingSettings(learning_rate=kind.learning_rate)
        return cls(settings, kind.architecture_type())


@dataclass(frozen=True)
class Expectations:
    """Batch estimates of objective and constraints, for K constraints and L workers.

    Attributes:
        objective: E[f], (L,).
        constraints: E[c | p > 0], or E[c] for a measure over all rounds, (K, L); NaN for a worker
            that never transmits in the batch.

    """

    objective: Tensor
    constraints: Tensor

    @classmethod
    def estimate(cls, problem: Problem, state: link.LinkState) -> Expectations:
        """Average over a batch of N rounds; differentiable in the powers.

        Args:
            problem: objective and K constraints.
            state: state of the link in N rounds.
        """
        power = state.power
        rows = [c.mean(c.of(state), power) for c in problem.constraints]
        constraints = torch.stack(rows) if rows else power.new_zeros(0, power.shape[-1])
        return cls(problem.objective.of(state).mean(0), constraints)


@dataclass(frozen=True)
class PrimalDualState:
    """Auxiliary primal variables and multipliers of primal–dual learning.

    Attributes:
        achieved: auxiliary variables y of the objective, with E[f] ≥ y, (L,).
        required: auxiliary variables r and e of the constraints, at least the thresholds, (K, L).
        objective_multiplier: λ_y ≥ 0, (L,).
        constraint_multiplier: λ_r and λ_e ≥ 0, (K, L).

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
        """Initialise the variables: y = E[f] of the first batch, λ = 0.

        Args:
            problem: objective and constraints.
            first: estimates of the first batch.
            required_start: initial ``required``: the thresholds, or the estimates of the first
                batch as in the published code. These decrease by only γ λ per step if they are
                above the thresholds.
            subset: indices of the workers that transmitted in that batch, (K,); the others start
                at the mean over the subset. None means all.
        """
        achieved = first.objective.detach().clone()
        required = problem.thresholds.to(achieved)
        if required_start == "first-batch":
            estimates = _filled(first.constraints.detach(), subset)
            required = torch.where(estimates.isnan(), required, estimates)
        achieved = _filled(achieved, subset)
        return cls(achieved, required, torch.zeros_like(achieved), torch.zeros_like(required))

    def lagrangian(self, expected: Expectations) -> Tensor:
        """Part of the Lagrangian that depends on the policy, λ_y·E[f] + Σ λ_c·E[c | p > 0].

        Constraint terms of a worker that never transmits in the batch are zero.

        Args:
            expected: batch estimates.

        Returns:
            The Lagrangian, a differentiable scalar.
        """
        constraints = expected.constraints.nan_to_num(nan=0.0)
        return (self.objective_multiplier * expected.objective).sum() + (
            self.constraint_multiplier * constraints
        ).sum()

    def updated(
        self, problem: Problem, expected: Expectations, step: float, subset: Tensor | None = None
    ) -> PrimalDualState:
        """Take one step on the auxiliary variables, then on the multipliers.

        y ← y + γ(∇g(y) − λ_y);  c ← max(c − γ λ_c, c0);  λ ← max(λ − γ(E − x), 0), with the
        updated primal variables x = (y, c).

        Args:
            problem: utility g and thresholds c0.
            expected: batch estimates E.
            step: step size γ.
            subset: indices of the workers whose variables are updated; None means all.

        Returns:
            The updated variables.
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
        """Variables by name."""
        return dict(vars(self))


def _filled(values: Tensor, subset: Tensor | None) -> Tensor:
    """Values (..., L), replaced outside of the ``subset`` by the mean over it."""
    if subset is None:
        return values
    own = values[..., subset]
    mean = own.nanmean(-1, keepdim=True)
    return mean.expand_as(values).index_copy(-1, subset, own)


def check_subset_size(size: int | None, policy: NeuralPolicy) -> None:
    """Check that a policy can be trained on subsets of ``size`` workers; None always passes.

    Raises:
        InputError: if the policy has a fixed number of workers, or the cell has fewer than
            ``size``.
    """
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
    """Draw a uniformly random subset of workers.

    Args:
        size: number of workers in the subset.
        workers: number of workers in the cell.
        generator: source of random numbers.

    Returns:
        Indices in ascending order, (size,).

    >>> draw_subset(3, 3, torch.Generator().manual_seed(0))
    tensor([0, 1, 2])
    """
    return torch.randperm(workers, generator=generator)[:size].sort().values


def subset_powers(policy: NeuralPolicy, csi: Tensor, subset: Tensor) -> Tensor:
    """Compute powers with only a subset of the workers in the cell.

    Args:
        policy: policy for any number of workers.
        csi: CSI H in units of 1/W, (N, L, L).
        subset: indices of the workers in the subset, (K,).

    Returns:
        Differentiable powers for the principal submatrix of H, 0 for the others, (N, L), W.
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
    """Take one primal–dual step on a batch.

    The weights take a step of gradient ascent on the Lagrangian; then the auxiliary variables and
    the multipliers are updated. With a subset of K workers, the others are silent and keep their
    variables, and the step size is multiplied by L/K to compensate for less frequent updates.

    Args:
        policy: policy to train, in place.
        optimizer: optimiser of its weights.
        problem: objective and constraints.
        csi: true channels H in units of 1/W, (N, L, L).
        state: variables before the step; None initialises them from this batch.
        settings: step size, clipping norm and initialisation.
        seen: CSI that the policy observes, (N, L, L); None is ``csi``.
        subset: indices of the workers that transmit, (K,); None means all.

    Returns:
        The variables after the step.
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
    """Primal–dual learning of a neural policy.

    An epoch is one pass over the training channels; the best epoch is selected on the validation
    channels. Training runs on the device of the policy, with random numbers drawn on the CPU.

    Args:
        policy: policy to train, in place.
        channels: training and validation channels.
        settings: hyperparameters.
        seed: seed of batches, noise and subsets.
        problem: optimisation problem; None uses the problem of the policy's scenario.

    Attributes:
        problem: problem of validation.
        training_problem: problem of training, with the relative units and the margin of the
            settings.

    Raises:
        InputError: if channels, settings and policy do not fit together.

    >>> from feduplink.channels import make_channels
    >>> from feduplink.policies import GraphPolicy
    >>> from feduplink.scenario import Scenario
    >>> from feduplink.training import Trainer
    >>> scenario = Scenario(workers=2)
    >>> policy, channels = GraphPolicy.initialised(scenario), make_channels(scenario, 20)
    >>> trainer = Trainer(PrimalDualLearning(policy, channels, TrainingSettings(epochs=1)))
    >>> trainer.run().number
    0
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
                "fresh_channels: the channels are recorded, so that no others can be drawn; "
                "accepted: channels drawn from a scenario."
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
        # Computed before the problem is used, because a user's measure may change its attributes.
        self._problem_identity = _problem_identity(self.problem)
        self.training_problem = replace(
            self.problem,
            constraints=tuple(_training_constraint(c, settings) for c in self.problem.constraints),
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
        """Trained policy, on the CPU."""
        return self.policy.cpu()

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Channels of each batch, (N, L, L), with the subset that transmits, (K,); None is all."""
        # One generator per epoch: subsets then have no state and do not change the batches.
        generator = torch_generator(self.seed, "batches", 1 + epoch)
        size, workers = self.settings.subset_workers, self.policy.scenario.workers
        for csi in self._csi_batches():
            yield csi, None if size is None else draw_subset(size, workers, generator)

    def step(self, batch: tuple[Tensor, Tensor | None]) -> None:
        """Take a primal–dual step; the policy observes CSI with the noise of the scenario."""
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


def _training_constraint(constraint: Constraint, settings: TrainingSettings) -> Constraint:
    """The constraint with the relative units and the margin of the settings."""
    constraint = constraint.relative() if settings.relative_units else constraint
    return constraint.with_margin(settings.margin)


def _problem_identity(problem: Problem) -> dict[str, Any]:
    """Names and settings of objective, utility and constraints, JSON-compatible."""
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
