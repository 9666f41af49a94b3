"""The dual problem: multipliers that make the channel-by-channel maximiser meet the constraints.

D(λ) = E_H max_p Σ_i ω_i f_i + Σ_k 1_k λ_ki (c_ki − c0_ki) (``lagrangian.prices``) is convex in the
multipliers, and its gradient is what the maximisers leave over of each constraint. For a utility g
other than the weighted sum, the weights ω become variables too and max_y g(y) − ω·y is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from feduplink.judgement import Judgement, judge
from feduplink.lagrangian import ChannelBatch, Maximiser, Multipliers, MultiStart, Prices
from feduplink.observing import Observer, Tracker, track
from feduplink.optimum.repair import MET, repaired
from feduplink.problem import Problem
from feduplink.scenario import Scenario

#: Whose powers a solution has if no policy was better.
SEARCH = "search"

_Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

#: Natural size of a multiplier times its threshold, relative to the objective's weight on one
#: worker: sets the scale on which the optimiser takes its first steps.
_SCALE = 0.025
#: The objective is multiplied by this for the optimiser, whose stopping rules are absolute.
_MAGNIFICATION = 1000.0
#: Maximisers that miss a constraint by no more than this share of its threshold are near enough
#: for the search to stop, and for the multipliers of a policy, which is judged on other channels.
#: What is returned as the solution meets the constraints exactly (``repair``).
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
#: By which share thresholds are raised in the last run, so that its maximisers meet those that are
#: asked for, and the most evaluations it takes.
_AIM = PRIMAL_TOLERANCE / 4
_AIMED_RUN = 15


@dataclass(frozen=True)
class DualStep:
    """One evaluation of the dual function: its value, and the figures of its maximisers."""

    dual: float
    primal: float
    violation: float


@dataclass(frozen=True, repr=False)
class DualSolution:
    """The solution on a set of channels.

    Attributes:
        multipliers: where the dual function was smallest.
        power: the best powers found that meet the constraints on these channels, (N, L) W.
        judgement: of these powers; their violation is at most rounding.
        primal_multipliers: where the maximisers themselves were best.
        dual_value: D at the multipliers, with the inner maximum as found (not yet certified).
        constant: the part of it that is in no channel's Lagrangian: max_y g(y) − ω·y of the
            utility, and −Σ λ c0 of constraints on all rounds; 0 for the usual problem.
        steps: every evaluation on the way.
        found_by: whose powers these are, :data:`SEARCH` or the name of a policy.
    """

    multipliers: Multipliers
    power: Tensor
    judgement: Judgement
    primal_multipliers: Multipliers
    dual_value: float
    constant: float
    steps: list[DualStep]
    found_by: str = SEARCH

    def __repr__(self) -> str:
        """The values that should meet."""
        channels, workers = self.power.shape
        return (
            f"DualSolution(objective {self.judgement.objective:.4f}, dual value "
            f"{self.dual_value:.4f}, {len(self.steps)} evaluations, {channels} channels of "
            f"{workers} workers, found by {self.found_by})"
        )

    def improved_by(self, name: str, power: Tensor, judgement: Judgement) -> DualSolution:
        """With the powers (N, L) of ``name``, if they meet the constraints and reach more."""
        if judgement.violation > MET or not judgement.objective > self.judgement.objective:
            return self
        return replace(self, power=power, judgement=judgement, found_by=name)


def lagrangian_constant(problem: Problem, multipliers: Multipliers) -> float:
    """What the dual function has beside the mean of the largest Lagrangians.

    max_y g(y) − ω·y, and −Σ λ c0 over the constraints on all rounds.
    """
    weight = multipliers.objective_weight
    return problem.utility.conjugate(weight) + multipliers.offset(problem)


class _DualFunction:
    """D and its gradient over the vector of scaled multipliers; remembers the evaluations."""

    def __init__(
        self,
        scenario: Scenario,
        problem: Problem,
        csi: Tensor,
        start: Multipliers | None,
        maximiser: Callable[[ChannelBatch, Prices], Maximiser],
        repair: bool,
        tracker: Tracker,
    ) -> None:
        self.scenario = scenario
        self.csi = csi
        self.batch = ChannelBatch.from_scenario(scenario, csi)
        self.problem = problem
        self.aim = problem
        self.weights = problem.utility.weights.to(self.batch.direct)
        self.active = problem.active.to(self.batch.direct)
        self.unit = problem.scales.to(self.batch.direct)
        self.scale = _SCALE * float(self.weights.mean())
        self.tracker = tracker
        self.steps: list[DualStep] = []
        self.repair = repair
        self.best: tuple[tuple[bool, float], Tensor, Judgement, Multipliers] | None = None
        self.feasible: tuple[Tensor, Judgement] | None = None
        self.maximiser = maximiser(self.batch, self.prices(self.start(start)))

    def prices(self, x: _Vector) -> Prices:
        """Those of the problem that is asked for."""
        return Prices.from_problem(self.problem, self.scenario, self.multipliers(x))

    def start(self, multipliers: Multipliers | None = None) -> _Vector:
        """These multipliers, or no constraint priced and every worker's weight as given."""
        if multipliers is None:
            multipliers = Multipliers(torch.zeros_like(self.unit), self.weights)
        priced = multipliers.constraints.to(self.unit) * self.unit / self.scale * self.active
        if self.problem.utility.linear:
            return priced.flatten().cpu().numpy()
        relative = multipliers.objective_weight.to(self.unit) / self.weights
        return torch.cat((priced.flatten(), relative)).cpu().numpy()

    def bounds(self) -> list[tuple[float, float | None]]:
        """Multipliers are at least 0; those of absent constraints are exactly 0."""
        priced = [(0.0, None if on else 0.0) for on in self.active.flatten().tolist()]
        return priced + ([] if self.problem.utility.linear else [(1e-3, 1e3)] * len(self.weights))

    def multipliers(self, x: _Vector) -> Multipliers:
        vector = torch.tensor(x).to(self.batch.direct)
        priced = vector[: self.active.numel()].reshape(self.active.shape)
        weight = self.weights
        if not self.problem.utility.linear:
            weight = weight * vector[self.active.numel() :]
        return Multipliers(priced * self.scale / self.unit, weight)

    def __call__(self, x: _Vector) -> tuple[float, _Vector]:
        multipliers = self.multipliers(x)
        prices = Prices.from_problem(self.aim, self.scenario, multipliers)
        power = self.maximiser.maximise(prices)
        value = float(self.batch.value(power, prices).mean())
        value += lagrangian_constant(self.aim, multipliers)
        sinr = self.batch.sinr(power)
        surplus = self.aim.mean_surplus(sinr, power)
        gradient = (surplus / self.unit * self.scale * self.active).flatten()
        if not self.problem.utility.linear:
            achieved = self.problem.objective.value(sinr, power).mean(0)
            wanted = self.problem.utility.maximiser(multipliers.objective_weight)
            gradient = torch.cat((gradient, self.weights * (achieved - wanted)))
        self._remember(power, multipliers, value)
        return value * _MAGNIFICATION, gradient.cpu().numpy() * _MAGNIFICATION

    def aim_above(self, share: float) -> None:
        """From now on D is that of thresholds raised by ``share``; what is asked for stays."""
        self.aim = self.problem.with_margin(share)

    def solution(self) -> tuple[Tensor, Judgement]:
        """The best powers so far that meet the constraints; without repair the nearest to that.

        On a handful of channels no maximiser may come near, but silencing always gets there.
        """
        assert self.best is not None
        _, power, verdict, _ = self.best
        if not self.repair:
            return power, verdict
        if self.feasible is None:
            self._repair(power)
        assert self.feasible is not None
        return self.feasible

    def solved(self, value: float, tolerance: float) -> bool:
        """Whether maximisers that nearly meet the constraints are this close to ``value``."""
        assert self.best is not None
        (near, _), _, verdict, _ = self.best
        return (near and _close(value, verdict, tolerance)) or self.reached(value, tolerance)

    def reached(self, value: float, tolerance: float) -> bool:
        """Whether powers that meet the constraints are this close to ``value``."""
        return self.feasible is not None and _close(value, self.feasible[1], tolerance)

    def _remember(self, power: Tensor, multipliers: Multipliers, value: float) -> None:
        verdict = judge(power, self.csi, self.scenario, self.problem)
        rank = verdict.rank(PRIMAL_TOLERANCE)
        # The multipliers of a policy are those of the thresholds it knows.
        if self.best is None or (self.aim is self.problem and rank > self.best[0]):
            self.best = (rank, power, verdict, multipliers)
        if self.repair and verdict.violation <= _REPAIRABLE:
            self._repair(power)
        step = DualStep(value, verdict.objective, verdict.violation)
        self.steps.append(step)
        self.tracker.advance(len(self.steps), asdict(step), step)

    def _repair(self, power: Tensor) -> None:
        power = repaired(power, self.batch, self.problem)
        verdict = judge(power, self.csi, self.scenario, self.problem)
        if self.feasible is None or verdict.objective > self.feasible[1].objective:
            self.feasible = (power, verdict)


