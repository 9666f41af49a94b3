"""A point of the dual problem: multipliers with the thresholds they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from feduplink.errors import InputError
from feduplink.lagrangian.prices import Multipliers, Prices
from feduplink.problem import Problem
from feduplink.scenario import Scenario


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
