"""The optimum on a set of channels: the best policy found, and proof of how close it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from feduplink.channels import draw_training_csi
from feduplink.channels.csi import check_csi
from feduplink.lagrangian import Cell, HillTops, Multipliers
from feduplink.observing import Observer, track
from feduplink.optimum.alone import interference_free_bound
from feduplink.optimum.certificate import Certificate, certify
from feduplink.optimum.dual import SEARCH, DualSolution, conjugate, solve_dual
from feduplink.optimum.reachability import Unreachable, shut_out
from feduplink.optimum.repair import MET, repaired
from feduplink.optimum.settling import settled
from feduplink.policies.dual import DualPolicy
from feduplink.problem import Judgement, Problem, judge
from feduplink.scenario import Scenario
from feduplink.text_table import TextTable

#: An optimum counts as certified if the bound is above it by at most this share of it.
CERTIFIED_GAP = 0.02
#: Channels that the multipliers of the ``dual`` policy are learned on, and by how many standard
#: errors of a constraint's mean over them the policy aims above the thresholds.
LEARNING_CHANNELS = 20_000
MARGIN = 2.0
#: The first of these channels, to get near.
_FEW_CHANNELS = 1000
#: Beyond this, the exponential overflows.
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, repr=False)
class Optimum:
    """The best powers found on some channels, with a proof of how good they are.

    No policy that meets the constraints on these channels has an objective above
    ``upper_bound``; ``power`` meets them and reaches ``objective``.

    Attributes:
        scenario: the problem.
        csi: the channels, (N, L, L).
        solution: the best powers, the multipliers, and how they were found.
        certificate: bounds on the largest Lagrangian of every channel.
        unreachable: workers that their thresholds shut out.
    """

    scenario: Scenario
    csi: Tensor
    solution: DualSolution
    certificate: Certificate
    unreachable: list[Unreachable]

    @property
    def power(self) -> Tensor:
        """The best powers found that meet the constraints, (N, L) W."""
        return self.solution.power

    @property
    def objective(self) -> float:
        """What these powers reach."""
        return self.solution.judgement.objective

    @property
    def upper_bound(self) -> float:
        """What nobody exceeds: the certificate, or what nobody would without interference."""
        proved = float(self.certificate.upper.mean()) + self.solution.conjugate
        possible = interference_free_bound(self.scenario, self.csi.diagonal(dim1=-2, dim2=-1))
        # Where the bound is reached, rounding may put it under the objective.
        return max(min(proved, possible), self.objective)

    @property
    def gap(self) -> float:
        """upper_bound − objective, at least 0; infinite if some weighted worker is never heard."""
        return self.upper_bound - self.objective

    @property
    def relative_gap(self) -> float:
        """By which share of the optimum the bound is above it; infinite if that is nothing.

        What is compared are weighted means over the workers: for the weighted sum Σ ω y the
        arithmetic mean, so that this is gap / objective; for proportional fairness Σ ω ln y the
        geometric mean, so that it is exp(gap / Σ ω) − 1. Neither changes with the units of y or
        the scale of ω, while a logarithm may be negative or 0 and is no scale for its own gap.
        """
        if self.scenario.utility == "proportional-fairness":
            exponent = self.gap / float(self.scenario.worker_weights.sum())
            return math.expm1(exponent) if exponent < _LARGEST_EXPONENT else math.inf
        return self.gap / self.objective if self.objective > 0 else math.inf

    @property
    def certified(self) -> bool:
        """Whether the relative gap is at most :data:`CERTIFIED_GAP`."""
        return self.relative_gap <= CERTIFIED_GAP

    def __repr__(self) -> str:
        """What was found, and what is proved, on one line."""
        return f"Optimum({', '.join(f'{k} {v}' for k, v in self._entries().items())})"

    def _repr_html_(self) -> str:
        return TextTable.of_entries("Optimum", self._entries()).html()

    def _entries(self) -> dict[str, str]:
        count, workers = self.power.shape
        certified = "certified" if self.certified else "not certified"
        return {
            "objective": f"{self.objective:.4f}",
            "proved bound": f"{self.upper_bound:.4f} ({certified}, {self.relative_gap:.2%} above)",
            "channels": f"{count} of {workers} workers",
            "found by": self.solution.found_by,
            **({"shut out": f"{len(self.unreachable)} workers"} if self.unreachable else {}),
        }

    def below(self, judgement: Judgement) -> float | None:
        """How far a policy judged on these channels is below the optimum, at least 0.

        None if it misses a constraint on these channels, which the optimum does not, or if the
        distance is infinite.
        """
        if judgement.violation > MET:
            return None
        distance = self.objective - judgement.objective
        return max(distance, 0.0) if math.isfinite(distance) else None

    def improved_by(self, powers: Mapping[str, Tensor]) -> Optimum:
        """The best of this and of other powers on the same channels, (N, L) W each by name.

        Powers that miss a constraint are repaired first. So no policy that is judged beside the
        optimum and meets the constraints is above it.
        """
        cell, problem = Cell.of(self.scenario, self.csi), Problem.of(self.scenario)
        solution = self.solution
        for name, power in powers.items():
            mended = repaired(power, cell, problem)
            verdict = judge(mended, self.csi, self.scenario, problem)
            solution = solution.improved_by(name, mended, verdict)
        return replace(self, solution=solution)

    def as_metrics(self) -> dict[str, Any]:
        """The ``optimum`` entry of ``metrics.json``; what is infinite is None."""
        verdict = self.solution.judgement.as_metrics()
        return {
            "objective": verdict["objective"],
            "upper_bound": _finite(self.upper_bound),
            "gap": _finite(self.gap),
            "relative_gap": _finite(self.relative_gap),
            "certified": self.certified,
            "found_by": self.solution.found_by,
            "rate_min": verdict["rate_min"],
            "energy_efficiency_min": verdict["energy_efficiency_min"],
            "feasible": verdict["feasible"],
            "shortfall": verdict["shortfall"],
            "participation": verdict["participation"],
            "weighted_per": verdict["weighted_per"],
            "seconds": self.certificate.seconds,
            "boxes": self.certificate.boxes,
            "dual_value": _finite(self.solution.dual_value),
            "multipliers": self.solution.multipliers.constraints.tolist(),
            "unreachable": [str(entry) for entry in self.unreachable],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def find_optimum(
    scenario: Scenario,
    csi: Tensor,
    *,
    budget_s: float = 60.0,
    target_gap: float = 1e-3,
    observers: Sequence[Observer] = (),
) -> Optimum:
    """Solve the problem on channels (N, L, L), then certify the solution.

    Args:
        scenario: the problem; its ``workers`` must be the channels' L.
        csi: the channels.
        budget_s: most seconds for the certificate, on top of the solution.
        target_gap: the certificate stops earlier when it is this tight.
        observers: told of every evaluation of the dual function (``DualStep``), then of every
            improvement of the bound (``Certificate``).
    """
    check_csi(csi, scenario.workers)
    out_of_reach = shut_out(scenario, csi)
    solution = solve_dual(scenario, csi, observers=observers)
    certificate = certify(
        Cell.of(scenario, csi),
        solution.multipliers.prices(scenario),
        budget_s=budget_s,
        target_gap=target_gap,
        observers=observers,
    )
    optimum = Optimum(scenario, csi, solution, certificate, out_of_reach)
    # The certificate searches on at the last prices and may have found better powers.
    return optimum.improved_by({SEARCH: certificate.power})


@track("tuning of dual")
def learn_dual_policy(scenario: Scenario, csi: Tensor, *, margin: float = MARGIN) -> DualPolicy:
    """The ``dual`` policy with multipliers from training channels, (N, L, L).

    A solution on a part of the channels tells the standard errors with which all of them estimate
    the constraints. From there the multipliers settle on all channels, for thresholds raised by
    ``margin`` of these, so that the constraints also hold on channels the policy has not seen.
    """
    near = solve_dual(scenario, csi[:_FEW_CHANNELS]).multipliers
    if not Problem.of(scenario).constrained:
        return DualPolicy(scenario, near)
    tops = HillTops(Cell.of(scenario, csi), near.prices(scenario))
    aimed = aimed_above(scenario, csi, tops.best(near.prices(scenario)), margin)
    return DualPolicy(aimed, settled(aimed, csi, near, tops))


def aimed_above(scenario: Scenario, csi: Tensor, power: Tensor, margin: float) -> Scenario:
    """The scenario with its thresholds raised by ``margin`` standard errors.

    The standard errors are those with which the channels (N, L, L) estimate the expectations in
    the constraints under the powers (N, L).
    """
    power = power.to(torch.float64)
    sinr = Cell.of(scenario, csi).sinr(power)
    aims = {}
    for constraint, field in zip(
        Problem.of(scenario).constraints, ("rate_min", "ee_min"), strict=True
    ):
        values = torch.where(power > 0, constraint.measure(sinr, power), math.nan)
        heard = (power > 0).sum(0).clamp_min(2)
        spread = (values - values.nanmean(0)).square().nansum(0) / (heard - 1)
        error = (spread / heard).sqrt().nan_to_num(nan=0.0)  # NaN: a worker never heard
        # A threshold of 0 means that there is no constraint.
        aim = torch.where(constraint.threshold > 0, constraint.threshold + margin * error, 0.0)
        aims[field] = tuple(aim.tolist())
    return scenario.replace(**aims)


def learned_on_fresh_channels(scenario: Scenario, seed: int) -> DualPolicy:
    """The ``dual`` policy for a scenario, from channels drawn for it."""
    csi = draw_training_csi(scenario, LEARNING_CHANNELS, seed=seed)
    return learn_dual_policy(scenario, csi)


@dataclass(frozen=True)
class DistributionBound:
    """A bound on every policy over the whole distribution that channels were drawn from.

    Attributes:
        upper_bound: what the objective of no policy that meets the constraints exceeds.
        confidence: probability, over the draw of the channels, that this is so.
        strongest: largest direct gain the distribution is assumed to have.
        channels: how many channels it rests on.
    """

    upper_bound: float
    confidence: float
    strongest: float
    channels: int

    def as_metrics(self) -> dict[str, float]:
        """The ``distribution`` entry of ``metrics.json``."""
        return {
            "upper_bound": self.upper_bound,
            "confidence": self.confidence,
            "strongest_direct_gain": self.strongest,
            "channels": self.channels,
        }

    def sentence(self, *, recorded: bool = False) -> str:
        """What it says, and under which assumptions."""
        assumed = "the recorded channels are independent draws and " if recorded else ""
        return (
            f"With {self.confidence:.4g} confidence over the draw of {self.channels} channels: no "
            "policy that meets the constraints on the whole distribution of channels has an "
            f"objective above {self.upper_bound:.4f} there, provided that {assumed}no direct gain "
            f"exceeds {self.strongest:.3g}, ten times the largest seen."
        )


@track("bound for the distribution")
def distribution_bound(
    scenario: Scenario,
    multipliers: Multipliers,
    csi: Tensor,
    *,
    confidence: float = 0.95,
    budget_s: float = 60.0,
) -> DistributionBound:
    """An upper bound for all channels of the distribution, not only those at hand.

    For multipliers that were learned on other channels, the largest Lagrangians X of these
    channels, (N, L, L), are independent draws, and their expectation bounds every policy. By the
    empirical Bernstein inequality (Maurer and Pontil 2009, theorem 4) it is, with probability
    1 − δ, at most

        mean(X) + √(2 V ln(2/δ) / N) + 7 M ln(2/δ) / (3 (N − 1)),

    V the sample variance of X in [0, M]. The certificate knows X up to its gaps: it takes its
    upper ends for the mean and std(lower) + √(Σ gap² / (N − 1)) for √V, which is no less.
    M is computed for direct gains of up to ten times the largest one seen.
    """
    cell = Cell.of(scenario, csi)
    prices = multipliers.prices(scenario)
    certificate = certify(cell, prices, budget_s=budget_s)
    strongest = 10 * float(cell.direct.max())
    rate = (strongest * cell.pmax_w).log1p()
    slope = prices.rate + prices.efficiency / cell.static_power_w
    spread = float((prices.success + slope * rate).sum())
    count, log_term = len(csi), math.log(2 / (1 - confidence))
    gaps = certificate.upper - certificate.lower
    deviation = float(certificate.lower.std() + (gaps.square().sum() / (count - 1)).sqrt())
    slack = deviation * math.sqrt(2 * log_term / count) + 7 * spread * log_term / (3 * (count - 1))
    mean = float(certificate.upper.mean()) + conjugate(scenario, multipliers.worth)
    # On few channels this is tighter: every channel as good as the strongest.
    possible = interference_free_bound(scenario, torch.full((1, scenario.workers), strongest))
    return DistributionBound(min(mean + slack, possible), confidence, strongest, count)
