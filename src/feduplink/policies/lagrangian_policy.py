"""What policies that maximise a Lagrangian have in common: multipliers and thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.lagrangian import DualPoint, Prices
from feduplink.policies.base import Policy
from feduplink.problem import Problem
from feduplink.scenario import Scenario
from feduplink.utility import WeightedSum


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
