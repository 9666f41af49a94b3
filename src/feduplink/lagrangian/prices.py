"""Multipliers of the constraints, and the prices they put on success, rate and efficiency of a
channel.

With multipliers λ_k on the constraints E[1_k (c_k − c0_k)] ≥ 0, where 1_k is 1(p_i > 0) for a
measure of the rounds on the air and 1 for one of all rounds, the Lagrangian of a channel is

    Σ_i ω_i f_i + Σ_k 1_k λ_ki (c_ki − c0_ki),

because E[R_i | p_i > 0] ≥ r0_i is the same as E[1(p_i > 0) (R_i − r0_i)] ≥ 0. With the objective
and the constraints among packet success, rate and energy efficiency this is

    Σ_i a_i PSR_i + b_i R_i + c_i EE_i − 1(p_i > 0) d_i

with prices a, b, c and an activation cost d; other measures add a term each, and constraints over
all rounds the constant −Σ λ c0. Where transmit power itself costs, as in a round that is to take
little energy, there is also −e_i p_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.link import EnergyEfficiency, Measure, PacketSuccess, Rate
from feduplink.problem import Problem
from feduplink.scenario import Scenario
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Prices(TensorRecord):
    """Prices of one unit of each quantity, (L,) each; (N, L) if channels have their own.

    Attributes:
        success: a, on the packet success rate.
        rate: b, on the rate in nats/s/Hz.
        efficiency: c, on the energy efficiency in nats/s/Hz/W.
        activation_cost: d, what being on the air costs.
        others: further measures with their prices, below 0 for what has an upper limit.
        power_cost: e, what a watt costs; None is nothing.

    """

    success: Tensor
    rate: Tensor
    efficiency: Tensor
    activation_cost: Tensor
    others: tuple[tuple[Measure, Tensor], ...] = ()
    power_cost: Tensor | None = None

    @classmethod
    def from_problem(cls, problem: Problem, scenario: Scenario, multipliers: Multipliers) -> Prices:
        """Prices of a problem at some multipliers; ``scenario`` has the radio's constants."""
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

    def _with(self, measure: Measure, price: Tensor, scenario: Scenario) -> Prices:
        """With ``price`` more on a measure."""
        if own := price_of(measure, scenario):
            return replace(self, **{own: getattr(self, own) + price})
        nothing = torch.zeros(1, dtype=torch.float64)
        if bool((measure.value(nothing, nothing) != 0).any()):
            raise InputError(
                f"measure: {measure.name} is not 0 for a silent worker; accepted in the "
                "Lagrangian: measures that are."
            )
        return replace(self, others=(*self.others, (measure, price)))

    def take(self, index: Tensor | slice) -> Prices:
        """Return the prices of some channels; the same object if all channels share them."""
        if not self._per_channel:
            return self
        return self._map(lambda price: price[index] if price.ndim > 1 else price)

    @cached_property
    def on_success(self) -> bool:
        """Whether success has a price; if not, nobody needs to compute it."""
        return bool((self.success != 0).any())

    @cached_property
    def on_efficiency(self) -> bool:
        """Whether energy efficiency has a price."""
        return bool((self.efficiency != 0).any())

    @cached_property
    def _per_channel(self) -> bool:
        own = (self.success, self.rate, self.efficiency, self.activation_cost)
        prices = [*own, *(price for _, price in self.others)]
        if self.power_cost is not None:
            prices.append(self.power_cost)
        return any(price.ndim > 1 for price in prices)

    def check_usual(self, who: str) -> None:
        """Refuse, in the name of ``who``, measures and limits that only the search can price."""
        if self.others:
            raise InputError(
                f"{who}: knows packet success, rate and energy efficiency; not accepted: "
                f"{self.others[0][0].name}."
            )
        if self.power_cost is not None:
            raise InputError(f"{who}: takes no price on transmit power.")
        if any(bool((p < 0).any()) for p in (self.success, self.rate, self.efficiency)):
            raise InputError(
                f"{who}: takes lower limits on rate and energy efficiency; not accepted: upper "
                "ones."
            )


def price_of(measure: Measure, scenario: Scenario) -> str | None:
    """Return the field of :class:`Prices` that prices a measure: success, rate or efficiency.

    None for other measures, and for those with other constants than the scenario's.
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
        constraints: λ, (K, L), each per unit of its measure.
        objective_weight: what one unit of the objective's measure is worth, (L,); ω or ∇g(y).

    """

    constraints: Tensor
    objective_weight: Tensor

    def offset(self, problem: Problem) -> float:
        """−Σ λ c0 over the constraints on all rounds: what they add to every Lagrangian."""
        return -sum(
            float((multiplier * constraint.threshold.to(multiplier)).sum())
            for constraint, multiplier in zip(problem.constraints, self.constraints, strict=True)
            if not constraint.measure.on_air_only
        )


@dataclass(frozen=True)
class DualPoint(TensorRecord):
    """Multipliers, and the thresholds that they were found for.

    Attributes:
        multipliers: of K constraints and L workers.
        thresholds: what the constraints aim at, (K, L): those of the problem, or a little
            stricter, so that unseen channels meet the problem's too.

    """

    multipliers: Multipliers
    thresholds: Tensor

    def for_workers(self, workers: int) -> DualPoint:
        """For so many average workers."""
        return self._map(lambda own: own.mean(-1, keepdim=True).expand(*own.shape[:-1], workers))

    def tensors(self) -> dict[str, Tensor]:
        """By name, to be stored."""
        return {
            "constraints": self.multipliers.constraints,
            "objective_weight": self.multipliers.objective_weight,
            "thresholds": self.thresholds,
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> DualPoint:
        """Inverse of :meth:`tensors`; other tensors are not looked at."""
        multipliers = Multipliers(tensors["constraints"], tensors["objective_weight"])
        return cls(multipliers, tensors["thresholds"])

    def check(self, constraints: int, workers: int) -> None:
        """Refuse what cannot be a point of a problem with K constraints and L workers."""
        shape = (constraints, workers)
        for name, tensor in self.tensors().items():
            expected = shape[1:] if name == "objective_weight" else shape
            if tensor.shape != expected:
                raise InputError(
                    f"multipliers: {name} has shape {tuple(tensor.shape)}; accepted: {expected}."
                )
            if not bool(tensor.isfinite().all()):
                raise InputError(f"multipliers: {name} has NaN or infinity; accepted: numbers.")
        if bool((self.multipliers.constraints < 0).any()):
            raise InputError("multipliers: one is negative; accepted: 0 or more.")

    def prices(self, problem: Problem, scenario: Scenario) -> Prices:
        """Of every quantity in the Lagrangian of one channel."""
        aim = problem.with_thresholds(self.thresholds)
        return Prices.from_problem(aim, scenario, self.multipliers)
