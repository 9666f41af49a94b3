"""The variables of primal–dual learning besides the policy's weights."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from feduplink import link
from feduplink.learning.settings import RequiredStart
from feduplink.problem import Problem


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
