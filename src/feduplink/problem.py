"""The problem a policy solves: objective, utility and constraints.

maximise g(E[f(p, H)])  subject to  E[c_i(p, H)] ≥ c0_i for every worker i and every constraint c,
over policies p(H) in [0, Pmax]^L. Expectations of constraints are over the rounds in which the
worker transmits, E[c_i | p_i > 0], unless the measure is one of all rounds. By default f is the
packet success rate, g the weighted sum, and the constraints are on the rate and the energy
efficiency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.link import (
    AnyMeasure,
    EnergyEfficiency,
    LinkState,
    Rate,
    SeparableMeasure,
    Slopes,
    find_measure,
)
from feduplink.scenario import ConstraintText, Scenario
from feduplink.units import DisplayUnit, display_unit

#: Beyond this, the exponential overflows.
_LARGEST_EXPONENT = 700.0


class Utility(Protocol):
    """A concave non-decreasing function g of the workers' expectations y, (L,).

    ``weights`` ω, (L,), say how much each worker counts; ``linear`` whether g is ω·y.
    """

    @property
    def weights(self) -> Tensor:
        """ω, (L,)."""

    @property
    def linear(self) -> bool:
        """Whether g is the weighted sum: its gradient is then ω everywhere."""

    def value(self, expected: Tensor) -> Tensor:
        """g(y), scalar."""

    def gradient(self, expected: Tensor) -> Tensor:
        """∇g(y), (L,)."""

    def maximiser(self, weight: Tensor) -> Tensor:
        """The y that maximises g(y) − w·y, (L,); any one for a linear g at w = ω."""

    def conjugate(self, weight: Tensor) -> float:
        """max_y g(y) − w·y, where that is finite."""

    def relative_gap(self, lower: float, upper: float) -> float:
        """By which share of the mean y behind g = ``lower`` that behind ``upper`` is above it."""


@dataclass(frozen=True)
class WeightedSum:
    """g(y) = Σ ω_i y_i."""

    weights: Tensor
    linear = True

    def value(self, expected: Tensor) -> Tensor:
        """g(y), scalar."""
        return (self.weights.to(expected) * expected).sum(-1)

    def gradient(self, expected: Tensor) -> Tensor:
        """∇g(y) = ω."""
        return self.weights.to(expected)

    def maximiser(self, weight: Tensor) -> Tensor:
        """At w = ω every y is as good as any other."""
        return torch.zeros_like(weight)

    def conjugate(self, weight: Tensor) -> float:
        """0 at w = ω, the only weights at which it is finite."""
        return 0.0

    def relative_gap(self, lower: float, upper: float) -> float:
        """(upper − lower) / lower: the weighted mean of y is proportional to g."""
        return (upper - lower) / lower if lower > 0 else math.inf


@dataclass(frozen=True)
class ProportionalFairness:
    """g(y) = Σ ω_i ln y_i."""

    weights: Tensor
    linear = False

    def value(self, expected: Tensor) -> Tensor:
        """g(y), scalar; −∞ when a worker is never heard."""
        return (self.weights.to(expected) * expected.log()).sum(-1)

    def gradient(self, expected: Tensor) -> Tensor:
        """∇g(y) = ω / y."""
        return self.weights.to(expected) / expected

    def maximiser(self, weight: Tensor) -> Tensor:
        """y = ω / w."""
        return 1 / (weight / self.weights.to(weight))

    def conjugate(self, weight: Tensor) -> float:
        """Σ ω (ln(ω / w) − 1)."""
        weights = self.weights.to(weight)
        return float((weights * ((weights / weight).log() - 1)).sum())

    def relative_gap(self, lower: float, upper: float) -> float:
        """exp((upper − lower) / Σ ω) − 1: g is the logarithm of the weighted geometric mean.

        It does not change with the units of y or the scale of ω, while a logarithm may be
        negative or 0 and is no scale for its own gap.
        """
        exponent = (upper - lower) / float(self.weights.sum())
        return math.expm1(exponent) if exponent < _LARGEST_EXPONENT else math.inf


#: By the name of a scenario's ``utility``.
UTILITIES: dict[str, type[WeightedSum] | type[ProportionalFairness]] = {
    "weighted-sum": WeightedSum,
    "proportional-fairness": ProportionalFairness,
}


def measure_unit(measure: AnyMeasure, scenario: Scenario) -> DisplayUnit:
    """The unit in which values of a measure are displayed.

    Args:
        measure: of the scenario's links.
        scenario: has the bandwidth for Mbit/J.
    """
    return display_unit(measure.unit, scenario.bandwidth_hz)


def objective_unit(scenario: Scenario) -> DisplayUnit:
    """The unit in which the objective is displayed.

    A weighted sum has the unit of its measure. Proportional fairness is a sum of logarithms, whose
    arguments are in the unit of the package.
    """
    if not UTILITIES[scenario.utility].linear:
        return DisplayUnit("")
    return measure_unit(find_measure(scenario.objective).from_scenario(scenario), scenario)


@dataclass(frozen=True)
class Constraint:
    """E[measure_i] ≥ limit_i, or ≤ limit_i, for every worker i.

    What computes with constraints does so in one direction: ``value`` and ``threshold`` are
    negated for an upper limit, so that it is always E[value] ≥ threshold.

    Attributes:
        measure: of what.
        limit: (L,), in the measure's unit.
        at_most: whether the limit is an upper one.
        active: for which workers there is a limit, (L,) bool.

    """

    measure: AnyMeasure
    limit: Tensor
    at_most: bool
    active: Tensor

    @classmethod
    def at_least(
        cls, measure: AnyMeasure, limit: Tensor, active: Tensor | None = None
    ) -> Constraint:
        """E[measure] ≥ limit, for all workers unless ``active`` says for which."""
        everyone = torch.ones(limit.shape, dtype=torch.bool)
        return cls(measure, limit, False, everyone if active is None else active)

    @classmethod
    def below(cls, measure: AnyMeasure, limit: Tensor) -> Constraint:
        """E[measure] ≤ limit, for all workers."""
        return cls(measure, limit, True, torch.ones(limit.shape, dtype=torch.bool))

    @classmethod
    def from_text(cls, text: str, scenario: Scenario) -> Constraint:
        """From ``NAME >= LIMIT`` or ``NAME <= LIMIT``; several limits are one per worker."""
        parts = ConstraintText.parse(text, scenario.workers)
        measure = find_measure(parts.measure).from_scenario(scenario)
        limit = torch.tensor(parts.limits, dtype=torch.float64).expand(scenario.workers)
        return (cls.below if parts.at_most else cls.at_least)(measure, limit)

    @property
    def name(self) -> str:
        """The measure's."""
        return self.measure.name

    @property
    def threshold(self) -> Tensor:
        """What ``value`` has to reach in the mean, (L,)."""
        return -self.limit if self.at_most else self.limit

    @property
    def scale(self) -> Tensor:
        """The unit of relative shortfalls, (L,): the limit's size, 1 where it is 0."""
        size = self.limit.abs()
        return torch.where(size > 0, size, 1.0)

    @property
    def sign(self) -> float:
        """−1 for an upper limit, else 1."""
        return -1.0 if self.at_most else 1.0

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """The separable measure, negated for an upper limit, (..., L)."""
        return self._signed(separable(self.measure).value(sinr, power))

    def of(self, state: LinkState) -> Tensor:
        """The measure, negated for an upper limit, (..., L)."""
        return self._signed(self.measure.of(state))

    def _signed(self, value: Tensor) -> Tensor:
        return -value if self.at_most else value

    def counted(self, power: Tensor) -> Tensor:
        """The worker-rounds that the mean is over, (..., L) bool."""
        return power > 0 if self.measure.on_air_only else torch.ones_like(power, dtype=torch.bool)

    def mean(self, values: Tensor, power: Tensor) -> Tensor:
        """The mean over the batch of the rounds that count, (..., N, L) to (..., L).

        NaN for a worker without any: its conditional expectation does not exist.
        """
        counted = self.counted(power)
        return torch.where(counted, values, 0.0).sum(-2) / counted.sum(-2)

    def surplus(self, sinr: Tensor, power: Tensor) -> Tensor:
        """value − threshold where the round counts, else 0, (..., L).

        The constraint is met iff its mean over all rounds is not negative.
        """
        difference = self.value(sinr, power) - self.threshold.to(power)
        return torch.where(self.counted(power), difference, 0.0)

    def shortfall(self, expected: Tensor) -> Tensor:
        """(threshold − E[value]) / scale, (L,); 0 without a limit or an expectation."""
        missing = (self.threshold - expected) / self.scale
        return torch.where(self.active, missing.nan_to_num(nan=0.0), 0.0)

    def with_threshold(self, threshold: Tensor) -> Constraint:
        """The same with another threshold, (L,), for ``value``."""
        return replace(self, limit=-threshold if self.at_most else threshold)

    def with_margin(self, margin: float) -> Constraint:
        """The same with a threshold that is stricter by a share of its size."""
        return replace(self, limit=self.limit * (1 + self.sign * margin * self.limit.sign()))

    def relative(self) -> Constraint:
        """The constraint in units of its limit, c/c0 ≥ 1.

        Constraints of different units, 0.7 nats/s/Hz and 55 nats/s/Hz/W, then weigh alike.
        Where the limit is 0 nothing changes.
        """
        scale = self.scale
        return replace(self, measure=_Scaled(self.measure, scale), limit=self.limit / scale)


