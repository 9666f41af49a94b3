"""Judgement of a policy on a set of channels: performance, and a verdict on the constraints.

A verdict is *feasible*, *infeasible* or *inconclusive*. It is based on simultaneous confidence
intervals (95 %) for the relative shortfalls of all workers in all constraints.
:class:`SequentialTest` repeats the test on growing numbers of channels until the verdict is
decided.

The intervals assume independent channels. They are too short for correlated channels, such as those
of workers with fixed positions or slow fading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor

from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.link import LinkState, Schedule, success_rate, upload
from feduplink.problem import Constraint, Problem
from feduplink.scenario import Scenario
from feduplink.settings import MAX_VERDICT_CHANNELS
from feduplink.tables import TextTable

#: Relative shortfall up to which a constraint counts as satisfied.
TOLERANCE = 0.01
#: Probability with which all confidence intervals hold simultaneously.
CONFIDENCE = 0.95
#: γ/√n below which Hall's correction for the skewness γ is omitted.
MIN_SKEWNESS = 1e-6


class Verdict(StrEnum):
    """Whether a policy satisfies its constraints on the distribution of the channels."""

    #: Every constraint is satisfied to within 1 % of its limit, with 95 % confidence.
    FEASIBLE = "feasible"
    #: A constraint is violated by more than 1 % of its limit, with 95 % confidence.
    INFEASIBLE = "infeasible"
    #: The confidence intervals allow both.
    INCONCLUSIVE = "inconclusive"
    #: No worker ever transmits, so that expectations conditional on transmission do not exist.
    SILENT = "silent"


@dataclass(frozen=True)
class Shortfalls:
    """Relative shortfalls (c0 − E[c]) / |c0| of K constraints and L workers, (K, L) each.

    A shortfall is negative if the constraint is slack, and NaN for a worker that never transmits or
    has no limit.

    Attributes:
        estimate: sample estimate.
        low: lower end of the confidence interval; −∞ for a worker that transmits only once.
        high: upper end of the confidence interval; ∞ for a worker that transmits only once.
    """

    estimate: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def from_problem(cls, problem: Problem, state: LinkState) -> Shortfalls:
        """Estimate the shortfalls of a problem from the state of the uplink in N rounds."""
        power = state.power
        if not problem.constraints:
            return cls(*torch.zeros(3, 0, power.shape[-1], dtype=torch.float64))
        return cls.from_samples(
            problem.constraint_values_of(state),
            torch.stack([constraint.counted(power) for constraint in problem.constraints]),
            problem,
        )

    @classmethod
    def from_samples(cls, values: Tensor, counted: Tensor, problem: Problem) -> Shortfalls:
        """Estimate the shortfalls from constraint values and a mask of rounds, (K, N, L) each."""
        return cls.from_moments(SampleMoments.from_samples(values, counted), problem)

    @classmethod
    def from_moments(
        cls, moments: SampleMoments, problem: Problem, error: float = 1 - CONFIDENCE
    ) -> Shortfalls:
        """Estimate the shortfalls from moments of the constraint values.

        Each of M intervals has confidence 1 − error / M, so that all hold simultaneously with
        probability of at least 1 − error (Bonferroni).

        Args:
            moments: moments of the constraint values, (K, L).
            problem: thresholds and scales of the constraints.
            error: probability that any interval misses its mean.

        Returns:
            Estimates and intervals.
        """
        constrained = problem.active & (moments.count > 0)
        statements = max(1, int(constrained.sum()))
        mean, low, high = moments.interval(1 - error / statements)
        aim = problem.thresholds
        scale = torch.where(constrained, problem.scales, math.nan)
        return cls((aim - mean) / scale, (aim - high) / scale, (aim - low) / scale)

    @property
    def worst(self) -> tuple[float, float]:
        """Largest shortfall, and half the width of its interval; zeros without constraints."""
        estimate = self.estimate.nan_to_num(nan=-math.inf).flatten()
        if estimate.numel() == 0 or not bool(estimate.isfinite().any()):
            return 0.0, 0.0
        place = int(estimate.argmax())
        width = (self.high - self.low).flatten()[place]
        return float(estimate[place]), float(width / 2)

    @property
    def feasible(self) -> bool | None:
        """Whether all constraints hold; None if inconclusive.

        True if all intervals end at or below the tolerance of 1 %, False if one begins above it.
        """
        known = ~self.estimate.isnan()
        if bool((self.low[known] > TOLERANCE).any()):
            return False
        return True if bool((self.high[known] <= TOLERANCE).all()) else None


@dataclass(frozen=True)
class SampleMoments:
    """Moments of samples x_1, …, x_n, which can be merged with those of other samples.

    Attributes:
        count: number of samples n.
        mean: sample mean m; NaN if n = 0.
        square_sum: Σ (x − m)².
        cube_sum: Σ (x − m)³.
    """

    count: Tensor
    mean: Tensor
    square_sum: Tensor
    cube_sum: Tensor

    @classmethod
    def from_samples(cls, values: Tensor, included: Tensor) -> SampleMoments:
        """Compute the moments over the samples.

        Args:
            values: samples, (..., N, L).
            included: mask of the samples to use, (..., N, L) bool.

        Returns:
            Moments, (..., L) each.
        """
        count = included.sum(-2).to(values.dtype)
        mean = torch.where(included, values, 0.0).sum(-2) / count
        centred = torch.where(included, values - mean[..., None, :], 0.0)
        return cls(count, mean, centred.square().sum(-2), (centred**3).sum(-2))

    def merged(self, other: SampleMoments) -> SampleMoments:
        """Moments of both sets of samples together (Chan et al. 1983, Pébay 2008).

        With δ = m_b − m_a and n = n_a + n_b,

            m = m_a + δ n_b / n,
            Σ² = Σ²_a + Σ²_b + δ² n_a n_b / n,
            Σ³ = Σ³_a + Σ³_b + δ³ n_a n_b (n_a − n_b) / n² + 3 δ (n_a Σ²_b − n_b Σ²_a) / n.
        """
        a, b = self.count, other.count
        count = a + b
        total = count.clamp_min(1.0)
        # The mean of no samples is NaN; it must not enter the sum.
        first = torch.where(a > 0, self.mean, other.mean)
        step = torch.where(b > 0, other.mean, first) - first
        step = torch.where(count > 0, step, 0.0)
        return SampleMoments(
            count,
            first + step * b / total,
            self.square_sum + other.square_sum + step**2 * a * b / total,
            self.cube_sum
            + other.cube_sum
            + step**3 * a * b * (a - b) / total**2
            + 3 * step * (a * other.square_sum - b * self.square_sum) / total,
        )

    def interval(self, confidence: float) -> tuple[Tensor, Tensor, Tensor]:
        """Mean with its confidence interval, as :func:`mean_interval`."""
        # Imported here because the import takes 0.2 s and only a judgement needs it.
        from scipy.special import stdtrit

        variance = self.square_sum / (self.count - 1)
        standard_error = (variance / self.count).sqrt()
        skewness = self.cube_sum / self.count / variance**1.5
        c = torch.where(variance > 0, skewness, 0.0) / self.count.sqrt()
        degrees = (self.count - 1).clamp_min(1).numpy()
        t = torch.from_numpy(stdtrit(degrees, (1 + confidence) / 2)).to(self.mean)

        def inverse(x: Tensor) -> Tensor:
            """g⁻¹(x) of :func:`mean_interval`."""
            skewed = torch.where(c.abs() > MIN_SKEWNESS, c, 1.0)
            base = 1 + skewed * (x - skewed / 6)
            root = base.sign() * base.abs() ** (1 / 3)
            return torch.where(c.abs() > MIN_SKEWNESS, 3 / skewed * (root - 1), x)

        low = self.mean - standard_error * inverse(t)
        high = self.mean - standard_error * inverse(-t)
        single = self.count == 1
        return (
            self.mean,
            torch.where(single, -math.inf, low),
            torch.where(single, math.inf, high),
        )


def mean_interval(
    values: Tensor, included: Tensor, confidence: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Estimate means with confidence intervals corrected for skewness.

    Rates under strong interference are skewed: many are close to zero and a few are large, so that
    the upper end of Student's interval is too low. Hall's transformation (1992) corrects for the
    skewness γ of the n samples: the interval ends at m − s/√n · g⁻¹(±t), with Student's quantile t
    for n − 1 degrees of freedom and

        g⁻¹(x) = (3/c) ((1 + c (x − c/6))^(1/3) − 1),  c = γ/√n,

    which is x for γ = 0.

    Args:
        values: samples, (..., N, L).
        included: mask of the samples to use, (..., N, L) bool.
        confidence: probability that an interval contains the mean.

    Returns:
        Mean, lower end and upper end, (..., L) each: NaN without samples, infinite ends with one.
    """
    return SampleMoments.from_samples(values, included).interval(confidence)


