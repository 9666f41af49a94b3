"""How a policy is judged on a set of channels: values, and verdicts from confidence intervals.

N channels tell a worker's mean E[c | p > 0] only up to an error: 1 to 2 % at the default setting
and 1000 channels, 5 to 8 % where interference is strong. So a verdict has three values: *met*,
*missed*, and *cannot be told* on so many channels. It rests on intervals for the shortfalls of
all workers and constraints that hold together with 95 % confidence.

The channels count as independent draws. Where they are correlated (workers that stay in place,
slow fading) they say less than their number, and the intervals are too short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.problem import Constraint, Problem, success_rate
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import finite_or_none
from feduplink.tables import TextTable

#: A constraint missed by no more than this share of its threshold counts as met.
TOLERANCE = 0.01
#: With which all intervals hold together.
CONFIDENCE = 0.95
#: Whether constraints are met, in words.
VERDICTS = {True: "met", False: "missed", None: "open"}
#: Below this skewness over √n an interval is symmetric to the last digits.
_STRAIGHT = 1e-6


@dataclass(frozen=True)
class Shortfalls:
    """Relative shortfalls (c0 − E[c]) / |c0| of K constraints and L workers, (K, L) each.

    Negative where there is something to spare; NaN where a worker never transmits or has no
    threshold.

    Attributes:
        estimate: on the channels at hand.
        low: where its interval begins.
        high: where it ends; both are infinite for a worker that transmits only once.
    """

    estimate: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def from_problem(cls, problem: Problem, sinr: Tensor, power: Tensor) -> Shortfalls:
        """Of all constraints of a problem, on channels with these SINRs and powers, (N, L)."""
        if not problem.constraints:
            return cls(*torch.zeros(3, 0, power.shape[-1], dtype=torch.float64))
        return cls.from_samples(
            problem.constraint_values(sinr, power),
            torch.stack([constraint.counted(power) for constraint in problem.constraints]),
            problem,
        )

    @classmethod
    def from_samples(cls, values: Tensor, counted: Tensor, problem: Problem) -> Shortfalls:
        """From the constraints' values and which of them count, (K, N, L) each.

        Each interval is :func:`mean_interval` at a confidence of 1 − 0.05 / M, so that all M of
        them hold together with 0.95 (Bonferroni).
        """
        constrained = problem.active & counted.any(-2)
        statements = max(1, int(constrained.sum()))
        mean, low, high = mean_interval(values, counted, 1 - (1 - CONFIDENCE) / statements)
        aim = problem.thresholds
        scale = torch.where(constrained, problem.scales, math.nan)
        return cls((aim - mean) / scale, (aim - high) / scale, (aim - low) / scale)

    @property
    def worst(self) -> tuple[float, float]:
        """The largest shortfall and half the width of its interval; zeros without constraints."""
        estimate = self.estimate.nan_to_num(nan=-math.inf).flatten()
        if estimate.numel() == 0 or not bool(estimate.isfinite().any()):
            return 0.0, 0.0
        place = int(estimate.argmax())
        width = (self.high - self.low).flatten()[place]
        return float(estimate[place]), float(width / 2)

    @property
    def met(self) -> bool | None:
        """True: met by all workers; False: missed by one; None: cannot be told.

        Met if every interval ends, missed if one begins, beyond the tolerance of 1 %.
        """
        known = ~self.estimate.isnan()
        if bool((self.low[known] > TOLERANCE).any()):
            return False
        return True if bool((self.high[known] <= TOLERANCE).all()) else None


def mean_interval(
    values: Tensor, included: Tensor, confidence: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean over the included samples of (..., N, L), and where its interval begins and ends.

    Rates under strong interference are skewed: many near zero, a few large. Student's interval
    then ends too early. Hall's transformation (1992) takes the skewness γ of the n samples into
    account: the ends are m − s/√n · g⁻¹(±t), t the quantile of Student with n − 1 degrees and

        g⁻¹(x) = (3/c) ((1 + c (x − c/6))^(1/3) − 1),  c = γ/√n,

    which is x itself for γ = 0. NaN without a sample, infinite ends with a single one.
    """
    # Here: it takes a fifth of a second to import, and only a judgement needs it.
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
        bent = torch.where(c.abs() > _STRAIGHT, c, 1.0)
        base = 1 + bent * (x - bent / 6)
        root = base.sign() * base.abs() ** (1 / 3)
        return torch.where(c.abs() > _STRAIGHT, 3 / bent * (root - 1), x)

    low, high = mean - standard_error * inverse(t), mean - standard_error * inverse(-t)
    single = count == 1
    return (
        mean,
        torch.where(single, -math.inf, low),
        torch.where(single, math.inf, high),
    )


@dataclass(frozen=True)
class Reached:
    """What a constrained measure came to.

    Attributes:
        constraint: with its limit.
        expected: E[measure_i] of every worker, (L,); NaN for one that never transmits.

    """

    constraint: Constraint
    expected: Tensor

    @property
    def worst(self) -> float:
        """That of the worker that is nearest to its limit or farthest beyond it; NaN if none is.

        The smallest of all workers, or the largest for an upper limit.
        """
        known = self.expected[~self.expected.isnan()]
        if len(known) == 0:
            return math.nan
        return float(known.max() if self.constraint.at_most else known.min())

    @property
    def key(self) -> str:
        """Of ``worst`` in ``metrics.json``: ``rate_min``, or ``power_max`` for an upper limit."""
        return f"{self.constraint.name}_{'max' if self.constraint.at_most else 'min'}"


