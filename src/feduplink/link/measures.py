"""Measures: quantities of a worker's link that may be an objective or a constraint.

:class:`SeparableMeasure` is a function of a worker's SINR and power, which the search for the
optimum, Newton steps and bounds need; its slopes come from automatic differentiation unless it
gives them. :class:`Measure` is a function of the whole :class:`~feduplink.link.state.LinkState`,
for everything else. As an objective or a constraint of a scenario a measure of one's own goes by
its registered name or by ``package.module:Class``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.link import quality
from feduplink.registry import MEASURES, class_name

if TYPE_CHECKING:
    from feduplink.link.state import LinkState
    from feduplink.scenario import Scenario


@dataclass(frozen=True)
class Slopes:
    """Partial derivatives of a function of s = ln SINR and t = ln p, (..., L) each."""

    s: Tensor
    ss: Tensor
    t: Tensor
    st: Tensor
    tt: Tensor

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(
            self.s + other.s,
            self.ss + other.ss,
            self.t + other.t,
            self.st + other.st,
            self.tt + other.tt,
        )

    def __rmul__(self, factor: Tensor) -> Slopes:
        return Slopes(
            factor * self.s,
            factor * self.ss,
            factor * self.t,
            factor * self.st,
            factor * self.tt,
        )


class AnyMeasure(ABC):
    """Base class of :class:`Measure` and :class:`SeparableMeasure`.

    Attributes:
        name: name in files and errors; by default that of the class.
        symbol: name in columns of tables and on axes; by default ``name``.
        unit: of its values; empty for a pure number.
        on_air_only: whether its mean is over the rounds in which the worker transmits, as for a
            rate, or over all rounds, as for an average power; there a silent worker counts with
            its value at power 0.
    """

    name: ClassVar[str] = class_name()
    symbol: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    on_air_only: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The symbol, or the name."""
        return self.symbol or self.name

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> Self:
        """The measure with the constants of a scenario's radio."""
        return cls()

    @abstractmethod
    def of(self, state: LinkState) -> Tensor:
        """The measure of every worker, (..., L); differentiable."""


class Measure(AnyMeasure):
    """A quantity of every worker's link that may depend on the whole upload.

    Policies can be judged by it and trained for it with first-order methods. The Lagrangian, and
    with it ``dual``, ``pdx`` and the search for the optimum, needs a :class:`SeparableMeasure`.
    """

    @abstractmethod
    def value(self, state: LinkState) -> Tensor:
        """The measure of every worker, (..., L); differentiable."""

    def of(self, state: LinkState) -> Tensor:
        """The measure of every worker, (..., L)."""
        return self.value(state)


class SeparableMeasure(AnyMeasure):
    """A quantity of a worker's link that depends on its own SINR and power alone.

    Attributes:
        per_bandwidth: whether it is proportional to the bandwidth, as a rate is: under OFDMA it
            counts with the worker's share of the band.
        convex_in_log_power: whether it depends on the power alone, does not fall with it, and is
            convex in ln p, as p itself is; the certificate then proves bounds with an upper limit
            on it.
        monotone_in_sinr: 1 if it does not fall with the SINR, −1 if it does not rise, 0 if it does
            not depend on it, all at a fixed power; None if nothing is known.
        monotone_in_power: the same of the power, at a fixed SINR. With both known, the certificate
            proves bounds with the measure, whatever the limits on it.

    A silent worker must have the value 0, or the search for the optimum refuses the measure.

    """

    per_bandwidth: ClassVar[bool] = False
    convex_in_log_power: ClassVar[bool] = False
    monotone_in_sinr: ClassVar[Literal[-1, 0, 1] | None] = None
    monotone_in_power: ClassVar[Literal[-1, 0, 1] | None] = None

    @abstractmethod
    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """The measure at SINRs and powers in W, all (..., L); differentiable."""

    def of(self, state: LinkState) -> Tensor:
        """The measure of every worker, (..., L)."""
        value = self.value(state.sinr, state.power)
        if self.per_bandwidth and state.band_share is not None:
            return value * state.band_share
        return value

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """Its derivatives in s = ln SINR and t = ln p, at SINRs and powers above 0."""
        with torch.enable_grad():
            s = sinr.detach().log().requires_grad_()
            t = power.detach().log().requires_grad_()
            value = self.value(s.exp(), t.exp())
            # Workers do not interact, so the gradient of the sum holds that of each.
            by_s, by_t = _gradients(value, (s, t))
            by_ss, by_st = _gradients(by_s, (s, t))
            by_tt = _gradients(by_t, (t,))[0]
        return Slopes(*(part.detach() for part in (by_s, by_ss, by_t, by_st, by_tt)))

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor | None:
        """Its largest value without interference, at direct gain α and powers up to Pmax, (..., L).

        None if that is not known; the bound on all policies does without it then.
        """
        return None