def _close(value: float, verdict: Judgement, tolerance: float) -> bool:
    return abs(value - verdict.objective) <= tolerance * max(1.0, abs(value))


def solve_dual(
    scenario: Scenario,
    csi: Tensor,
    problem: Problem | None = None,
    *,
    start: Multipliers | None = None,
    maximiser: Callable[[ChannelBatch, Prices], Maximiser] = MultiStart,
    repair: bool = True,
    most_evaluations: int = 100,
    observers: Sequence[Observer] = (),
) -> DualSolution:
    """Minimise the dual function on channels (N, L, L) and recover the primal solution.

    The dual function is that of ``problem``, or of the one that the scenario describes. A
    quasi-Newton method is restarted, each time after a wider search for local maxima, until a
    primal solution is within :data:`PRIMAL_GAP` of the dual value, or for ``most_evaluations``. It
    begins at the multipliers ``start``, if given. ``maximiser`` solves the channels at given
    prices; a learned one may stand in for the search.

    Where prices make a worker indifferent, no maximiser need meet the constraints, and those that
    nearly do are repaired by silencing a few rounds; without ``repair`` the search goes on until
    one nearly does by itself, which is what a policy needs.

    The ``observers`` are told of every :class:`DualStep`.
    """
    problem = problem or Problem.from_scenario(scenario)
    with track("dual problem", None, "evaluations", observers) as tracker:
        function = _DualFunction(scenario, problem, csi, start, maximiser, repair, tracker)
        return _solved(function, start, most_evaluations)


