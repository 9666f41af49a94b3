"""The problem a policy solves, and how a policy is judged.

maximise g(E[f(p, H)])  subject to  E[c_i(p, H) | p_i > 0] ≥ c0_i for every worker i and every
constraint c, over policies p(H) in [0, Pmax]^L. By default f is the packet success rate, g the
weighted sum, and the constraints are on the rate and the energy efficiency.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.feasibility import VERDICTS, Shortfalls
from feduplink.scenario import Scenario
from feduplink.text_table import TextTable

#: A per-worker quantity (SINR, power in W) -> value, all of shape (..., L).
Measure = Callable[[Tensor, Tensor], Tensor]


class Utility(Protocol):
    """A concave non-decreasing function g of the per-worker expectations y, (L,)."""

    def value(self, expected: Tensor) -> Tensor:
        """g(y), scalar."""

    def gradient(self, expected: Tensor) -> Tensor:
        """∇g(y), (L,)."""


@dataclass(frozen=True)
class WeightedSum:
    """g(y) = Σ ω_i y_i."""

    weights: Tensor

    def value(self, expected: Tensor) -> Tensor:
        """g(y), scalar."""
        return (self.weights.to(expected) * expected).sum(-1)

    def gradient(self, expected: Tensor) -> Tensor:
        """∇g(y) = ω."""
        return self.weights.to(expected)


@dataclass(frozen=True)
class ProportionalFairness:
    """g(y) = Σ ω_i ln y_i."""

    weights: Tensor

    def value(self, expected: Tensor) -> Tensor:
        """g(y), scalar; −∞ when a worker is never heard."""
        return (self.weights.to(expected) * expected.log()).sum(-1)

    def gradient(self, expected: Tensor) -> Tensor:
        """∇g(y) = ω / y."""
        return self.weights.to(expected) / expected


@dataclass(frozen=True)
class Constraint:
    """E[measure_i | p_i > 0] ≥ threshold_i for every worker i; ``threshold`` is (L,)."""

    name: str
    measure: Measure
    threshold: Tensor

    def with_margin(self, margin: float) -> Constraint:
        """The constraint with its threshold raised by a share of it, c ≥ (1 + ``margin``) c0."""
        return Constraint(self.name, self.measure, self.threshold * (1 + margin))

    def relative(self) -> Constraint:
        """The constraint in units of its threshold, c/c0 ≥ 1.

        Constraints of different units, 0.7 nats/s/Hz and 55 nats/s/Hz/W, then weigh alike.
        Where the threshold is 0 nothing changes.
        """
        unit = torch.where(self.threshold > 0, self.threshold, 1.0)

        def measure(sinr: Tensor, power: Tensor) -> Tensor:
            return self.measure(sinr, power) / unit.to(sinr)

        return Constraint(self.name, measure, self.threshold / unit)


@dataclass(frozen=True)
class Problem:
    """Objective, utility and constraints; build the usual one with :meth:`of`."""

    objective: Measure
    utility: Utility
    constraints: tuple[Constraint, ...]

    @classmethod
    def of(cls, scenario: Scenario) -> Problem:
        """The problem a scenario describes."""
        measures = scenario_measures(scenario)
        fair = scenario.utility == "proportional-fairness"
        utility_type = ProportionalFairness if fair else WeightedSum
        return cls(
            objective=measures[scenario.objective],
            utility=utility_type(scenario.worker_weights),
            constraints=(
                Constraint("rate", measures["rate"], scenario.rate_thresholds),
                Constraint(
                    "energy_efficiency", measures["energy_efficiency"], scenario.ee_thresholds
                ),
            ),
        )

    @property
    def constrained(self) -> bool:
        """Whether any worker has a threshold to meet."""
        return any(bool((constraint.threshold > 0).any()) for constraint in self.constraints)


def scenario_measures(scenario: Scenario) -> dict[str, Measure]:
    """The shipped measures with the scenario's constants: psr, rate, energy_efficiency."""

    def psr(sinr: Tensor, _power: Tensor) -> Tensor:
        return link.packet_success_rate(sinr, scenario.waterfall)

    def rate(sinr: Tensor, _power: Tensor) -> Tensor:
        return link.rate(sinr)

    def energy_efficiency(sinr: Tensor, power: Tensor) -> Tensor:
        return link.energy_efficiency(
            link.rate(sinr),
            power,
            scenario.static_power.to(power),
            scenario.amplifier_inefficiency,
        )

    return {"psr": psr, "rate": rate, "energy_efficiency": energy_efficiency}


def transmitting_mean(values: Tensor, power: Tensor) -> Tensor:
    """E_c: mean over the batch of the worker-rounds with p > 0, (..., N, L) to (..., L).

    NaN for a worker that never transmits: its conditional expectation does not exist.
    """
    on_air = power > 0
    return torch.where(on_air, values, 0.0).sum(-2) / on_air.sum(-2)


