"""Solution of the dual problem, and of the primal problem by recovery of feasible powers.

The dual function (:mod:`feduplink.optimum.dual_function`) is minimised over the multipliers.
Feasible powers are recovered from its maximisers (:mod:`feduplink.optimum.primal_recovery`): those
of one evaluation with a few workers silenced in a few rounds or, if workers are indifferent at
these prices, a combination of local maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from torch import Tensor

from feduplink.judgement import Judgement, judge
from feduplink.lagrangian import Multipliers, MultiStart
from feduplink.optimum.calibration import PRIMAL_TOLERANCE
from feduplink.optimum.dual_function import DualFunction, Evaluation, Vector, lagrangian_constant
from feduplink.optimum.primal_recovery import MAX_VIOLATION, recover_primal, repair_by_silence
from feduplink.problem import Problem
from feduplink.progress import Callback, Progress, track
from feduplink.scenario import Scenario
from feduplink.tensor_record import TensorRecord

#: Value of ``found_by`` if the search found the powers.
SEARCH = "search"

#: Relative gap between dual and primal value at which the solution is accepted.
PRIMAL_GAP = 3e-4
#: Relative gap at which a run of the quasi-Newton method stops early.
_EARLY_GAP = 1e-4
#: Relative gap above which powers are recovered from the local maxima after a run.
_RECOVERY_GAP = 2e-5
#: Largest relative violation of maximisers that are repaired during the search.
_MAX_REPAIRED_VIOLATION = 0.1
#: Maximum number of evaluations in one run of the quasi-Newton method.
_MAX_RUN_EVALUATIONS = 40


@dataclass(frozen=True)
class DualStep:
    """One evaluation of the dual function.

    Attributes:
        dual: value of the dual function.
        primal: objective of its maximisers.
        violation: their largest relative violation of a constraint.
    """

    dual: float
    primal: float
    violation: float


@dataclass(frozen=True, repr=False)
class DualSolution(TensorRecord):
    """Multipliers and feasible powers on a set of channels.

    Attributes:
        multipliers: minimiser of the dual function.
        power: the best feasible powers found, (N, L), W.
        judgement: judgement of these powers; their violation is at most :data:`MAX_VIOLATION`.
        primal_multipliers: multipliers whose maximisers were the best before any repair.
        dual_value: D at ``multipliers``, with the inner maximum as found (not yet certified).
        constant: D minus the mean of the largest Lagrangians
            (:func:`.dual_function.lagrangian_constant`); 0 for the default problem.
        steps: all evaluations.
        found_by: source of the powers, :data:`SEARCH` or the name of a policy.
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
        """Primal and dual value on one line."""
        channels, workers = self.power.shape
        return (
            f"DualSolution(objective {self.judgement.objective:.4f}, dual value "
            f"{self.dual_value:.4f}, {len(self.steps)} evaluations, {channels} channels of "
            f"{workers} workers, found by {self.found_by})"
        )

    def improved_by(self, name: str, power: Tensor, judgement: Judgement) -> DualSolution:
        """Return the solution with other powers if they are feasible and better.

        Args:
            name: source of the powers.
            power: (N, L), W.
            judgement: judgement of these powers on the channels of the solution.
        """
        if (
            judgement.violation > MAX_VIOLATION
            or not judgement.objective > self.judgement.objective
        ):
            return self
        return replace(self, power=power, judgement=judgement, found_by=name)


