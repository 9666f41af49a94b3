"""The dual function over scaled multipliers, and a quasi-Newton method that minimises it.

D(λ) = E_H max_p Σ_i ω_i f_i + Σ_k 1_k λ_ki (c_ki − c0_ki) (``lagrangian.prices``) is convex in the
multipliers; its gradient is the mean slack of each constraint at the maximisers. For a utility g
other than the weighted sum, the weights ω become variables too and max_y g(y) − ω·y is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Maximiser, Multipliers, Prices
from feduplink.problem import Problem
from feduplink.scenario import Scenario

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

#: Natural size of a multiplier times its threshold, relative to the objective's weight on one
#: worker: sets the scale on which the optimiser takes its first steps.
_SCALE = 0.025
#: The function is multiplied by this for the optimiser, whose stopping rules are absolute.
_MAGNIFICATION = 1000.0
#: The relative progress of one iteration under which a run of the quasi-Newton method ends.
_PROGRESS = 1e-9


class Evaluation(NamedTuple):
    """The dual function at one point.

    Attributes:
        value: D.
        gradient: in the scaled multipliers.
        power: of the maximisers, (N, L) W.
        multipliers: the point.
    """

    value: float
    gradient: Vector
    power: Tensor
    multipliers: Multipliers


class DualFunction:
    """D and its gradient over the vector x of scaled multipliers, on channels (N, L, L)."""

    def __init__(self, scenario: Scenario, problem: Problem, csi: Tensor) -> None:
        self.scenario, self.problem, self.csi = scenario, problem, csi
        self.batch = ChannelBatch.from_scenario(scenario, csi)
        self._weights = problem.utility.weights.to(self.batch.direct)
        self._active = problem.active.to(self.batch.direct)
        self._unit = problem.scales.to(self.batch.direct)
        self._scale = _SCALE * float(self._weights.mean())

    def start(self, multipliers: Multipliers | None = None) -> Vector:
        """These multipliers, or no constraint priced and every worker's weight as given."""
        if multipliers is None:
            multipliers = Multipliers(torch.zeros_like(self._unit), self._weights)
        priced = multipliers.constraints.to(self._unit) * self._unit / self._scale * self._active
        if self.problem.utility.linear:
            return priced.flatten().cpu().numpy()
        relative = multipliers.objective_weight.to(self._unit) / self._weights
        return torch.cat((priced.flatten(), relative)).cpu().numpy()

    def bounds(self) -> list[tuple[float, float | None]]:
        """Multipliers are at least 0; those of absent constraints are exactly 0."""
        priced = [(0.0, None if on else 0.0) for on in self._active.flatten().tolist()]
        return priced + ([] if self.problem.utility.linear else [(1e-3, 1e3)] * len(self._weights))

    def multipliers(self, x: Vector) -> Multipliers:
        """λ and ω at x."""
        vector = torch.tensor(x).to(self.batch.direct)
        priced = vector[: self._active.numel()].reshape(self._active.shape)
        weight = self._weights
        if not self.problem.utility.linear:
            weight = weight * vector[self._active.numel() :]
        return Multipliers(priced * self._scale / self._unit, weight)

    def prices(self, x: Vector) -> Prices:
        """Of every quantity in the Lagrangian of one channel."""
        return Prices.from_problem(self.problem, self.scenario, self.multipliers(x))

    def at(self, x: Vector, maximiser: Maximiser) -> Evaluation:
        """D at x with the maximisers that ``maximiser`` finds."""
        multipliers, prices = self.multipliers(x), self.prices(x)
        power = maximiser.maximise(prices)
        value = float(self.batch.value(power, prices).mean())
        value += lagrangian_constant(self.problem, multipliers)
        sinr = self.batch.sinr(power)
        surplus = self.problem.mean_surplus(sinr, power)
        gradient = (surplus / self._unit * self._scale * self._active).flatten()
        if not self.problem.utility.linear:
            achieved = self.problem.objective.value(sinr, power).mean(0)
            wanted = self.problem.utility.maximiser(multipliers.objective_weight)
            gradient = torch.cat((gradient, self._weights * (achieved - wanted)))
        return Evaluation(value, gradient.cpu().numpy(), power, multipliers)

    def minimised(
        self,
        x: Vector,
        evaluate: Callable[[Vector], Evaluation],
        evaluations: int,
        enough: Callable[[float], bool],
    ) -> Vector:
        """Where a run of the quasi-Newton method from ``x`` ends, or a value of D is ``enough``."""
        # Takes a third of a second to load, which who only reads an optimum need not wait for.
        from scipy.optimize import minimize

        def magnified(x: Vector) -> tuple[float, Vector]:
            at = evaluate(x)
            return at.value * _MAGNIFICATION, at.gradient * _MAGNIFICATION

        def stop(intermediate_result: OptimizeResult) -> None:
            if enough(intermediate_result.fun / _MAGNIFICATION):
                raise StopIteration

        result = minimize(
            magnified,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds(),
            callback=stop,
            options={"maxcor": 20, "ftol": _PROGRESS, "gtol": 1e-5, "maxfun": evaluations},
        )
        found: Vector = result.x
        return found


def lagrangian_constant(problem: Problem, multipliers: Multipliers) -> float:
    """What the dual function has beside the mean of the largest Lagrangians.

    max_y g(y) − ω·y, and −Σ λ c0 over the constraints on all rounds.
    """
    weight = multipliers.objective_weight
    return problem.utility.conjugate(weight) + multipliers.offset(problem)