def _solved(
    function: _DualFunction, start: Multipliers | None, most_evaluations: int
) -> DualSolution:
    problem, repair = function.problem, function.repair
    x = function.start(start)
    while len(function.steps) < most_evaluations:
        evaluations = min(_RUN, most_evaluations - len(function.steps))
        x = _minimised(function, x, evaluations, lambda d: function.solved(d, _EARLY_GAP))
        # A wider search at the new prices may find better maxima; then D is not yet minimal.
        function.maximiser.restart(function.prices(x))
        value = function(x)[0] / _MAGNIFICATION
        if function.solved(value, PRIMAL_GAP):
            break
    if repair and problem.constrained and not function.reached(value, _EARLY_GAP):
        # To meet thresholds that are a little higher costs less than silence does.
        function.aim_above(_AIM)
        _minimised(function, x, _AIMED_RUN, lambda _: function.reached(value, _EARLY_GAP))
    assert function.best is not None
    power, verdict = function.solution()
    multipliers, primal_multipliers = function.multipliers(x), function.best[3]
    return DualSolution(
        multipliers,
        power,
        verdict,
        primal_multipliers,
        value,
        lagrangian_constant(problem, multipliers),
        function.steps,
    )


def _minimised(
    function: _DualFunction, x: _Vector, evaluations: int, enough: Callable[[float], bool]
) -> _Vector:
    """Where a run of the quasi-Newton method from ``x`` ends, or a value of D is ``enough``."""

    def stop(intermediate_result: OptimizeResult) -> None:
        if enough(intermediate_result.fun / _MAGNIFICATION):
            raise StopIteration

    result = minimize(
        function,
        x,
        jac=True,
        method="L-BFGS-B",
        bounds=function.bounds(),
        callback=stop,
        options={"maxcor": 20, "ftol": _PROGRESS, "gtol": 1e-5, "maxfun": evaluations},
    )
    found: _Vector = result.x
    return found
