"""The dual problem: multipliers that make the channel-by-channel maximiser meet the constraints.

D(μ, ν) = E_H max_p Σ_i ω_i f_i + 1(p_i > 0)[μ_i (R_i − r0_i) + ν_i (EE_i − e0_i)] is convex in the
multipliers, and its gradient is what the maximisers leave over of each constraint. For a utility g
other than the weighted sum, the weights ω become variables too and max_y g(y) − ω·y is added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from feduplink.lagrangian import Cell, HillTops, Maximiser, Multipliers, Prices
from feduplink.problem import Judgement, Problem, judge
from feduplink.scenario import Scenario

_Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

#: Natural size of a multiplier times its threshold, relative to the objective's weight on one
#: worker: sets the scale on which the optimiser takes its first steps.
_SCALE = 0.025
#: The objective is multiplied by this for the optimiser, whose stopping rules are absolute.
_MAGNIFICATION = 1000.0
#: A primal solution may miss a constraint by this share of its threshold.
PRIMAL_TOLERANCE = 2e-3
#: Primal and dual value that differ by no more than this are taken as equal.
PRIMAL_GAP = 5e-4
#: A run of the quasi-Newton method ends early when they differ by no more than this.
_EARLY_GAP = 1e-4
#: Maximisers that miss a constraint by more than this share of its threshold are not repaired
#: while there is hope for better ones.
_REPAIRABLE = 0.1
#: Most evaluations in one run of the quasi-Newton method, and the relative progress of one
#: iteration under which it ends.
_RUN = 40
_PROGRESS = 1e-9


@dataclass(frozen=True)
class DualStep:
    """One evaluation of the dual function: its value, and the figures of its maximisers."""

    dual: float
    primal: float
    violation: float


@dataclass(frozen=True)
class DualSolution:
    """The solution on a set of channels.

    Attributes:
        multipliers: where the dual function was smallest.
        power: the best powers found that meet the constraints, (N, L) W.
        judgement: of these powers.
        primal_multipliers: where the maximisers themselves were best.
        dual_value: D at the multipliers, with the inner maximum as found (not yet certified).
        conjugate: the part max_y g(y) − worth·y of it; 0 for the weighted sum.
        steps: every evaluation on the way.
    """

    multipliers: Multipliers
    power: Tensor
    judgement: Judgement
    primal_multipliers: Multipliers
    dual_value: float
    conjugate: float
    steps: list[DualStep]


def conjugate(scenario: Scenario, worth: Tensor) -> float:
    """max_y g(y) − worth·y: Σ ω (ln(ω/worth) − 1) for proportional fairness, else 0."""
    if scenario.utility == "weighted-sum":
        return 0.0
    weights = scenario.worker_weights.to(worth)
    return float((weights * ((weights / worth).log() - 1)).sum())


class _DualFunction:
    """D and its gradient over the vector of scaled multipliers; remembers the evaluations."""

    def __init__(
        self,
        scenario: Scenario,
        csi: Tensor,
        start: Multipliers | None,
        maximiser: Callable[[Cell, Prices], Maximiser],
        repair: bool,
        progress: Callable[[DualStep], None] | None,
    ) -> None:
        self.scenario = scenario
        self.csi = csi
        self.cell = Cell.of(scenario, csi)
        self.problem = Problem.of(scenario)
        self.fair = scenario.utility == "proportional-fairness"
        self.weights = scenario.worker_weights.to(self.cell.direct)
        thresholds = torch.stack((scenario.rate_thresholds, scenario.ee_thresholds))
        self.active = (thresholds > 0).to(self.cell.direct)
        self.unit = torch.where(thresholds > 0, thresholds, 1.0).to(self.cell.direct)
        self.scale = _SCALE * float(self.weights.mean())
        self.progress = progress
        self.steps: list[DualStep] = []
        self.repair = repair
        self.best: tuple[tuple[bool, float], Tensor, Judgement, Multipliers] | None = None
        self.repaired: tuple[Tensor, Judgement] | None = None
        self.tops = maximiser(self.cell, self.multipliers(self.start(start)).prices(scenario))

    def start(self, multipliers: Multipliers | None = None) -> _Vector:
        """These multipliers, or no constraint priced and every worker's weight as given."""
        if multipliers is None:
            multipliers = Multipliers(torch.zeros_like(self.unit), self.weights)
        priced = multipliers.constraints.to(self.unit) * self.unit / self.scale * self.active
        worth = multipliers.worth.to(self.unit) / self.weights
        vector = torch.cat((priced.flatten(), worth)) if self.fair else priced.flatten()
        return vector.cpu().numpy()

    def bounds(self) -> list[tuple[float, float | None]]:
        """Multipliers are at least 0; those of absent constraints are exactly 0."""
        priced = [(0.0, None if on else 0.0) for on in self.active.flatten().tolist()]
        return priced + ([(1e-3, 1e3)] * len(self.weights) if self.fair else [])

    def multipliers(self, x: _Vector) -> Multipliers:
        vector = torch.tensor(x).to(self.cell.direct)
        priced = vector[: self.active.numel()].reshape(self.active.shape)
        worth = self.weights * vector[self.active.numel() :] if self.fair else self.weights
        return Multipliers(priced * self.scale / self.unit, worth)

    def __call__(self, x: _Vector) -> tuple[float, _Vector]:
        multipliers = self.multipliers(x)
        prices = multipliers.prices(self.scenario)
        power = self.tops.follow(prices)
        value = float(self.cell.value(power, prices).mean())
        sinr = self.cell.sinr(power)
        surplus = torch.stack(
            [
                torch.where(power > 0, c.measure(sinr, power) - c.threshold.to(power), 0.0).mean(0)
                for c in self.problem.constraints
            ]
        )
        gradient = (surplus / self.unit * self.scale * self.active).flatten()
        if self.fair:
            relative = multipliers.worth / self.weights
            value += conjugate(self.scenario, multipliers.worth)
            achieved = self.problem.objective(sinr, power).mean(0)
            gradient = torch.cat((gradient, self.weights * (achieved - 1 / relative)))
        self._remember(power, multipliers, value)
        return value * _MAGNIFICATION, gradient.cpu().numpy() * _MAGNIFICATION

    def primal(self) -> tuple[Tensor, Judgement]:
        """The best powers so far that meet the constraints, or the least violation."""
        assert self.best is not None
        (met, _), power, verdict, _ = self.best
        if self.repaired and not (met and verdict.objective >= self.repaired[1].objective):
            return self.repaired
        return power, verdict

    def insist(self) -> None:
        """If nothing met the constraints, repair what came nearest, however far that is.

        On a handful of channels no maximiser may come near, but silencing always gets there.
        """
        assert self.best is not None
        (met, _), power, _, _ = self.best
        if self.repair and not met and self.repaired is None:
            self._consider(repaired(power, self.cell, self.scenario, self.problem))

    def solved(self, value: float, tolerance: float) -> bool:
        """Whether a primal solution that meets the constraints is this close to ``value``."""
        verdict = self.primal()[1]
        close = abs(value - verdict.objective) <= tolerance * max(1.0, abs(value))
        return close and verdict.violation <= PRIMAL_TOLERANCE

    def _remember(self, power: Tensor, multipliers: Multipliers, value: float) -> None:
        verdict = judge(power, self.csi, self.scenario, self.problem)
        met = verdict.violation <= PRIMAL_TOLERANCE
        rank = (met, verdict.objective if met else -verdict.violation)
        if self.best is None or rank > self.best[0]:
            self.best = (rank, power, verdict, multipliers)
        if self.repair and not met and verdict.violation <= _REPAIRABLE:
            self._consider(repaired(power, self.cell, self.scenario, self.problem))
        self.steps.append(DualStep(value, verdict.objective, verdict.violation))
        if self.progress:
            self.progress(self.steps[-1])

    def _consider(self, power: Tensor) -> None:
        verdict = judge(power, self.csi, self.scenario, self.problem)
        better = self.repaired is None or verdict.objective > self.repaired[1].objective
        if verdict.violation <= PRIMAL_TOLERANCE and better:
            self.repaired = (power, verdict)