def planned_sizes(first: int, largest: int = MAX_VERDICT_CHANNELS) -> tuple[int, ...]:
    """Sample sizes of a sequential test: ``first``, doubled repeatedly, and finally ``largest``.

    Args:
        first: smallest sample size.
        largest: largest sample size.

    Returns:
        Increasing sample sizes; ``first`` alone if it is not less than ``largest``.

    >>> planned_sizes(1000)
    (1000, 2000, 4000, 8000, 16000, 32000, 50000)
    >>> planned_sizes(1000, 1000)
    (1000,)
    """
    sizes = [first]
    while 2 * sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
    return (*sizes, largest) if first < largest else (first,)


class SequentialTest:
    """Group-sequential test of a policy's constraints at planned numbers of channels.

    Analysis k uses all n_k channels added so far. The error probability α = 0.05 is divided between
    the K planned sample sizes n_1 < … < n_K by the spending function α(t) = α t of Lan and DeMets
    (1983; power family of Kim and DeMets, 1987): the intervals of analysis k miss with probability
    of at most

        α_k = α (n_k − n_{k−1}) / n_K,  n_0 = 0,  Σ_k α_k = α,

    which is divided equally between the constrained workers and constraints
    (:meth:`Shortfalls.from_moments`). By the union bound, all intervals of all analyses hold
    simultaneously with probability of at least 0.95, regardless of when the test stops. With one
    planned size the test is that of :func:`judge`.

    Args:
        scenario: the cell and its radio.
        problem: the constraints; None: those of the scenario.
        sizes: planned numbers of channels, increasing.

    Attributes:
        channels: number of channels added so far.
        moments: moments of the constraint values, (K, L); None without channels or constraints.
        shortfalls: estimates and intervals of the last analysis.
    """

    def __init__(self, scenario: Scenario, problem: Problem | None, sizes: tuple[int, ...]) -> None:
        self.scenario = scenario
        self.problem = problem or Problem.from_scenario(scenario)
        self.sizes = sizes
        self.channels = 0
        self.moments: SampleMoments | None = None
        empty = torch.zeros(3, 0, scenario.workers, dtype=torch.float64)
        self.shortfalls = Shortfalls(*empty)

    @property
    def is_finished(self) -> bool:
        """Whether the verdict is decided or the last planned size is reached."""
        decided = self.channels >= self.sizes[0] and self.shortfalls.feasible is not None
        return decided or self.channels >= self.sizes[-1]

    @property
    def remaining(self) -> int:
        """Maximum number of further channels until the test ends."""
        return 0 if self.is_finished else self.sizes[-1] - self.channels

    def add(self, csi: Tensor, power: Tensor | Schedule) -> None:
        """Add channels; analyse if a planned size is reached.

        Args:
            csi: true channels H, (N, L, L), in 1/W.
            power: transmit powers, (N, L), W, or the schedules of N rounds.
        """
        if not self.problem.constraints:
            self.channels += len(csi)
            return
        state = _true_state(self.scenario, csi, power)
        counted = [constraint.counted(state.power) for constraint in self.problem.constraints]
        self.add_samples(self.problem.constraint_values_of(state), torch.stack(counted))

    def add_samples(self, values: Tensor, counted: Tensor) -> None:
        """Add constraint values; analyse if a planned size is reached.

        Args:
            values: constraint values on N channels, (K, N, L).
            counted: mask of the values that enter the mean, (K, N, L) bool.
        """
        self.channels += values.shape[-2]
        added = SampleMoments.from_samples(values, counted)
        self.moments = added if self.moments is None else self.moments.merged(added)
        if self.channels in self.sizes:
            self.shortfalls = Shortfalls.from_moments(self.moments, self.problem, self._error())

    def _error(self) -> float:
        """Error probability α_k of the analysis at the current size."""
        index = self.sizes.index(self.channels)
        before = self.sizes[index - 1] if index else 0
        return (1 - CONFIDENCE) * ((self.channels - before) / self.sizes[-1])

    def conclude(self, judgement: Judgement) -> Judgement:
        """Replace the verdict of a judgement by that of this test.

        Args:
            judgement: judgement on the test channels, the first channels of this test.

        Returns:
            The judgement with the verdict, the shortfalls and the constraint means of all channels
            added. A silent policy keeps its verdict.
        """
        if self.moments is None or judgement.verdict is Verdict.SILENT:
            return judgement
        shortfall, shortfall_error = self.shortfalls.worst
        return replace(
            judgement,
            constraints={
                constraint.name: ConstraintValue(constraint, constraint.sign * mean)
                for constraint, mean in zip(
                    self.problem.constraints, self.moments.mean, strict=True
                )
            },
            feasible=self.shortfalls.feasible,
            shortfall=shortfall,
            shortfall_error=shortfall_error,
            verdict_channels=self.channels,
            test_shortfall=judgement.shortfall,
        )