@dataclass(frozen=True, repr=False)
class Judgement:
    """How a policy does on a set of channels; all figures that must be shown together.

    Attributes:
        objective: g(E[f]); higher is better.
        weighted_per: Σ ω PER / Σ ω over the worker-rounds that transmit (NaN if none does). It
            says little alone: a policy that silences every bad link scores near zero.
        participation: share of worker-rounds with p > 0.
        rate_min: smallest E[R_i | p_i > 0] over the workers that ever transmit, nats/s/Hz.
        energy_efficiency_min: the same of the energy efficiency, nats/s/Hz/W.
        feasible: whether the constraints are met to within 1 % of their thresholds on the
            distribution that the channels were drawn from: True, False, or None if so many
            channels cannot tell (:mod:`feduplink.feasibility`).
        shortfall: largest relative shortfall of a constraint on these channels; negative if
            there is something to spare everywhere, 0 if nothing is constrained.
        shortfall_error: half the width of its interval, all of which hold together with 95 %.
        worker_rate: E[R_i | p_i > 0], (L,), NaN for a worker that never transmits.
        worker_energy_efficiency: E[EE_i | p_i > 0], (L,), likewise.

    """

    objective: float
    weighted_per: float
    participation: float
    rate_min: float
    energy_efficiency_min: float
    feasible: bool | None
    shortfall: float
    shortfall_error: float
    worker_rate: Tensor
    worker_energy_efficiency: Tensor

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

    def as_metrics(self) -> dict[str, float | bool | None]:
        """The entry of ``metrics.json``; what does not exist or cannot be told is None."""
        names = (
            "objective",
            "weighted_per",
            "participation",
            "rate_min",
            "energy_efficiency_min",
            "feasible",
            "shortfall",
            "shortfall_error",
        )
        values = {name: getattr(self, name) for name in names}
        return {
            name: value if value is not None and math.isfinite(value) else None
            for name, value in values.items()
        }


def judge(
    power: Tensor, csi: Tensor, scenario: Scenario, problem: Problem | None = None
) -> Judgement:
    """Judge powers (N, L) in W on the true channels (N, L, L), in float64."""
    check_csi(csi, scenario.workers)
    if csi.ndim != 3 or len(csi) == 0 or power.shape != csi.shape[:-1]:
        raise InputError(
            f"power: shape {tuple(power.shape)}; accepted with csi {tuple(csi.shape)}: (N, L) "
            "and (N, L, L) with N >= 1."
        )
    if not bool((power.isfinite() & (power >= 0)).all()):
        raise InputError("power: holds NaN, infinity or a negative power; accepted: 0 W and above.")
    problem = problem or Problem.of(scenario)
    measures = scenario_measures(scenario)
    power = power.detach().to("cpu", torch.float64)
    sinr = link.sinr(csi.detach().to("cpu", torch.float64), power)
    on_air = power > 0

    weights = scenario.worker_weights * on_air
    per = link.packet_error_rate(sinr, scenario.waterfall)
    shortfalls = constraint_shortfalls(problem, sinr, power)
    shortfall, shortfall_error = shortfalls.worst
    worker_rate = transmitting_mean(measures["rate"](sinr, power), power)
    worker_ee = transmitting_mean(measures["energy_efficiency"](sinr, power), power)
    return Judgement(
        objective=float(problem.utility.value(problem.objective(sinr, power).mean(0))),
        weighted_per=float((weights * per).sum() / weights.sum()),
        participation=float(on_air.double().mean()),
        rate_min=_smallest(worker_rate),
        energy_efficiency_min=_smallest(worker_ee),
        feasible=shortfalls.met,
        shortfall=shortfall,
        shortfall_error=shortfall_error,
        worker_rate=worker_rate,
        worker_energy_efficiency=worker_ee,
    )


def constraint_shortfalls(problem: Problem, sinr: Tensor, power: Tensor) -> Shortfalls:
    """Shortfalls of all constraints on channels with these SINRs and powers, (N, L) each."""
    if not problem.constraints:
        return Shortfalls(*torch.zeros(3, 0, power.shape[-1], dtype=torch.float64))
    return Shortfalls.from_samples(
        torch.stack([c.measure(sinr, power) for c in problem.constraints]),
        power,
        torch.stack([c.threshold for c in problem.constraints]),
    )


def relative_shortfall(expected: Tensor, threshold: Tensor) -> float:
    """Max over workers of (c0 − E_c) / c0, at least 0; silent workers miss nothing."""
    shortfall = (threshold - expected) / threshold.clamp_min(1e-12)
    return max(0.0, float(shortfall.nan_to_num(nan=0.0).max()))


def _smallest(expected: Tensor) -> float:
    present = expected[~expected.isnan()]
    return float(present.min()) if len(present) else math.nan