def _gradients(value: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Of the sum of ``value``; zero in what it does not depend on."""
    if not value.requires_grad:
        return tuple(torch.zeros_like(part) for part in inputs)
    return torch.autograd.grad(
        value.sum(), inputs, create_graph=True, allow_unused=True, materialize_grads=True
    )


class SuccessRate(SeparableMeasure):
    """The probability that an upload arrives.

    As the objective it also is what decides whether one does, see
    :func:`success_rate`.
    """

    def error(self, sinr: Tensor, power: Tensor) -> Tensor:
        """The probability that it is lost."""
        return 1 - self.value(sinr, power)


@dataclass(frozen=True)
class PacketSuccess(SuccessRate):
    """PSR = exp(−m / SINR), the share of uploads that arrive."""

    name: ClassVar[str] = "psr"
    symbol: ClassVar[str] = "PSR"
    monotone_in_sinr: ClassVar[Literal[-1, 0, 1] | None] = 1
    monotone_in_power: ClassVar[Literal[-1, 0, 1] | None] = 0

    waterfall: float

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> PacketSuccess:
        """With the scenario's waterfall threshold m."""
        return cls(scenario.waterfall)

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """PSR."""
        return quality.packet_success_rate(sinr, self.waterfall)

    def error(self, sinr: Tensor, power: Tensor) -> Tensor:
        """PER, exact also where it is tiny."""
        return quality.packet_error_rate(sinr, self.waterfall)

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """In closed form."""
        slope, bend = quality.success_slopes(sinr, self.waterfall, torch.ones_like(sinr))
        nothing = torch.zeros_like(sinr)
        return Slopes(slope, bend, nothing, nothing, nothing)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """That of full power."""
        power = pmax_w.to(gain).expand_as(gain)
        return self.value(gain * power, power)


@dataclass(frozen=True)
class Rate(SeparableMeasure):
    """R = ln(1 + SINR), the spectral efficiency."""

    name: ClassVar[str] = "rate"
    unit: ClassVar[str] = "nats/s/Hz"
    per_bandwidth: ClassVar[bool] = True
    monotone_in_sinr: ClassVar[Literal[-1, 0, 1] | None] = 1
    monotone_in_power: ClassVar[Literal[-1, 0, 1] | None] = 0

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """R."""
        return quality.rate(sinr)

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """In closed form."""
        slope, bend = quality.rate_slopes(sinr, torch.ones_like(sinr))
        nothing = torch.zeros_like(sinr)
        return Slopes(slope, bend, nothing, nothing, nothing)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """That of full power."""
        return self.value(gain * pmax_w.to(gain).expand_as(gain), pmax_w)


@dataclass(frozen=True, eq=False)
class EnergyEfficiency(SeparableMeasure):
    """EE = R / (μ p + P_c), what a worker sends for its energy."""

    name: ClassVar[str] = "energy_efficiency"
    symbol: ClassVar[str] = "EE"
    unit: ClassVar[str] = "nats/s/Hz/W"
    per_bandwidth: ClassVar[bool] = True
    monotone_in_sinr: ClassVar[Literal[-1, 0, 1] | None] = 1
    monotone_in_power: ClassVar[Literal[-1, 0, 1] | None] = -1

    static_power_w: Tensor
    amplifier_inefficiency: float

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> EnergyEfficiency:
        """With the scenario's P_c, () or (L,), and μ."""
        return cls(scenario.static_power, scenario.amplifier_inefficiency)

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """EE."""
        return quality.efficiency_of_rate(
            quality.rate(sinr), power, self.static_power_w.to(power), self.amplifier_inefficiency
        )

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """In closed form."""
        q, q_t, q_tt = quality.inverse_draw(
            power, self.static_power_w.to(power), self.amplifier_inefficiency
        )
        slope, bend = quality.rate_slopes(sinr, torch.ones_like(sinr))
        rate = quality.rate(sinr)
        return Slopes(q * slope, q * bend, rate * q_t, slope * q_t, rate * q_tt)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """That of the most efficient power up to Pmax."""
        best = quality.most_efficient_power(
            gain, self.static_power_w.to(gain), self.amplifier_inefficiency
        )
        power = torch.minimum(pmax_w.to(gain).expand_as(gain), best)
        return self.value(gain * power, power)


def success_rate(objective: AnyMeasure, scenario: Scenario) -> SuccessRate:
    """The success rate that decides arrivals: the objective if it is one, else the waterfall."""
    if isinstance(objective, SuccessRate):
        return objective
    return PacketSuccess.from_scenario(scenario)


def find_measure(name: str) -> type[AnyMeasure]:
    """The class of a measure by its registered name or ``package.module:Class``."""
    found = MEASURES.find(name)
    if not (isinstance(found, type) and issubclass(found, AnyMeasure)):
        raise InputError(
            f"measure: {name} is {found!r}; accepted: a subclass of feduplink.SeparableMeasure or "
            "feduplink.Measure."
        )
    return found