class _Search:
    """Evaluations of the dual function, and the best powers found."""

    def __init__(self, function: DualFunction, x: Vector, progress: Progress) -> None:
        self.function = function
        self.maximiser = MultiStart(function.batch, function.prices(x))
        self.progress = progress
        self.steps: list[DualStep] = []
        self.best: tuple[tuple[bool, float], Tensor, Multipliers] | None = None
        self.feasible: tuple[Tensor, Judgement] | None = None

    def evaluate(self, x: Vector) -> Evaluation:
        """Evaluate D at x, and repair its maximisers if they are nearly feasible."""
        at = self.function.at(x, self.maximiser)
        verdict = self._judge(at.power)
        rank = verdict.rank(PRIMAL_TOLERANCE)
        if self.best is None or rank > self.best[0]:
            self.best = (rank, at.power, at.multipliers)
        if verdict.violation <= _MAX_REPAIRED_VIOLATION:
            self._offer(repair_by_silence(at.power, self.function.batch, self.function.problem))
        step = DualStep(at.value, verdict.objective, verdict.violation)
        self.steps.append(step)
        self.progress.advance(len(self.steps), asdict(step), step)
        return at

    def is_within(self, value: float, tolerance: float) -> bool:
        """Whether feasible powers are within a relative ``tolerance`` of a dual value."""
        if self.feasible is None:
            return False
        return abs(value - self.feasible[1].objective) <= tolerance * max(1.0, abs(value))

    def recover(self, x: Vector) -> None:
        """Recover feasible powers from the local maxima near x."""
        maxima = [*self.maximiser.maxima, *([self.feasible[0]] if self.feasible else [])]
        power, _ = recover_primal(self.function, x, maxima)
        self._offer(power)

    def solution(self) -> tuple[Tensor, Judgement]:
        """The best feasible powers so far.

        On very few channels no maximiser may be nearly feasible; repair by silence always succeeds.
        """
        assert self.best is not None
        if self.feasible is None:
            self._offer(repair_by_silence(self.best[1], self.function.batch, self.function.problem))
        assert self.feasible is not None
        return self.feasible

    def _offer(self, power: Tensor) -> None:
        verdict = self._judge(power)
        if self.feasible is None or verdict.objective > self.feasible[1].objective:
            self.feasible = (power, verdict)

    def _judge(self, power: Tensor) -> Judgement:
        function = self.function
        return judge(function.scenario, function.csi, power, problem=function.problem)


def solve_dual(
    scenario: Scenario,
    csi: Tensor,
    *,
    problem: Problem | None = None,
    start: Multipliers | None = None,
    max_evaluations: int = 100,
    callbacks: Sequence[Callback] = (),
) -> DualSolution:
    """Minimise the dual function and recover feasible powers.

    A quasi-Newton method is restarted, each time after a wider search for local maxima of the
    Lagrangian, until feasible powers are within :data:`PRIMAL_GAP` of the dual value.

    Args:
        scenario: the cell and its radio.
        csi: channels, (N, L, L), linear, relative to the noise power.
        problem: objective and constraints; None for those of the scenario.
        start: initial multipliers; None for zero.
        max_evaluations: maximum number of evaluations of the dual function.
        callbacks: called with every :class:`DualStep`.

    Returns:
        Multipliers, feasible powers and the dual value.
    """
    problem = problem or Problem.from_scenario(scenario)
    function = DualFunction(scenario, problem, csi)
    x = function.start(start)
    with track("dual problem", None, "evaluations", callbacks) as progress:
        search = _Search(function, x, progress)
        while len(search.steps) < max_evaluations:
            evaluations = min(_MAX_RUN_EVALUATIONS, max_evaluations - len(search.steps))
            x = function.minimised(
                x, search.evaluate, evaluations, lambda d: search.is_within(d, _EARLY_GAP)
            )
            # A wider search at the new prices may find larger maxima, which increases D.
            search.maximiser.restart(function.prices(x))
            value = search.evaluate(x).value
            if problem.constrained and not search.is_within(value, _RECOVERY_GAP):
                search.recover(x)
            if search.is_within(value, PRIMAL_GAP):
                break
    assert search.best is not None
    power, verdict = search.solution()
    multipliers = function.multipliers(x)
    return DualSolution(
        multipliers,
        power,
        verdict,
        search.best[2],
        value,
        lagrangian_constant(problem, multipliers),
        search.steps,
    )
