"""Judgement of a policy on a set of channels: performance, and a verdict on the constraints.

N channels estimate a worker's mean E[c | p > 0] with a relative error of 1 to 2 % in the default
scenario with 1000 channels, and of 5 to 8 % under strong interference. The verdict is therefore
*feasible*, *infeasible* or *inconclusive*. It is based on simultaneous confidence intervals (95 %)
for the shortfalls of all workers in all constraints.

The intervals assume independent channels. Where channels are correlated (fixed positions, slow
fading) the intervals are too short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.link import LinkState, Schedule, success_rate, upload
from feduplink.problem import Constraint, Problem
from feduplink.scenario import Scenario
from feduplink.tables import TextTable

#: A constraint counts as satisfied if its relative shortfall is at most this.
TOLERANCE = 0.01
#: Probability with which all confidence intervals hold simultaneously.
CONFIDENCE = 0.95
#: Skewness over √n below which an interval is symmetric to the last digits.
MIN_SKEWNESS = 1e-6


class Verdict(StrEnum):
    """Whether a policy satisfies its constraints on the distribution of the channels."""

    #: Every constraint is satisfied to within 1 % of its limit, with 95 % confidence.
    FEASIBLE = "feasible"
    #: A constraint is violated by more than 1 % of its limit, with 95 % confidence.
    INFEASIBLE = "infeasible"
    #: The confidence intervals allow both.
    INCONCLUSIVE = "inconclusive"
    #: No worker ever transmits; the constraints hold because they are on transmitting workers.
    SILENT = "silent"


@dataclass(frozen=True)
class Shortfalls:
    """Relative shortfalls (c0 − E[c]) / |c0| of K constraints and L workers, (K, L) each.

    A shortfall is negative where the constraint is slack. It is NaN for a worker that never
    transmits or has no limit.

    Attributes:
        estimate: on the given channels.
        low: lower end of the confidence interval.
        high: upper end; both ends are infinite for a worker that transmits only once.
    """

    estimate: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def from_problem(cls, problem: Problem, state: LinkState) -> Shortfalls:
        """Estimate the shortfalls of a problem from N rounds on the link."""
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
        """Estimate the shortfalls from constraint values and a mask of rounds, (K, N, L) each.

        Each of the M intervals is a :func:`mean_interval` of confidence 1 − 0.05 / M, so that all
        hold simultaneously with probability 0.95 (Bonferroni).
        """
        constrained = problem.active & counted.any(-2)
        statements = max(1, int(constrained.sum()))
        mean, low, high = mean_interval(values, counted, 1 - (1 - CONFIDENCE) / statements)
        aim = problem.thresholds
        scale = torch.where(constrained, problem.scales, math.nan)
        return cls((aim - mean) / scale, (aim - high) / scale, (aim - low) / scale)

    @property
    def worst(self) -> tuple[float, float]:
        """Largest shortfall and half the width of its interval; zeros without constraints."""
        estimate = self.estimate.nan_to_num(nan=-math.inf).flatten()
        if estimate.numel() == 0 or not bool(estimate.isfinite().any()):
            return 0.0, 0.0
        place = int(estimate.argmax())
        width = (self.high - self.low).flatten()[place]
        return float(estimate[place]), float(width / 2)

    @property
    def feasible(self) -> bool | None:
        """True: all constraints hold; False: one is violated; None: inconclusive.

        Feasible if all intervals end at or below the tolerance of 1 %, infeasible if one begins
        above it.
        """
        known = ~self.estimate.isnan()
        if bool((self.low[known] > TOLERANCE).any()):
            return False
        return True if bool((self.high[known] <= TOLERANCE).all()) else None


def mean_interval(
    values: Tensor, included: Tensor, confidence: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Estimate means over samples, with confidence intervals that allow for skewed samples.

    Rates under strong interference are skewed, with many values near zero and a few large ones, so
    that Student's interval is too short above. Hall's transformation (1992) corrects for the
    skewness γ of the n samples: the interval ends at m − s/√n · g⁻¹(±t), with Student's quantile t
    for n − 1 degrees of freedom and

        g⁻¹(x) = (3/c) ((1 + c (x − c/6))^(1/3) − 1),  c = γ/√n,

    which is x for γ = 0.

    Args:
        values: samples, (..., N, L).
        included: which samples count, (..., N, L) bool.
        confidence: probability that an interval contains the mean.

    Returns:
        Mean, lower and upper end, (..., L) each: NaN without a sample, infinite ends with one.
    """
    # Imported here because it takes 0.2 s and only a judgement needs it.
    from scipy.special import stdtrit

    count = included.sum(-2).to(values.dtype)
    mean = torch.where(included, values, 0.0).sum(-2) / count
    centred = torch.where(included, values - mean[..., None, :], 0.0)
    variance = centred.square().sum(-2) / (count - 1)
    standard_error = (variance / count).sqrt()
    skewness = (centred**3).sum(-2) / count / variance**1.5
    c = torch.where(variance > 0, skewness, 0.0) / count.sqrt()
    degrees = (count - 1).clamp_min(1).numpy()
    t = torch.from_numpy(stdtrit(degrees, (1 + confidence) / 2)).to(values)

    def inverse(x: Tensor) -> Tensor:
        skewed = torch.where(c.abs() > MIN_SKEWNESS, c, 1.0)
        base = 1 + skewed * (x - skewed / 6)
        root = base.sign() * base.abs() ** (1 / 3)
        return torch.where(c.abs() > MIN_SKEWNESS, 3 / skewed * (root - 1), x)

    low, high = mean - standard_error * inverse(t), mean - standard_error * inverse(-t)
    single = count == 1
    return (
        mean,
        torch.where(single, -math.inf, low),
        torch.where(single, math.inf, high),
    )