class _Scaled(SeparableMeasure):
    """A measure in other units, worker by worker."""

    def __init__(self, measure: AnyMeasure, unit: Tensor) -> None:
        self._measure, self._unit = measure, unit
        self.name, self.symbol = measure.name, measure.symbol  # type: ignore[misc]
        self.on_air_only = measure.on_air_only  # type: ignore[misc]

    def of(self, state: LinkState) -> Tensor:
        return self._measure.of(state) / self._unit.to(state.power)

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return separable(self._measure).value(sinr, power) / self._unit.to(sinr)

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        return (1 / self._unit.to(sinr)) * separable(self._measure).slopes(sinr, power)


@dataclass(frozen=True)
class Problem:
    """Objective, utility and constraints; build the usual one with :meth:`from_scenario`."""

    objective: AnyMeasure
    utility: Utility
    constraints: tuple[Constraint, ...]

    def __post_init__(self) -> None:
        names = [constraint.name for constraint in self.constraints]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(
                f"constraints: {twice[0]} is limited twice; accepted: one limit per measure, which "
                "rate and energy_efficiency have by rate_min and ee_min."
            )

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> Problem:
        """The problem a scenario describes."""
        rate, efficiency = scenario.rate_thresholds, scenario.ee_thresholds
        return cls(
            objective=find_measure(scenario.objective).from_scenario(scenario),
            utility=UTILITIES[scenario.utility](scenario.worker_weights),
            constraints=(
                Constraint.at_least(Rate(), rate, rate > 0),
                Constraint.at_least(
                    EnergyEfficiency.from_scenario(scenario), efficiency, efficiency > 0
                ),
                *(Constraint.from_text(text, scenario) for text in scenario.constraints),
            ),
        )

    @property
    def constrained(self) -> bool:
        """Whether any worker has a limit to keep to."""
        return any(bool(constraint.active.any()) for constraint in self.constraints)

    @property
    def thresholds(self) -> Tensor:
        """Of all constraints, (K, L)."""
        return self._stacked([constraint.threshold for constraint in self.constraints])

    @property
    def scales(self) -> Tensor:
        """Of all constraints, (K, L)."""
        return self._stacked([constraint.scale for constraint in self.constraints])

    @property
    def active(self) -> Tensor:
        """Which worker has a limit in which constraint, (K, L) bool."""
        return self._stacked([constraint.active for constraint in self.constraints]).bool()

    def _stacked(self, rows: list[Tensor]) -> Tensor:
        workers = len(self.utility.weights)
        return torch.stack(rows) if rows else torch.zeros(0, workers, dtype=torch.float64)

    def constraint_values(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Values of all constraints, (K, N, L)."""
        rows = [constraint.value(sinr, power) for constraint in self.constraints]
        return torch.stack(rows) if rows else power.new_zeros(0, *power.shape)

    def constraint_values_of(self, state: LinkState) -> Tensor:
        """Values of all constraints in a state of the link, (K, N, L)."""
        rows = [constraint.of(state) for constraint in self.constraints]
        return torch.stack(rows) if rows else state.power.new_zeros(0, *state.power.shape)

    def mean_surplus(self, sinr: Tensor, power: Tensor) -> Tensor:
        """E[surplus] of every constraint and worker, (K, L); met where it is not negative."""
        rows = [constraint.surplus(sinr, power).mean(0) for constraint in self.constraints]
        return torch.stack(rows) if rows else power.new_zeros(0, power.shape[-1])

    def objective_values(self, sinr: Tensor, power: Tensor) -> Tensor:
        """The separable objective f of every worker, (..., L)."""
        return separable(self.objective).value(sinr, power)

    def utility_of(self, state: LinkState) -> Tensor:
        """g(E[f]), the utility of the mean objective over N rounds on the link, scalar."""
        return self.utility.value(self.objective.of(state).mean(0))

    def with_thresholds(self, thresholds: Tensor) -> Problem:
        """The same with other thresholds, (K, L)."""
        pairs = zip(self.constraints, thresholds, strict=True)
        return replace(self, constraints=tuple(c.with_threshold(row) for c, row in pairs))

    def with_margin(self, margin: float) -> Problem:
        """The same with every threshold stricter by a share of its size."""
        return replace(self, constraints=tuple(c.with_margin(margin) for c in self.constraints))


def separable(measure: AnyMeasure) -> SeparableMeasure:
    """The measure itself, if it depends on a worker's own SINR and power alone."""
    if not isinstance(measure, SeparableMeasure):
        raise InputError(
            f"measure: {measure.name} depends on the whole upload; accepted in the Lagrangian "
            "(dual, pdx, optimum): a feduplink.SeparableMeasure."
        )
    return measure