def repaired(power: Tensor, cell: Cell, scenario: Scenario, problem: Problem) -> Tensor:
    """The powers (N, L) with workers silenced in some rounds, so that every constraint is met.

    Where a worker's mean misses a threshold, it is silenced first in the rounds that miss it most
    for what they are worth. That never harms another worker, so one after the other will do.
    """
    power = power.clone()
    weights = scenario.worker_weights.to(power)
    for constraint in problem.constraints:
        for i in range(power.shape[-1]):
            sinr = cell.sinr(power)
            threshold = (1 - PRIMAL_TOLERANCE / 2) * float(constraint.threshold[i])
            surplus = constraint.measure(sinr, power)[:, i] - threshold
            surplus = torch.where(power[:, i] > 0, surplus, 0.0)
            missing = float(-surplus.sum())
            if missing <= 0:
                continue
            worth = weights[i] * problem.objective(sinr, power)[:, i]
            order = (surplus / worth.clamp_min(1e-12)).argsort()
            regained = (-surplus[order]).clamp_min(0.0).cumsum(0)
            enough = int((regained < missing).sum()) + 1
            power[order[:enough], i] = 0.0
    return power


def solve_dual(
    scenario: Scenario,
    csi: Tensor,
    *,
    start: Multipliers | None = None,
    maximiser: Callable[[Cell, Prices], Maximiser] = HillTops,
    repair: bool = True,
    most_evaluations: int = 100,
    progress: Callable[[DualStep], None] | None = None,
) -> DualSolution:
    """Minimise the dual function on channels (N, L, L) and recover the primal solution.

    A quasi-Newton method is restarted, each time after a wider search for hill tops, until a
    primal solution that meets the constraints is within :data:`PRIMAL_GAP` of the dual value, or
    for ``most_evaluations``. It begins at the multipliers ``start``, if given. ``maximiser``
    solves the channels at given prices; a learned one may stand in for the search.

    Where prices make a worker indifferent, no maximiser need meet the constraints, and one that
    nearly does is repaired by silencing a few rounds; without ``repair`` the search goes on until
    one does by itself, which is what a policy needs.
    """
    function = _DualFunction(scenario, csi, start, maximiser, repair, progress)
    x = function.start(start)

    def stop_when_solved(intermediate_result: OptimizeResult) -> None:
        if function.solved(intermediate_result.fun / _MAGNIFICATION, _EARLY_GAP):
            raise StopIteration

    while len(function.steps) < most_evaluations:
        result = minimize(
            function,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=function.bounds(),
            callback=stop_when_solved,
            options={
                "maxcor": 20,
                "ftol": _PROGRESS,
                "gtol": 1e-5,
                "maxfun": min(_RUN, most_evaluations - len(function.steps)),
            },
        )
        x = result.x
        # A wider search at the new prices may find better tops; then D is not yet minimal.
        function.tops.restart(function.multipliers(x).prices(scenario))
        value = function(x)[0] / _MAGNIFICATION
        if function.solved(value, PRIMAL_GAP):
            break
    assert function.best is not None
    function.insist()
    power, verdict = function.primal()
    multipliers, primal_multipliers = function.multipliers(x), function.best[3]
    return DualSolution(
        multipliers,
        power,
        verdict,
        primal_multipliers,
        value,
        conjugate(scenario, multipliers.worth),
        function.steps,
    )
