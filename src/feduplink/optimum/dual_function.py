"""The dual function of scaled multipliers, and its minimisation by a quasi-Newton method.

    D(λ) = E_H max_p Σ_i ω_i f_i + Σ_k 1_k λ_ki (c_ki − c0_ki)

(:mod:`feduplink.lagrangian.prices`) is convex in the multipliers; its gradient is the mean surplus
of each constraint at the maximisers. For a utility g other than the weighted sum the weights ω are
variables too, and max_y g(y) − ω·y is added.
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

#: Unit of the variables: typical multiplier times its threshold, relative to the objective's weight
#: on one worker. The length of the first steps depends on it.
_SCALE = 0.025
#: Factor on the function for the optimiser, whose stopping rules are absolute.
_MAGNIFICATION = 1000.0
#: Relative decrease per iteration below which the quasi-Newton method stops.
_MIN_DECREASE = 1e-9


class Evaluation(NamedTuple):
    """The dual function at one point.

    Attributes:
        value: D.
        gradient: gradient of D in the scaled multipliers, (X,).
        power: the maximisers, (N, L), W.
        multipliers: λ and ω.
    """

    value: float
    gradient: Vector
    power: Tensor
    multipliers: Multipliers


class DualFunction:
    """D and its gradient on channels (N, L, L), as a function of the scaled multipliers x.

    x holds λ c0 / (0.025 ω̄) of all constraints and workers and, for a utility other than the
    weighted sum, the weights relative to those of the utility.

    Args:
        scenario: the radio.
        problem: objective and K constraints.
        csi: H, (N, L, L), linear, relative to the noise power.
    """

    def __init__(self, scenario: Scenario, problem: Problem, csi: Tensor) -> None:
        self.scenario, self.problem, self.csi = scenario, problem, csi
        self.batch = ChannelBatch.from_scenario(scenario, csi)
        self._weights = problem.utility.weights.to(self.batch.direct)
        self._active = problem.active.to(self.batch.direct)
        self._unit = problem.scales.to(self.batch.direct)
        self._scale = _SCALE * float(self._weights.mean())

    def start(self, multipliers: Multipliers | None = None) -> Vector:
        """Scale multipliers to x; None for λ = 0 and the weights of the utility."""
        if multipliers is None:
            multipliers = Multipliers(torch.zeros_like(self._unit), self._weights)
        scaled = multipliers.constraints.to(self._unit) * self._unit / self._scale * self._active
        if self.problem.utility.linear:
            return scaled.flatten().cpu().numpy()
        relative = multipliers.objective_weight.to(self._unit) / self._weights
        return torch.cat((scaled.flatten(), relative)).cpu().numpy()

    def bounds(self) -> list[tuple[float, float | None]]:
        """Bounds on x: multipliers are at least 0, and 0 for workers without a limit."""
        scaled = [(0.0, None if on else 0.0) for on in self._active.flatten().tolist()]
        return scaled + ([] if self.problem.utility.linear else [(1e-3, 1e3)] * len(self._weights))

    def multipliers(self, x: Vector) -> Multipliers:
        """Return λ and ω at x."""
        vector = torch.tensor(x).to(self.batch.direct)
        scaled = vector[: self._active.numel()].reshape(self._active.shape)
        weight = self._weights
        if not self.problem.utility.linear:
            weight = weight * vector[self._active.numel() :]
        return Multipliers(scaled * self._scale / self._unit, weight)

    def prices(self, x: Vector) -> Prices:
        """Return the prices of the Lagrangian at x."""
        return Prices.from_problem(self.problem, self.scenario, self.multipliers(x))

    def at(self, x: Vector, maximiser: Maximiser) -> Evaluation:
        """Evaluate D and its gradient at x with the powers that ``maximiser`` finds."""
        multipliers, prices = self.multipliers(x), self.prices(x)
        power = maximiser.maximise(prices)
        value = float(self.batch.value(power, prices).mean())
        value += lagrangian_constant(self.problem, multipliers)
        sinr = self.batch.sinr(power)
        surplus = self.problem.mean_surplus(sinr, power)
        gradient = (surplus / self._unit * self._scale * self._active).flatten()
        if not self.problem.utility.linear:
            achieved = self.problem.objective_values(sinr, power).mean(0)
            target = self.problem.utility.maximiser(multipliers.objective_weight)
            gradient = torch.cat((gradient, self._weights * (achieved - target)))
        return Evaluation(value, gradient.cpu().numpy(), power, multipliers)

    def minimised(
        self,
        x: Vector,
        evaluate: Callable[[Vector], Evaluation],
        evaluations: int,
        enough: Callable[[float], bool],
    ) -> Vector:
        """Minimise D by L-BFGS-B.

        Args:
            x: initial point, (X,).
            evaluate: computes D and its gradient at a point.
            evaluations: maximum number of evaluations.
            enough: whether a value of D is low enough to stop.

        Returns:
            The last iterate, (X,).
        """
        # Imported here because it takes 0.3 s and reading a saved optimum does not need it.
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
            options={"maxcor": 20, "ftol": _MIN_DECREASE, "gtol": 1e-5, "maxfun": evaluations},
        )
        found: Vector = result.x
        return found


def lagrangian_constant(problem: Problem, multipliers: Multipliers) -> float:
    """Return D minus the mean of the largest Lagrangians: max_y g(y) − ω·y − Σ λ c0.

    The sum is over the constraints on all rounds.
    """
    weight = multipliers.objective_weight
    return problem.utility.conjugate(weight) + multipliers.offset(problem)
