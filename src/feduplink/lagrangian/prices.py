"""Multipliers of the constraints, and the prices they put on success, rate and energy efficiency.

With multipliers λ_k of the constraints E[1_k (c_k − c0_k)] ≥ 0, where 1_k is 1(p_i > 0) for a
measure of the rounds in which the worker transmits and 1 for a measure of all rounds, the
Lagrangian of a channel is

    Σ_i ω_i f_i + Σ_k 1_k λ_ki (c_ki − c0_ki),

because E[R_i | p_i > 0] ≥ r0_i is equivalent to E[1(p_i > 0) (R_i − r0_i)] ≥ 0. With the objective
and the constraints among packet success, rate and energy efficiency this is

    Σ_i a_i PSR_i + b_i R_i + c_i EE_i − 1(p_i > 0) d_i

with prices a, b, c and an activation cost d. Each other measure adds a term, and each constraint
over all rounds the constant −Σ λ c0. A price e on transmit power, as in the search for schedules of
low energy, adds −e_i p_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.link import (
    AnyMeasure,
    EnergyEfficiency,
    PacketSuccess,
    Rate,
    SeparableMeasure,
)
from feduplink.problem import Problem, separable
from feduplink.scenario import Scenario
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Prices(TensorRecord):
    """Prices of the quantities in the Lagrangian of a channel.

    The Lagrangian is Σ_i a_i PSR_i + b_i R_i + c_i EE_i − 1(p_i > 0) d_i − e_i p_i plus price times
    value of each further measure. All prices are (L,), or (N, L) if every channel has its own.

    Attributes:
        success: a, price of the packet success rate.
        rate: b, price per nats/s/Hz.
        efficiency: c, price of the energy efficiency per nats/s/Hz/W.
        activation_cost: d, cost of transmitting at any power.
        others: further measures with their prices, negative for upper limits.
        power_cost: e, cost per W of transmit power; None: no cost.
    """

    success: Tensor
    rate: Tensor
    efficiency: Tensor
    activation_cost: Tensor
    others: tuple[tuple[SeparableMeasure, Tensor], ...] = ()
    power_cost: Tensor | None = None

    @classmethod
    def from_problem(cls, problem: Problem, scenario: Scenario, multipliers: Multipliers) -> Prices:
        """Compute the prices of a problem at given multipliers.

        Args:
            problem: objective and K constraints for L workers.
            scenario: the constants of the radio.
            multipliers: λ, (K, L), and the weight of the objective, (L,).

        Raises:
            InputError: if a measure outside packet success, rate and energy efficiency is not
                separable or not 0 for a silent worker.
        """
        weight = multipliers.objective_weight.to(multipliers.constraints)
        prices = cls(*torch.zeros_like(weight).expand(4, -1))
        for constraint, multiplier in zip(
            problem.constraints, multipliers.constraints, strict=True
        ):
            signed = -multiplier if constraint.at_most else multiplier
            prices = prices._with(constraint.measure, signed, scenario)
            if constraint.measure.on_air_only:
                cost = multiplier * constraint.threshold.to(multiplier)
                prices = replace(prices, activation_cost=prices.activation_cost + cost)
        return prices._with(problem.objective, weight, scenario)

    def _with(self, measure: AnyMeasure, price: Tensor, scenario: Scenario) -> Prices:
        """Return the prices with ``price`` added to that of a measure."""
        if own := price_of(measure, scenario):
            return replace(self, **{own: getattr(self, own) + price})
        other, zero = separable(measure), torch.zeros(1, dtype=torch.float64)
        if bool((other.value(zero, zero) != 0).any()):
            raise InputError(
                f"measure: {measure.name} is not 0 for a silent worker; accepted in the "
                "Lagrangian: measures that are 0 at zero power."
            )
        return replace(self, others=(*self.others, (other, price)))

    def take(self, index: Tensor | slice) -> Prices:
        """Return the prices of some channels; the same object if all channels share them."""
        if not self._per_channel:
            return self
        return self._map(lambda price: price[index] if price.ndim > 1 else price)

    @cached_property
    def on_success(self) -> bool:
        """Whether the packet success rate has a price other than 0."""
        return bool((self.success != 0).any())

    @cached_property
    def on_efficiency(self) -> bool:
        """Whether the energy efficiency has a price other than 0."""
        return bool((self.efficiency != 0).any())

    @cached_property
    def _per_channel(self) -> bool:
        own = (self.success, self.rate, self.efficiency, self.activation_cost)
        prices = [*own, *(price for _, price in self.others)]
        if self.power_cost is not None:
            prices.append(self.power_cost)
        return any(price.ndim > 1 for price in prices)

    def check_usual(self, who: str) -> None:
        """Check that only success, rate and efficiency have prices, none of them negative.

        Args:
            who: name of the method at the start of the error message.

        Raises:
            InputError: for further measures, a price on power or upper limits.
        """
        if self.others:
            raise InputError(
                f"{who}: the measure {self.others[0][0].name} was given; accepted: packet success, "
                "rate and energy efficiency."
            )
        if self.power_cost is not None:
            raise InputError(
                f"{who}: a price on transmit power was given; accepted: prices on packet success, "
                "rate and energy efficiency."
            )
        if any(bool((p < 0).any()) for p in (self.success, self.rate, self.efficiency)):
            raise InputError(
                f"{who}: an upper limit was given; accepted: lower limits on rate and energy "
                "efficiency."
            )


def price_of(measure: AnyMeasure, scenario: Scenario) -> str | None:
    """Return the field of :class:`Prices` that prices a measure: success, rate or efficiency.

    None for other measures, and for measures whose constants differ from the scenario's.
    """
    if type(measure) is Rate:
        return "rate"
    if type(measure) is PacketSuccess and measure.waterfall == scenario.waterfall:
        return "success"
    if (
        type(measure) is EnergyEfficiency
        and measure.amplifier_inefficiency == scenario.amplifier_inefficiency
        and torch.equal(measure.static_power_w, scenario.static_power)
    ):
        return "efficiency"
    return None


@dataclass(frozen=True)
class Multipliers(TensorRecord):
    """A point of the dual problem.

    Attributes:
        constraints: λ ≥ 0, (K, L), each per unit of its measure.
        objective_weight: weight of the objective's measure per worker, (L,): ω or ∇g(y).
    """

    constraints: Tensor
    objective_weight: Tensor

    def offset(self, problem: Problem) -> float:
        """Constant −Σ λ c0 that the constraints over all rounds add to every Lagrangian."""
        return -sum(
            float((multiplier * constraint.threshold.to(multiplier)).sum())
            for constraint, multiplier in zip(problem.constraints, self.constraints, strict=True)
            if not constraint.measure.on_air_only
        )


@dataclass(frozen=True)
class DualPoint(TensorRecord):
    """Multipliers with the thresholds for which they were computed.

    Attributes:
        multipliers: of K constraints and L workers.
        thresholds: thresholds of the constraints, (K, L): those of the problem, or slightly
            stricter ones, so that unseen channels satisfy the problem's as well.
    """

    multipliers: Multipliers
    thresholds: Tensor

    def for_workers(self, workers: int) -> DualPoint:
        """Return the dual point of ``workers`` identical workers with the mean multipliers."""
        return self._map(lambda own: own.mean(-1, keepdim=True).expand(*own.shape[:-1], workers))

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, for storage."""
        return {
            "constraints": self.multipliers.constraints,
            "objective_weight": self.multipliers.objective_weight,
            "thresholds": self.thresholds,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> DualPoint:
        """Restore from the result of :meth:`tensors`; other tensors are ignored."""
        multipliers = Multipliers(tensors["constraints"], tensors["objective_weight"])
        return cls(multipliers, tensors["thresholds"])

    def check(self, constraints: int, workers: int) -> None:
        """Check the tensors against a problem with K constraints and L workers.

        Raises:
            InputError: if a shape differs, or a number is not finite or negative.
        """
        shape = (constraints, workers)
        for name, tensor in self.tensors().items():
            expected = shape[1:] if name == "objective_weight" else shape
            if tensor.shape != expected:
                raise InputError(
                    f"multipliers: {name} has shape {tuple(tensor.shape)}; accepted: {expected}."
                )
            if not bool(tensor.isfinite().all()):
                raise InputError(
                    f"multipliers: {name} contains NaN or infinity; accepted: finite numbers."
                )
        if bool((self.multipliers.constraints < 0).any()):
            raise InputError("multipliers: a negative number was given; accepted: 0 or more.")

    def prices(self, problem: Problem, scenario: Scenario) -> Prices:
        """Prices of all quantities in the Lagrangian of one channel.

        Args:
            problem: objective and constraints; its thresholds are replaced by those of this point.
            scenario: the constants of the radio.
        """
        aim = problem.with_thresholds(self.thresholds)
        return Prices.from_problem(aim, scenario, self.multipliers)