@dataclass(frozen=True)
class ConstraintValue:
    """The mean of a constrained measure on a set of channels.

    Attributes:
        constraint: the constraint, with its limit.
        expected: E[measure_i] of every worker, (L,); NaN for a worker that never transmits.

    """

    constraint: Constraint
    expected: Tensor

    @property
    def worst(self) -> float:
        """The smallest mean of all workers, or the largest for an upper limit.

        NaN if no worker transmits.
        """
        known = self.expected[~self.expected.isnan()]
        if len(known) == 0:
            return math.nan
        return float(known.max() if self.constraint.at_most else known.min())

    @property
    def key(self) -> str:
        """Name of ``worst`` in ``metrics.json``, as ``rate_min``, or ``power_max``."""
        return f"{self.constraint.name}_{'max' if self.constraint.at_most else 'min'}"


@dataclass(frozen=True, repr=False)
class Judgement:
    """Performance of a policy on a set of channels, and whether it satisfies the constraints.

    Attributes:
        objective: g(E[f]); higher is better.
        weighted_per: Σ ω PER / Σ ω over the worker-rounds that transmit; NaN if none does. It is
            meaningless alone: a policy that silences every poor link scores near zero.
        participation: share of worker-rounds with p > 0.
        constraints: mean of every constrained measure, by its name.
        feasible: whether all constraints hold to within 1 % of their limits on the distribution
            of the channels; None if the number of channels does not allow a conclusion.
        shortfall: largest relative shortfall of a constraint on these channels; negative if all
            are slack, 0 without constraints.
        shortfall_error: half the width of its confidence interval.
        is_simultaneous: whether each worker has one power per round and all start together. The
            optimum and its bound are of such policies, and say nothing about schedules.

    """

    objective: float
    weighted_per: float
    participation: float
    constraints: dict[str, ConstraintValue]
    feasible: bool | None
    shortfall: float
    shortfall_error: float
    is_simultaneous: bool = True

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
        """Half the width of the confidence interval of ``margin``."""
        return self.shortfall_error

    @property
    def violation(self) -> float:
        """Largest relative violation of a constraint on these very channels; 0 if all hold."""
        return max(0.0, self.shortfall)

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
        """Sort key: policies that violate no constraint by more than ``tolerance`` rank higher.

        These are ordered by their objective, the others by their violation.
        """
        return feasible_first(self.violation, self.objective, tolerance)

    def as_metrics(self) -> dict[str, float | bool | None]:
        """The entry of ``metrics.json``; NaN, infinity and inconclusive verdicts are None."""
        values: dict[str, float | bool | None] = {
            "objective": self.objective,
            "weighted_per": self.weighted_per,
            "participation": self.participation,
            **{value.key: value.worst for value in self.constraints.values()},
            "feasible": self.feasible,
            "shortfall": self.shortfall,
            "shortfall_error": self.shortfall_error,
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
    """Sort key: violations of at most ``tolerance`` by objective, above the others by violation.

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

    Under a schedule the SINR of a worker is the lowest of its phases, and its power the mean while
    it transmits the model of 39,760 weights.

    Args:
        scenario: the cell and its radio.
        csi: H, (N, L, L).
        power: transmit powers, (N, L) W, or the phases of N rounds.
        problem: objective and constraints; None for those of the scenario.

    Raises:
        InputError: if shapes do not fit, or powers are negative or not finite.
    """
    check_csi(csi, scenario.workers)
    given = power.power if isinstance(power, Schedule) else power[..., None, :]
    if csi.ndim != 3 or len(csi) == 0 or given[..., 0, :].shape != csi.shape[:-1]:
        raise InputError(
            f"power: shape {tuple(given[..., 0, :].shape)}; accepted with csi {tuple(csi.shape)}: "
            "(N, L) and (N, L, L) with N >= 1."
        )
    if not bool((given.isfinite() & (given >= 0)).all()):
        raise InputError("power: holds NaN, infinity or a negative power; accepted: 0 W and above.")
    problem = problem or Problem.from_scenario(scenario)
    powers = power if isinstance(power, Schedule) else power.detach()
    true = csi.detach().to("cpu", torch.float64)
    state = upload(true, powers.to("cpu").to(torch.float64), scenario)
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
        feasible=shortfalls.feasible,
        shortfall=shortfall,
        shortfall_error=shortfall_error,
        is_simultaneous=isinstance(powers, Tensor),
    )