@dataclass(frozen=True)
class ConstraintValue:
    """Mean of a constrained measure on a set of channels.

    Attributes:
        constraint: the constraint, with its limits.
        expected: E[measure_i], (L,), in the unit of the measure; NaN for a worker that never
            transmits.
    """

    constraint: Constraint
    expected: Tensor

    @property
    def worst(self) -> float:
        """Smallest mean of all workers, or largest for an upper limit; NaN if all are silent."""
        known = self.expected[~self.expected.isnan()]
        if len(known) == 0:
            return math.nan
        return float(known.max() if self.constraint.at_most else known.min())

    @property
    def key(self) -> str:
        """Name of ``worst`` in ``metrics.json``, such as ``rate_min`` or ``power_max``."""
        return f"{self.constraint.name}_{'max' if self.constraint.at_most else 'min'}"


@dataclass(frozen=True, repr=False)
class Judgement:
    """Performance of a policy on a set of channels, and its verdict on the constraints.

    Attributes:
        objective: utility g(E[f]); higher is better.
        weighted_per: weighted packet error rate Σ ω PER / Σ ω over the worker-rounds that transmit;
            NaN if none does. Compare it together with ``participation``: a policy that silences
            every poor link has a weighted PER close to zero.
        participation: share of worker-rounds with p > 0.
        constraints: mean of every constrained measure, by name.
        feasible: whether all constraints hold to within 1 % of their limits for the distribution of
            the channels; None if inconclusive, False if no worker ever transmits.
        shortfall: largest relative shortfall of a constraint; negative if all are slack, 0 without
            constraints.
        shortfall_error: half the width of the confidence interval of ``shortfall``.
        is_simultaneous: whether every worker has one power per round and all start together, as the
            optimum and its bound assume; False for schedules.
        verdict_channels: number of channels from which ``constraints``, ``feasible``, ``shortfall``
            and its interval are estimated. Objective, weighted PER and participation are estimated
            from the test channels, which are the first of them.
        test_shortfall: ``shortfall`` on the test channels; None without further channels.

    >>> import feduplink as fu
    >>> scenario = fu.Scenario(workers=2)
    >>> csi = fu.draw_csi(scenario, 100, torch.Generator().manual_seed(0))
    >>> judgement = fu.judge(scenario, csi, torch.full((100, 2), 0.01))
    >>> judgement.participation, judgement.verdict_channels
    (1.0, 100)
    """

    objective: float
    weighted_per: float
    participation: float
    constraints: dict[str, ConstraintValue]
    feasible: bool | None
    shortfall: float
    shortfall_error: float
    is_simultaneous: bool = True
    verdict_channels: int = 0
    test_shortfall: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Verdict on the distribution that the channels were drawn from."""
        if self.participation == 0:
            return Verdict.SILENT
        words = {True: Verdict.FEASIBLE, False: Verdict.INFEASIBLE, None: Verdict.INCONCLUSIVE}
        return words[self.feasible]

    @property
    def margin(self) -> float:
        """Smallest relative margin (E[c] − c0) / |c0| of a constraint; negative if violated."""
        return -self.shortfall

    @property
    def margin_ci(self) -> float:
        """Half the width of the confidence interval of :attr:`margin`."""
        return self.shortfall_error

    @property
    def violation(self) -> float:
        """Largest relative violation of a constraint on the test channels; 0 if all hold."""
        found = self.shortfall if self.test_shortfall is None else self.test_shortfall
        return max(0.0, found)

    def __repr__(self) -> str:
        """Objective, verdict and participation on one line."""
        return f"Judgement({', '.join(f'{k} {v}' for k, v in self._entries().items())})"

    def _repr_html_(self) -> str:
        return TextTable.of_entries("Judgement", self._entries()).html()

    def _entries(self) -> dict[str, str]:
        margin = f"{100 * self.margin:.1f} % ± {100 * self.margin_ci:.1f} %"
        return {
            "objective": f"{self.objective:.4f}",
            "constraints": f"{self.verdict} (margin {margin})",
            "participation": f"{100 * self.participation:.1f} %",
            "weighted PER": f"{100 * self.weighted_per:.2f} %",
        }

    def rank(self, tolerance: float = 0.0) -> tuple[bool, float]:
        """Sort key that ranks feasible policies by objective, above the others by violation.

        Args:
            tolerance: relative violation on the test channels up to which a policy is feasible.

        Returns:
            The key of :func:`feasible_first`; larger is better.
        """
        return feasible_first(self.violation, self.objective, tolerance)

    def as_metrics(self) -> dict[str, float | bool | None]:
        """Entry of the policy in ``metrics.json``.

        Returns:
            Values by name, in SI units and nats; None for NaN, infinity and an inconclusive
            verdict.
        """
        values: dict[str, float | bool | None] = {
            "objective": self.objective,
            "weighted_per": self.weighted_per,
            "participation": self.participation,
            **{value.key: value.worst for value in self.constraints.values()},
            "feasible": self.feasible,
            "shortfall": self.shortfall,
            "shortfall_error": self.shortfall_error,
            "verdict_channels": self.verdict_channels,
        }
        return {name: finite_or_none(value) for name, value in values.items()}


def finite_or_none(value: float | None) -> float | None:
    """Return the number, or None for NaN and infinity, which JSON cannot represent.

    >>> finite_or_none(0.5), finite_or_none(float("inf"))
    (0.5, None)
    """
    return value if value is not None and math.isfinite(value) else None


def feasible_first(
    violation: float, objective: float, tolerance: float = 0.0
) -> tuple[bool, float]:
    """Sort key that ranks feasible policies by objective, above the others by violation.

    Args:
        violation: largest relative violation of a constraint.
        objective: utility g(E[f]).
        tolerance: violation up to which a policy is feasible.

    Returns:
        A key; larger is better.

    >>> sorted([(0.3, 5.0), (0.0, 1.0), (0.1, 2.0)], key=lambda pair: feasible_first(*pair))
    [(0.3, 5.0), (0.1, 2.0), (0.0, 1.0)]
    """
    feasible = violation <= tolerance
    return (feasible, objective if feasible else -violation)


def judge(
    scenario: Scenario,
    csi: Tensor,
    power: Tensor | Schedule,
    *,
    problem: Problem | None = None,
) -> Judgement:
    """Judge transmit powers or schedules on the true channels, in float64 on the CPU.

    Under a schedule, the SINR of a worker is its lowest of all phases and its power is the mean
    over its airtime, for an upload of the model with 39,760 weights.

    Args:
        scenario: the cell and its radio.
        csi: true channels H, (N, L, L), in 1/W.
        power: transmit powers, (N, L), W, or the schedules of N rounds.
        problem: objective and constraints; None: those of the scenario.

    Returns:
        Objective, weighted PER, participation, constraint means in the units of their measures, and
        the verdict.

    Raises:
        InputError: if shapes do not match, or powers are negative or not finite.

    >>> import feduplink as fu
    >>> scenario = fu.Scenario(workers=2, rate_min=0.0, ee_min=0.0)
    >>> csi = torch.tensor([[[500.0, 1.0], [1.0, 50.0]]])
    >>> fu.judge(scenario, csi, torch.tensor([[0.01, 0.0]])).participation
    0.5
    """
    check_csi(csi, scenario.workers)
    given = power.power if isinstance(power, Schedule) else power[..., None, :]
    if csi.ndim != 3 or len(csi) == 0 or given[..., 0, :].shape != csi.shape[:-1]:
        raise InputError(
            f"power: shape {tuple(given[..., 0, :].shape)}; accepted with csi {tuple(csi.shape)}: "
            "(N, L) and (N, L, L) with N >= 1."
        )
    if not bool((given.isfinite() & (given >= 0)).all()):
        raise InputError(
            "power: NaN, infinity or a negative power was given; accepted: finite powers of 0 W "
            "and above."
        )
    problem = problem or Problem.from_scenario(scenario)
    is_simultaneous = isinstance(power, Tensor)
    state = _true_state(scenario, csi, power)
    power = state.power
    on_air = power > 0

    weights = scenario.worker_weights * on_air
    per = success_rate(problem.objective, scenario).error(state.sinr, power)
    shortfalls = Shortfalls.from_problem(problem, state)
    shortfall, shortfall_error = shortfalls.worst
    return Judgement(
        objective=float(problem.utility_of(state)),
        weighted_per=float((weights * per).sum() / weights.sum()),
        participation=float(on_air.double().mean()),
        constraints={
            constraint.name: ConstraintValue(
                constraint, constraint.mean(constraint.measure.of(state), power)
            )
            for constraint in problem.constraints
        },
        feasible=shortfalls.feasible if bool(on_air.any()) else False,
        shortfall=shortfall,
        shortfall_error=shortfall_error,
        is_simultaneous=is_simultaneous,
        verdict_channels=len(csi),
    )


def _true_state(scenario: Scenario, csi: Tensor, power: Tensor | Schedule) -> LinkState:
    """State of the uplink on the true channels, in float64 on the CPU."""
    powers = power if isinstance(power, Schedule) else power.detach()
    true = csi.detach().to("cpu", torch.float64)
    return upload(true, powers.to("cpu").to(torch.float64), scenario)