@dataclass(frozen=True, repr=False)
class Judgement:
    """How a policy does on a set of channels; all figures that must be shown together.

    Attributes:
        objective: g(E[f]); higher is better.
        weighted_per: Σ ω PER / Σ ω over the worker-rounds that transmit (NaN if none does). It
            says little alone: a policy that silences every bad link scores near zero.
        participation: share of worker-rounds with p > 0.
        reached: what every constrained measure came to, by its name.
        feasible: whether the constraints are met to within 1 % of their limits on the
            distribution that the channels were drawn from: True, False, or None if so many
            channels cannot tell (:mod:`feduplink.judgement`).
        shortfall: largest relative shortfall of a constraint on these channels; negative if
            there is something to spare everywhere, 0 if nothing is constrained.
        shortfall_error: half the width of its interval, all of which hold together with 95 %.

    """

    objective: float
    weighted_per: float
    participation: float
    reached: dict[str, Reached]
    feasible: bool | None
    shortfall: float
    shortfall_error: float

    @property
    def violation(self) -> float:
        """By how much a constraint is missed on these very channels, 0 if all are met."""
        return max(0.0, self.shortfall)

    def __repr__(self) -> str:
        """The figures that must be shown together, on one line."""
        return f"Judgement({', '.join(f'{k} {v}' for k, v in self._entries().items())})"

    def _repr_html_(self) -> str:
        return TextTable.of_entries("Judgement", self._entries()).html()

    def _entries(self) -> dict[str, str]:
        within = f"{100 * self.shortfall:+.1f} ± {100 * self.shortfall_error:.1f} %"
        return {
            "objective": f"{self.objective:.4f}",
            "constraints": f"{VERDICTS[self.feasible]} (shortfall {within})",
            "participation": f"{100 * self.participation:.1f} %",
            "weighted PER": f"{100 * self.weighted_per:.2f} %",
        }

    def rank(self, tolerance: float = 0.0) -> tuple[bool, float]:
        """Sort key: what misses no constraint by more than ``tolerance`` first, by objective.

        The others by how little they miss.
        """
        return feasible_first(self.violation, self.objective, tolerance)

    def as_metrics(self) -> dict[str, float | bool | None]:
        """The entry of ``metrics.json``; what does not exist or cannot be told is None."""
        values: dict[str, float | bool | None] = {
            "objective": self.objective,
            "weighted_per": self.weighted_per,
            "participation": self.participation,
            **{reached.key: reached.worst for reached in self.reached.values()},
            "feasible": self.feasible,
            "shortfall": self.shortfall,
            "shortfall_error": self.shortfall_error,
        }
        return {name: finite_or_none(value) for name, value in values.items()}


def feasible_first(
    violation: float, objective: float, tolerance: float = 0.0
) -> tuple[bool, float]:
    """Sort key: violations up to ``tolerance`` first, by objective, the others by how little.

    >>> sorted([(0.3, 5.0), (0.0, 1.0), (0.1, 2.0)], key=lambda pair: feasible_first(*pair))
    [(0.3, 5.0), (0.1, 2.0), (0.0, 1.0)]
    """
    met = violation <= tolerance
    return (met, objective if met else -violation)


def judge(
    power: Tensor, csi: Tensor, scenario: Scenario, problem: Problem | None = None
) -> Judgement:
    """Judge powers (N, L) in W on the true channels (N, L, L), in float64.

    By ``problem``, or by the one that the scenario describes.
    """
    check_csi(csi, scenario.workers)
    if csi.ndim != 3 or len(csi) == 0 or power.shape != csi.shape[:-1]:
        raise InputError(
            f"power: shape {tuple(power.shape)}; accepted with csi {tuple(csi.shape)}: (N, L) "
            "and (N, L, L) with N >= 1."
        )
    if not bool((power.isfinite() & (power >= 0)).all()):
        raise InputError("power: holds NaN, infinity or a negative power; accepted: 0 W and above.")
    problem = problem or Problem.from_scenario(scenario)
    power = power.detach().to("cpu", torch.float64)
    sinr = link.sinr(csi.detach().to("cpu", torch.float64), power)
    on_air = power > 0

    weights = scenario.worker_weights * on_air
    per = success_rate(problem.objective, scenario).error(sinr, power)
    shortfalls = Shortfalls.from_problem(problem, sinr, power)
    shortfall, shortfall_error = shortfalls.worst
    return Judgement(
        objective=problem.objective_value(sinr, power),
        weighted_per=float((weights * per).sum() / weights.sum()),
        participation=float(on_air.double().mean()),
        reached={
            constraint.name: Reached(
                constraint, constraint.mean(constraint.measure.value(sinr, power), power)
            )
            for constraint in problem.constraints
        },
        feasible=shortfalls.met,
        shortfall=shortfall,
        shortfall_error=shortfall_error,
    )
