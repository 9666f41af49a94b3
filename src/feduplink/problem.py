"""The optimisation problem of a policy: objective, utility and constraints.

    maximise g(E[f(p, H)])  subject to  E[c_i(p, H)] ≥ c0_i  for every worker i and constraint c,

over policies p(H) in [0, Pmax]^L. Expectations of constraints are conditional on transmission,
E[c_i | p_i > 0], unless ``on_air_only`` of the measure is False. By default f is the packet success
rate, g the weighted sum, and the constraints limit the rate and the energy efficiency from below.
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

#: Largest argument of the exponential function that does not overflow in float64, rounded down.
_MAX_EXPONENT = 700.0


class Utility(Protocol):
    """Protocol of a concave, non-decreasing utility g(y) of the expectations y = E[f], (L,)."""

    @property
    def weights(self) -> Tensor:
        """Worker weights ω, (L,)."""

    @property
    def linear(self) -> bool:
        """Whether g(y) = ω·y, so that ∇g = ω everywhere."""

    def value(self, expected: Tensor) -> Tensor:
        """Utility g(y) of y = ``expected`` (..., L), shape (...)."""

    def gradient(self, expected: Tensor) -> Tensor:
        """Gradient ∇g(y) at y = ``expected``, (..., L)."""

    def maximiser(self, weight: Tensor) -> Tensor:
        """Maximiser of g(y) − w·y over y, for w = ``weight`` (L,); not unique for a linear g."""

    def conjugate(self, weight: Tensor) -> float:
        """Concave conjugate max_y g(y) − w·y, for w = ``weight`` (L,)."""

    def relative_gap(self, lower: float, upper: float) -> float:
        """Relative gap between the mean expectations that correspond to two utility values."""


@dataclass(frozen=True)
class WeightedSum:
    """Weighted sum, g(y) = Σ_i ω_i y_i.

    Attributes:
        weights: ω, (L,).
    """

    weights: Tensor
    linear = True

    def value(self, expected: Tensor) -> Tensor:
        """Utility g(y) of y = ``expected`` (..., L), shape (...)."""
        return (self.weights.to(expected) * expected).sum(-1)

    def gradient(self, expected: Tensor) -> Tensor:
        """Gradient ∇g(y) = ω, (L,)."""
        return self.weights.to(expected)

    def maximiser(self, weight: Tensor) -> Tensor:
        """Zeros (L,): at w = ω, where the conjugate is finite, every y is a maximiser."""
        return torch.zeros_like(weight)

    def conjugate(self, weight: Tensor) -> float:
        """Conjugate max_y (ω − w)·y, 0 at w = ω and infinite elsewhere; w = ω is assumed."""
        return 0.0

    def relative_gap(self, lower: float, upper: float) -> float:
        """Relative gap (upper − lower) / lower; infinite if ``lower`` is not positive."""
        return (upper - lower) / lower if lower > 0 else math.inf


@dataclass(frozen=True)
class ProportionalFairness:
    """Proportional fairness, g(y) = Σ_i ω_i ln y_i.

    Attributes:
        weights: ω, (L,).
    """

    weights: Tensor
    linear = False

    def value(self, expected: Tensor) -> Tensor:
        """Utility g(y) of y = ``expected`` (..., L), shape (...); −∞ if an expectation is 0."""
        return (self.weights.to(expected) * expected.log()).sum(-1)

    def gradient(self, expected: Tensor) -> Tensor:
        """Gradient ∇g(y) = ω / y, (..., L)."""
        return self.weights.to(expected) / expected

    def maximiser(self, weight: Tensor) -> Tensor:
        """Maximiser y = ω / w of g(y) − w·y, (L,)."""
        return 1 / (weight / self.weights.to(weight))

    def conjugate(self, weight: Tensor) -> float:
        """Conjugate max_y g(y) − w·y = Σ_i ω_i (ln(ω_i / w_i) − 1)."""
        weights = self.weights.to(weight)
        return float((weights * ((weights / weight).log() - 1)).sum())

    def relative_gap(self, lower: float, upper: float) -> float:
        """Relative gap of the weighted geometric means, exp((upper − lower) / Σ ω) − 1.

        It does not depend on the unit of y or the scale of ω. The utility itself may be zero or
        negative, so that a gap relative to it is not meaningful.
        """
        exponent = (upper - lower) / float(self.weights.sum())
        return math.expm1(exponent) if exponent < _MAX_EXPONENT else math.inf


#: Utilities by the value of ``Scenario.utility``.
UTILITIES: dict[str, type[WeightedSum] | type[ProportionalFairness]] = {
    "weighted-sum": WeightedSum,
    "proportional-fairness": ProportionalFairness,
}


def measure_unit(measure: AnyMeasure, scenario: Scenario) -> DisplayUnit:
    """Unit in which values of a measure are displayed.

    Args:
        measure: the measure.
        scenario: its bandwidth, for Mbit/J.

    Returns:
        The unit, with its conversion factor.
    """
    return display_unit(measure.unit, scenario.bandwidth_hz)


def objective_unit(scenario: Scenario) -> DisplayUnit:
    """Unit in which the objective is displayed.

    Args:
        scenario: objective, utility and bandwidth.

    Returns:
        The unit of the measure for a weighted sum. Proportional fairness, a sum of logarithms of
        values in internal units, is dimensionless.
    """
    if not UTILITIES[scenario.utility].linear:
        return DisplayUnit("")
    return measure_unit(find_measure(scenario.objective).from_scenario(scenario), scenario)


@dataclass(frozen=True)
class Constraint:
    """Constraint E[measure_i] ≥ limit_i, or ≤ limit_i, on every worker i.

    For an upper limit :meth:`value` and :attr:`threshold` are negated, so that every constraint
    reads E[value_i] ≥ threshold_i.

    Attributes:
        measure: constrained measure.
        limit: limits, (L,), in the unit of the measure.
        at_most: whether the limit is an upper limit.
        active: workers with a limit, (L,) bool.

    >>> import feduplink as fu
    >>> rate = fu.Constraint.from_text("rate >= 0.7", fu.Scenario(workers=2))
    >>> rate.name, rate.limit
    ('rate', tensor([0.7000, 0.7000], dtype=torch.float64))
    """

    measure: AnyMeasure
    limit: Tensor
    at_most: bool
    active: Tensor

    @classmethod
    def at_least(
        cls, measure: AnyMeasure, limit: Tensor, active: Tensor | None = None
    ) -> Constraint:
        """Constraint E[measure_i] ≥ limit_i.

        Args:
            measure: constrained measure.
            limit: lower limits, (L,), in the unit of the measure.
            active: workers with a limit, (L,) bool; None: all.

        Returns:
            The constraint.
        """
        everyone = torch.ones(limit.shape, dtype=torch.bool)
        return cls(measure, limit, False, everyone if active is None else active)

    @classmethod
    def below(cls, measure: AnyMeasure, limit: Tensor) -> Constraint:
        """Constraint E[measure_i] ≤ limit_i on all workers.

        Args:
            measure: constrained measure.
            limit: upper limits, (L,), in the unit of the measure.

        Returns:
            The constraint.
        """
        return cls(measure, limit, True, torch.ones(limit.shape, dtype=torch.bool))

    @classmethod
    def from_text(cls, text: str, scenario: Scenario) -> Constraint:
        """Parse a constraint of a scenario.

        Args:
            text: ``NAME >= LIMIT`` or ``NAME <= LIMIT``, with the name of a measure and one limit,
                or one per worker separated by spaces.
            scenario: number of workers and constants of the measure.

        Returns:
            The constraint.

        Raises:
            InputError: if the text cannot be parsed or the measure is unknown.
        """
        parts = ConstraintText.parse(text, scenario.workers)
        measure = find_measure(parts.measure).from_scenario(scenario)
        limit = torch.tensor(parts.limits, dtype=torch.float64).expand(scenario.workers)
        return (cls.below if parts.at_most else cls.at_least)(measure, limit)

    @property
    def name(self) -> str:
        """Name of the measure."""
        return self.measure.name

    @property
    def threshold(self) -> Tensor:
        """Lower limit on the expectation of :meth:`value`, (L,)."""
        return -self.limit if self.at_most else self.limit

    @property
    def scale(self) -> Tensor:
        """Scale of relative shortfalls, (L,): |limit|, or 1 where the limit is 0."""
        size = self.limit.abs()
        return torch.where(size > 0, size, 1.0)

    @property
    def sign(self) -> float:
        """Sign of :meth:`value` relative to the measure: −1 for an upper limit, otherwise 1."""
        return -1.0 if self.at_most else 1.0

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Value of a separable measure, negated for an upper limit.

        Args:
            sinr: SINR, (..., L), linear.
            power: transmit powers, (..., L), W.

        Returns:
            Values, (..., L), in the unit of the measure.

        Raises:
            InputError: if the measure is not separable.
        """
        return self._signed(separable(self.measure).value(sinr, power))

    def of(self, state: LinkState) -> Tensor:
        """Value of the measure in a state of the uplink, negated for an upper limit.

        Args:
            state: the uplink in a batch of rounds.

        Returns:
            Values, (..., L), in the unit of the measure.
        """
        return self._signed(self.measure.of(state))

    def _signed(self, value: Tensor) -> Tensor:
        """The value, negated for an upper limit."""
        return -value if self.at_most else value

    def counted(self, power: Tensor) -> Tensor:
        """Mask of the worker-rounds that enter the mean.

        Args:
            power: transmit powers, (..., L), W.

        Returns:
            p > 0, or True everywhere if the measure has ``on_air_only = False``; (..., L) bool.
        """
        return power > 0 if self.measure.on_air_only else torch.ones_like(power, dtype=torch.bool)

    def mean(self, values: Tensor, power: Tensor) -> Tensor:
        """Mean over the counted rounds of a batch.

        Args:
            values: values of N rounds, (..., N, L).
            power: transmit powers, (..., N, L), W.

        Returns:
            Means, (..., L); NaN for a worker without a counted round.
        """
        counted = self.counted(power)
        return torch.where(counted, values, 0.0).sum(-2) / counted.sum(-2)

    def surplus(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Surplus value − threshold of counted rounds, 0 in the others.

        The constraint holds if and only if the mean surplus over all rounds is non-negative.

        Args:
            sinr: SINR, (..., L), linear.
            power: transmit powers, (..., L), W.

        Returns:
            Surplus, (..., L), in the unit of the measure.
        """
        difference = self.value(sinr, power) - self.threshold.to(power)
        return torch.where(self.counted(power), difference, 0.0)

    def shortfall(self, expected: Tensor) -> Tensor:
        """Relative shortfall (threshold − E[value]) / scale.

        Args:
            expected: E[value], (L,); NaN for a worker that never transmits.

        Returns:
            Shortfalls, (L,): positive where the constraint is violated, 0 for workers without a
            limit or an expectation.
        """
        missing = (self.threshold - expected) / self.scale
        return torch.where(self.active, missing.nan_to_num(nan=0.0), 0.0)

    def with_threshold(self, threshold: Tensor) -> Constraint:
        """Copy with another threshold.

        Args:
            threshold: lower limits on E[value], (L,).

        Returns:
            The constraint.
        """
        return replace(self, limit=-threshold if self.at_most else threshold)

    def with_margin(self, margin: float) -> Constraint:
        """Copy with a stricter limit.

        Args:
            margin: relative margin; the threshold becomes threshold + margin · |threshold|.

        Returns:
            The constraint.
        """
        return replace(self, limit=self.limit * (1 + self.sign * margin * self.limit.sign()))

    def relative(self) -> Constraint:
        """Constraint on the normalised measure, c/c0 ≥ 1.

        The normalisation gives constraints in different units, such as 0.7 nats/s/Hz and
        55 nats/s/Hz/W, the same scale. A limit of 0 is not normalised.

        Returns:
            The constraint, without a unit.
        """
        scale = self.scale
        return replace(self, measure=_ScaledMeasure(self.measure, scale), limit=self.limit / scale)


class _ScaledMeasure(SeparableMeasure):
    """A measure divided by a unit per worker, (L,)."""

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
    """Optimisation problem: maximise g(E[f]) subject to constraints.

    :meth:`from_scenario` builds the problem that a scenario describes.

    Args:
        objective: measure f.
        utility: utility g of the expectations E[f_i].
        constraints: at most one constraint per measure.

    Raises:
        InputError: if two constraints limit the same measure.

    >>> import feduplink as fu
    >>> problem = fu.Problem.from_scenario(fu.Scenario(workers=2))
    >>> problem.objective.name, [constraint.name for constraint in problem.constraints]
    ('psr', ['rate', 'energy_efficiency'])
    """

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
        """Problem that a scenario describes.

        Args:
            scenario: names of objective, utility and measures, weights and thresholds.

        Returns:
            The problem, with the constraints on rate and energy efficiency first.
        """
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
        """Whether any worker has a limit."""
        return any(bool(constraint.active.any()) for constraint in self.constraints)

    @property
    def thresholds(self) -> Tensor:
        """Thresholds of all constraints, (K, L)."""
        return self._stacked([constraint.threshold for constraint in self.constraints])

    @property
    def scales(self) -> Tensor:
        """Scales of all constraints, (K, L)."""
        return self._stacked([constraint.scale for constraint in self.constraints])

    @property
    def active(self) -> Tensor:
        """Mask of the workers with a limit in each constraint, (K, L) bool."""
        return self._stacked([constraint.active for constraint in self.constraints]).bool()

    def _stacked(self, rows: list[Tensor]) -> Tensor:
        """Rows (L,) of K constraints as a tensor (K, L), also for K = 0."""
        workers = len(self.utility.weights)
        return torch.stack(rows) if rows else torch.zeros(0, workers, dtype=torch.float64)

    def constraint_values(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Values of all constraints, each as :meth:`Constraint.value`.

        Args:
            sinr: SINR of N rounds, (N, L), linear.
            power: transmit powers, (N, L), W.

        Returns:
            Values, (K, N, L).
        """
        rows = [constraint.value(sinr, power) for constraint in self.constraints]
        return torch.stack(rows) if rows else power.new_zeros(0, *power.shape)

    def constraint_values_of(self, state: LinkState) -> Tensor:
        """Values of all constraints, each as :meth:`Constraint.of`.

        Args:
            state: the uplink in N rounds.

        Returns:
            Values, (K, N, L).
        """
        rows = [constraint.of(state) for constraint in self.constraints]
        return torch.stack(rows) if rows else state.power.new_zeros(0, *state.power.shape)

    def mean_surplus(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Mean surplus of every constraint and worker over N rounds.

        Args:
            sinr: SINR of N rounds, (N, L), linear.
            power: transmit powers, (N, L), W.

        Returns:
            Means of :meth:`Constraint.surplus`, (K, L); negative where a constraint is violated.
        """
        rows = [constraint.surplus(sinr, power).mean(0) for constraint in self.constraints]
        return torch.stack(rows) if rows else power.new_zeros(0, power.shape[-1])

    def objective_values(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Objective measure f of every worker.

        Args:
            sinr: SINR, (..., L), linear.
            power: transmit powers, (..., L), W.

        Returns:
            Values, (..., L), in the unit of the objective.

        Raises:
            InputError: if the objective is not separable.
        """
        return separable(self.objective).value(sinr, power)

    def utility_of(self, state: LinkState) -> Tensor:
        """Utility g(E[f]) of the mean objective over N rounds.

        Args:
            state: the uplink in N rounds.

        Returns:
            The utility, ().
        """
        return self.utility.value(self.objective.of(state).mean(0))

    def with_thresholds(self, thresholds: Tensor) -> Problem:
        """Copy with other thresholds.

        Args:
            thresholds: (K, L), as in :attr:`thresholds`.

        Returns:
            The problem.
        """
        pairs = zip(self.constraints, thresholds, strict=True)
        return replace(self, constraints=tuple(c.with_threshold(row) for c, row in pairs))

    def with_margin(self, margin: float) -> Problem:
        """Copy with stricter limits, each as :meth:`Constraint.with_margin`.

        Args:
            margin: relative margin.

        Returns:
            The problem.
        """
        return replace(self, constraints=tuple(c.with_margin(margin) for c in self.constraints))


def separable(measure: AnyMeasure) -> SeparableMeasure:
    """Check that a measure depends on a worker's own SINR and power only.

    Args:
        measure: any measure.

    Returns:
        The measure.

    Raises:
        InputError: if it is not a :class:`feduplink.SeparableMeasure`.
    """
    if not isinstance(measure, SeparableMeasure):
        raise InputError(
            f"measure: {measure.name} depends on the whole upload; accepted in the Lagrangian "
            "(dual, pdx, optimum): a subclass of feduplink.SeparableMeasure."
        )
    return measure
