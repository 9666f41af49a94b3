"""What policies that maximise a Lagrangian have in common: multipliers and thresholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.lagrangian import Multipliers, Prices
from feduplink.policies.base import Policy
from feduplink.problem import Problem
from feduplink.scenario import Scenario
from feduplink.utility import WeightedSum


@dataclass(frozen=True)
class DualPoint:
    """Multipliers, and the thresholds that they were found for.

    Attributes:
        multipliers: of K constraints and L workers.
        thresholds: what the constraints aim at, (K, L): those of the problem, or a little
            stricter, so that unseen channels meet the problem's too.

    """

    multipliers: Multipliers
    thresholds: Tensor

    def for_workers(self, workers: int) -> DualPoint:
        """For so many average workers."""

        def average(values: Tensor) -> Tensor:
            mean = values.mean(-1, keepdim=True)
            return mean.expand(*values.shape[:-1], workers)

        return DualPoint(
            Multipliers(
                average(self.multipliers.constraints), average(self.multipliers.objective_weight)
            ),
            average(self.thresholds),
        )

    def tensors(self) -> dict[str, Tensor]:
        """By name, to be stored."""
        return {
            "constraints": self.multipliers.constraints,
            "objective_weight": self.multipliers.objective_weight,
            "thresholds": self.thresholds,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> DualPoint:
        """Inverse of :meth:`tensors`; other tensors are not looked at."""
        multipliers = Multipliers(tensors["constraints"], tensors["objective_weight"])
        return cls(multipliers, tensors["thresholds"])

    def check(self, constraints: int, workers: int) -> None:
        """Refuse what cannot be a point of a problem with K constraints and L workers."""
        shape = (constraints, workers)
        for name, tensor in self.tensors().items():
            expected = shape[1:] if name == "objective_weight" else shape
            if tensor.shape != expected:
                raise InputError(
                    f"multipliers: {name} has shape {tuple(tensor.shape)}; accepted: {expected}."
                )
            if not bool(tensor.isfinite().all()):
                raise InputError(f"multipliers: {name} has NaN or infinity; accepted: numbers.")
        if bool((self.multipliers.constraints < 0).any()):
            raise InputError("multipliers: one is negative; accepted: 0 or more.")

    def prices(self, problem: Problem, scenario: Scenario) -> Prices:
        """Of every quantity in the Lagrangian of one channel."""
        aim = problem.with_thresholds(self.thresholds)
        return Prices.from_problem(aim, scenario, self.multipliers)


class LagrangianPolicy(Policy):
    """A policy that maximises the Lagrangian of its problem, channel by channel.

    The problem is that of the scenario unless another one is given; a policy for such a problem
    cannot be saved.
    """

    def __init__(
        self, scenario: Scenario, point: DualPoint, problem: Problem | None = None
    ) -> None:
        super().__init__(scenario)
        self.point = point
        self._given = problem
        self.problem = problem or Problem.from_scenario(scenario)
        point.check(len(self.problem.constraints), scenario.workers)

    def prices(self, csi: Tensor) -> Prices:
        """On the device of the channels (N, L, L), for as many workers as they have."""
        workers = csi.shape[-1]
        problem, point = self.problem, self.point
        if workers != self.scenario.workers:
            problem, point = _for_workers(problem, workers), point.for_workers(workers)
        multipliers = point.multipliers.to(csi.device)
        return replace(point, multipliers=multipliers).prices(problem, self.scenario)

    def tensors(self) -> dict[str, Tensor]:
        """The multipliers and the thresholds."""
        if self._given is not None:
            raise InputError(
                f"policy: this {self.name} is for a problem that its scenario does not describe, "
                "and cannot be saved; accepted: a scenario that names its measures."
            )
        return self.point.tensors()

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy with these multipliers and thresholds."""
        return cls(scenario, DualPoint.from_tensors(tensors))


def _for_workers(problem: Problem, workers: int) -> Problem:
    """The problem for so many workers, each with the mean limit."""
    return Problem(
        problem.objective,
        WeightedSum(torch.ones(workers, dtype=torch.float64)),
        tuple(
            replace(
                constraint,
                limit=constraint.limit.mean(-1, keepdim=True).expand(workers),
                active=constraint.active.any(-1, keepdim=True).expand(workers),
            )
            for constraint in problem.constraints
        ),
    )
