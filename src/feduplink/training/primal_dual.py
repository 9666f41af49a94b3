"""Primal–dual learning: its variables besides the weights, subsets of workers, presets.

Where the paper gives no value, its preset has that of the authors' code. docs/paper-settings.md
shows both beside each other with the reasons; a test keeps that table and this module the same.

Whoever is not in a batch's subset is silent in it. The SINR of the others is then that of the
principal submatrix of H, and the problem, with its weights and thresholds by worker, stays as it
is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_args

import torch
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.policies.base import NeuralPolicy
from feduplink.problem import Problem
from feduplink.settings import Architecture, PresetName, RequiredStart, TrainingSettings

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


def preset_names() -> tuple[str, ...]:
    """Ours first."""
    return get_args(PresetName)


def training_settings(
    kind: type[NeuralPolicy], preset: PresetName = "ours", **changes: Any
) -> TrainingSettings:
    """The settings of a preset for a policy, with some fields changed and validated again."""
    settings = Preset.for_policy(kind, preset).settings
    return TrainingSettings(**{**settings.model_dump(), **changes})


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
    def estimate(cls, problem: Problem, csi: Tensor, power: Tensor) -> Expectations:
        """Means over a batch, ``csi`` (N, L, L) and ``power`` (N, L) in W; differentiable."""
        sinr = link.sinr(csi, power)
        rows = [c.mean(c.value(sinr, power), power) for c in problem.constraints]
        constraints = torch.stack(rows) if rows else power.new_zeros(0, power.shape[-1])
        return cls(problem.objective.value(sinr, power).mean(0), constraints)


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
        return after if subset is None else self._with_workers_of(after, subset)

    def _with_workers_of(self, other: PrimalDualState, subset: Tensor) -> PrimalDualState:
        """The other state for the ``subset``, this one for the rest."""
        theirs = other.tensors()
        return PrimalDualState(
            **{
                name: own.index_copy(-1, subset, theirs[name][..., subset])
                for name, own in self.tensors().items()
            }
        )

    def tensors(self) -> dict[str, Tensor]:
        """The variables by name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


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
