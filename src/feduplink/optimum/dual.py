"""The dual problem: multipliers that make the channel-by-channel maximiser meet the constraints.

The dual function (``dual_function``) is minimised, and feasible powers are recovered from the
maximisers (``primal_recovery``): those of one evaluation, with a few workers silenced in a few
rounds, or, where prices make workers indifferent, a combination of local maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from torch import Tensor

from feduplink.judgement import Judgement, judge
from feduplink.lagrangian import Multipliers, MultiStart
from feduplink.optimum.calibration import PRIMAL_TOLERANCE
from feduplink.optimum.dual_function import DualFunction, Evaluation, Vector, lagrangian_constant
from feduplink.optimum.primal_recovery import MET, recovered, repaired
from feduplink.problem import Problem
from feduplink.progress import Callback, Progress, track
from feduplink.scenario import Scenario
from feduplink.tensor_record import TensorRecord

#: Whose powers a solution has if no policy was better.
SEARCH = "search"

#: Primal and dual value that differ by no more than this are taken as equal.
PRIMAL_GAP = 3e-4
#: A run of the quasi-Newton method ends early when they differ by no more than this.
_EARLY_GAP = 1e-4
#: Where they differ by more than this at its end, powers are recovered from the local maxima.
_RECOVERED_GAP = 2e-5
#: Maximisers that miss a constraint by more than this share of its threshold are not repaired
#: while there is hope for better ones.
_REPAIRABLE = 0.1
#: Most evaluations in one run of the quasi-Newton method.
_RUN = 40


@dataclass(frozen=True)
class DualStep:
    """One evaluation of the dual function: its value, and the figures of its maximisers."""

    dual: float
    primal: float
    violation: float


@dataclass(frozen=True, repr=False)
class DualSolution(TensorRecord):
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


class _Search:
    """Evaluates the dual function and remembers the best powers on the way."""

    def __init__(self, function: DualFunction, x: Vector, progress: Progress) -> None:
        self.function = function
        self.maximiser = MultiStart(function.batch, function.prices(x))
        self.progress = progress
        self.steps: list[DualStep] = []
        self.best: tuple[tuple[bool, float], Tensor, Multipliers] | None = None
        self.feasible: tuple[Tensor, Judgement] | None = None

    def evaluate(self, x: Vector) -> Evaluation:
        """D at x; what its maximisers are good for is remembered."""
        at = self.function.at(x, self.maximiser)
        verdict = self._judge(at.power)
        rank = verdict.rank(PRIMAL_TOLERANCE)
        if self.best is None or rank > self.best[0]:
            self.best = (rank, at.power, at.multipliers)
        if verdict.violation <= _REPAIRABLE:
            self._offer(repaired(at.power, self.function.batch, self.function.problem))
        step = DualStep(at.value, verdict.objective, verdict.violation)
        self.steps.append(step)
        self.progress.advance(len(self.steps), asdict(step), step)
        return at

    def reached(self, value: float, tolerance: float) -> bool:
        """Whether powers that meet the constraints are this close to ``value``."""
        if self.feasible is None:
            return False
        return abs(value - self.feasible[1].objective) <= tolerance * max(1.0, abs(value))

    def recover(self, x: Vector) -> None:
        """Look for powers that meet the constraints among the local maxima near x."""
        maxima = [*self.maximiser.maxima, *([self.feasible[0]] if self.feasible else [])]
        power, _ = recovered(self.function, x, maxima)
        self._offer(power)

    def solution(self) -> tuple[Tensor, Judgement]:
        """The best powers so far that meet the constraints.

        On a handful of channels no maximiser may come near, but silencing always gets there.
        """
        assert self.best is not None
        if self.feasible is None:
            self._offer(repaired(self.best[1], self.function.batch, self.function.problem))
        assert self.feasible is not None
        return self.feasible

    def _offer(self, power: Tensor) -> None:
        verdict = self._judge(power)
        if self.feasible is None or verdict.objective > self.feasible[1].objective:
            self.feasible = (power, verdict)

    def _judge(self, power: Tensor) -> Judgement:
        function = self.function
        return judge(power, function.csi, function.scenario, function.problem)


def solve_dual(
    scenario: Scenario,
    csi: Tensor,
    problem: Problem | None = None,
    *,
    start: Multipliers | None = None,
    most_evaluations: int = 100,
    callbacks: Sequence[Callback] = (),
) -> DualSolution:
    """Minimise the dual function on channels (N, L, L) and recover the primal solution.

    The dual function is that of ``problem``, or of the one that the scenario describes. A
    quasi-Newton method is restarted, each time after a wider search for local maxima, until a
    primal solution is within :data:`PRIMAL_GAP` of the dual value, or for ``most_evaluations``. It
    begins at the multipliers ``start``, if given.

    The ``callbacks`` are called after every :class:`DualStep`.
    """
    problem = problem or Problem.from_scenario(scenario)
    function = DualFunction(scenario, problem, csi)
    x = function.start(start)
    with track("dual problem", None, "evaluations", callbacks) as progress:
        search = _Search(function, x, progress)
        while len(search.steps) < most_evaluations:
            evaluations = min(_RUN, most_evaluations - len(search.steps))
            x = function.minimised(
                x, search.evaluate, evaluations, lambda d: search.reached(d, _EARLY_GAP)
            )
            # A wider search at the new prices may find better maxima; then D is not yet minimal.
            search.maximiser.restart(function.prices(x))
            value = search.evaluate(x).value
            if problem.constrained and not search.reached(value, _RECOVERED_GAP):
                search.recover(x)
            if search.reached(value, PRIMAL_GAP):
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
