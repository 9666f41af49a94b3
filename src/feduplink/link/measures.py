"""Measures: quantities of a worker's link, used in objectives and constraints.

A :class:`SeparableMeasure` is a function of a worker's own SINR and power, as the search for the
optimum, Newton steps and bounds require. Its derivatives are computed by automatic differentiation
unless the class provides them. A :class:`Measure` is a function of the whole
:class:`~feduplink.link.state.LinkState`. A scenario refers to a user-defined measure by its
registered name or by ``package.module:Class``.
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
    """Partial derivatives of a function of s = ln SINR and t = ln p, (..., L) each.

    Attributes:
        s: ∂/∂s.
        ss: ∂²/∂s².
        t: ∂/∂t.
        st: ∂²/∂s∂t.
        tt: ∂²/∂t².
    """

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
        name: name in files and errors; by default the name of the class.
        symbol: name in table headers and on axes; by default ``name``.
        unit: unit of the values; empty for a dimensionless measure.
        on_air_only: whether expectations are conditional on transmission, E[c | p > 0], as for a
            rate. If False they are over all rounds, with the value at p = 0 for a silent worker,
            as for an average power.
    """

    name: ClassVar[str] = class_name()
    symbol: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    on_air_only: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """Symbol, or else the name."""
        return self.symbol or self.name

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> Self:
        """Create the measure with the constants of a scenario.

        Args:
            scenario: constants of the radio.

        Returns:
            The measure; by default one without constants.
        """
        return cls()

    @abstractmethod
    def of(self, state: LinkState) -> Tensor:
        """Value of the measure in a state of the uplink; differentiable.

        Args:
            state: the uplink in a batch of rounds.

        Returns:
            Values, (..., L), in the unit of the measure.
        """


class Measure(AnyMeasure):
    """Base class of measures that may depend on the whole upload, such as airtime or energy.

    Policies can be judged with such a measure and trained for it by first-order methods. ``dual``,
    ``pdx`` and the search for the optimum require a :class:`SeparableMeasure`.

    Attributes:
        name: name in files and errors; by default the name of the class.
        symbol: name in table headers and on axes; by default ``name``.
        unit: unit of the values; empty for a dimensionless measure.
        on_air_only: whether expectations are conditional on transmission.

    >>> import feduplink as fu
    >>> class Airtime(fu.Measure):
    ...     unit = "s"
    ...     def value(self, state):
    ...         return state.airtime_s
    >>> state = fu.link.upload(torch.eye(2), torch.tensor([1.0, 0.0]), fu.Scenario(workers=2))
    >>> Airtime().of(state) > 0
    tensor([ True, False])
    """

    @abstractmethod
    def value(self, state: LinkState) -> Tensor:
        """Value of the measure for every worker; differentiable.

        Args:
            state: the uplink in a batch of rounds.

        Returns:
            Values, (..., L), in the unit of the measure.
        """

    def of(self, state: LinkState) -> Tensor:
        """Value of the measure in a state of the uplink, see :meth:`value`."""
        return self.value(state)


class SeparableMeasure(AnyMeasure):
    """Base class of measures that depend on a worker's own SINR and power only.

    The value at power 0 must be 0, otherwise the search for the optimum rejects the measure.

    Attributes:
        name: name in files and errors; by default the name of the class.
        symbol: name in table headers and on axes; by default ``name``.
        unit: unit of the values; empty for a dimensionless measure.
        on_air_only: whether expectations are conditional on transmission.
        per_bandwidth: whether the measure is proportional to the bandwidth, as a rate is. Under
            OFDMA it is multiplied by the worker's share of the band.
        convex_in_log_power: whether the measure depends on the power only, is non-decreasing in it
            and convex in ln p. The bounds of the optimum then support upper limits on it.
        monotone_in_sinr: at fixed power, 1 if non-decreasing in the SINR, −1 if non-increasing, 0
            if independent of it; None if unknown.
        monotone_in_power: the same for the power, at fixed SINR. The bounds of the optimum support
            any limits on a measure if both are known.

    >>> import feduplink as fu
    >>> class SpectralEfficiency(fu.SeparableMeasure):
    ...     unit = "bit/s/Hz"
    ...     monotone_in_sinr, monotone_in_power = 1, 0
    ...     def value(self, sinr, power):
    ...         return torch.log2(1 + sinr)
    >>> SpectralEfficiency().value(torch.tensor([1.0, 3.0]), torch.tensor([0.01, 0.01]))
    tensor([1., 2.])
    """

    per_bandwidth: ClassVar[bool] = False
    convex_in_log_power: ClassVar[bool] = False
    monotone_in_sinr: ClassVar[Literal[-1, 0, 1] | None] = None
    monotone_in_power: ClassVar[Literal[-1, 0, 1] | None] = None

    @abstractmethod
    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Value of the measure for every worker; differentiable.

        Args:
            sinr: SINR, (..., L), linear.
            power: transmit powers, (..., L), W.

        Returns:
            Values, (..., L), in the unit of the measure.
        """

    def of(self, state: LinkState) -> Tensor:
        """Value of the measure in a state of the uplink, multiplied by the share of the band.

        Args:
            state: the uplink in a batch of rounds.

        Returns:
            Values, (..., L), in the unit of the measure.
        """
        value = self.value(state.sinr, state.power)
        if self.per_bandwidth and state.band_share is not None:
            return value * state.band_share
        return value

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """Derivatives of :meth:`value` in s = ln SINR and t = ln p.

        Args:
            sinr: positive SINR, (..., L), linear.
            power: positive transmit powers, (..., L), W.

        Returns:
            First and second derivatives, (..., L) each, by automatic differentiation.
        """
        with torch.enable_grad():
            s = sinr.detach().log().requires_grad_()
            t = power.detach().log().requires_grad_()
            value = self.value(s.exp(), t.exp())
            # The values of workers are independent: the gradient of their sum has the derivative
            # of each.
            by_s, by_t = _gradients(value, (s, t))
            by_ss, by_st = _gradients(by_s, (s, t))
            by_tt = _gradients(by_t, (t,))[0]
        return Slopes(*(part.detach() for part in (by_s, by_ss, by_t, by_st, by_tt)))

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor | None:
        """Maximum value without interference, over powers up to Pmax.

        Args:
            gain: direct gains α, (..., L), in 1/W.
            pmax_w: Pmax, () or (L,), W.

        Returns:
            Maxima, (..., L); None if unknown, in which case the bounds do not use them.
        """
        return None


def _gradients(value: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Gradients of the sum of ``value``; zero for inputs on which it does not depend."""
    if not value.requires_grad:
        return tuple(torch.zeros_like(part) for part in inputs)
    return torch.autograd.grad(
        value.sum(), inputs, create_graph=True, allow_unused=True, materialize_grads=True
    )


class SuccessRate(SeparableMeasure):
    """Base class of probabilities that an upload arrives.

    If it is the objective, it also determines arrivals in federations, see :func:`success_rate`.
    """

    def error(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Probability that the upload is lost, (..., L)."""
        return 1 - self.value(sinr, power)


@dataclass(frozen=True)
class PacketSuccess(SuccessRate):
    """Packet success rate, PSR = exp(−m / SINR).

    Attributes:
        waterfall: waterfall threshold m.
    """

    name: ClassVar[str] = "psr"
    symbol: ClassVar[str] = "PSR"
    monotone_in_sinr: ClassVar[Literal[-1, 0, 1] | None] = 1
    monotone_in_power: ClassVar[Literal[-1, 0, 1] | None] = 0

    waterfall: float

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> PacketSuccess:
        """Measure with the waterfall threshold m of the scenario."""
        return cls(scenario.waterfall)

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """PSR, (..., L)."""
        return quality.packet_success_rate(sinr, self.waterfall)

    def error(self, sinr: Tensor, power: Tensor) -> Tensor:
        """PER, (..., L), without cancellation for small values."""
        return quality.packet_error_rate(sinr, self.waterfall)

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """Derivatives in closed form."""
        slope, bend = quality.success_slopes(sinr, self.waterfall, torch.ones_like(sinr))
        nothing = torch.zeros_like(sinr)
        return Slopes(slope, bend, nothing, nothing, nothing)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """PSR at Pmax, (..., L)."""
        power = pmax_w.to(gain).expand_as(gain)
        return self.value(gain * power, power)


@dataclass(frozen=True)
class Rate(SeparableMeasure):
    """Rate (spectral efficiency), R = ln(1 + SINR), nats/s/Hz."""

    name: ClassVar[str] = "rate"
    unit: ClassVar[str] = "nats/s/Hz"
    per_bandwidth: ClassVar[bool] = True
    monotone_in_sinr: ClassVar[Literal[-1, 0, 1] | None] = 1
    monotone_in_power: ClassVar[Literal[-1, 0, 1] | None] = 0

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """R, (..., L), nats/s/Hz."""
        return quality.rate(sinr)

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """Derivatives in closed form."""
        slope, bend = quality.rate_slopes(sinr, torch.ones_like(sinr))
        nothing = torch.zeros_like(sinr)
        return Slopes(slope, bend, nothing, nothing, nothing)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """Rate at Pmax, (..., L), nats/s/Hz."""
        return self.value(gain * pmax_w.to(gain).expand_as(gain), pmax_w)


@dataclass(frozen=True, eq=False)
class EnergyEfficiency(SeparableMeasure):
    """Energy efficiency, EE = R / (μ p + P_c), nats/s/Hz/W.

    Attributes:
        static_power_w: static power P_c, () or (L,), W.
        amplifier_inefficiency: amplifier inefficiency μ.
    """

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
        """Measure with the static power P_c and the amplifier inefficiency μ of the scenario."""
        return cls(scenario.static_power, scenario.amplifier_inefficiency)

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """EE, (..., L), nats/s/Hz/W."""
        return quality.efficiency_of_rate(
            quality.rate(sinr), power, self.static_power_w.to(power), self.amplifier_inefficiency
        )

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """Derivatives in closed form."""
        q, q_t, q_tt = quality.inverse_draw(
            power, self.static_power_w.to(power), self.amplifier_inefficiency
        )
        slope, bend = quality.rate_slopes(sinr, torch.ones_like(sinr))
        rate = quality.rate(sinr)
        return Slopes(q * slope, q * bend, rate * q_t, slope * q_t, rate * q_tt)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """EE at the most efficient power up to Pmax, (..., L), nats/s/Hz/W."""
        best = quality.most_efficient_power(
            gain, self.static_power_w.to(gain), self.amplifier_inefficiency
        )
        power = torch.minimum(pmax_w.to(gain).expand_as(gain), best)
        return self.value(gain * power, power)


def success_rate(objective: AnyMeasure, scenario: Scenario) -> SuccessRate:
    """Success rate that determines arrivals.

    Args:
        objective: measure in the objective.
        scenario: the radio.

    Returns:
        The objective if it is a :class:`SuccessRate`, otherwise the PSR of the scenario.
    """
    if isinstance(objective, SuccessRate):
        return objective
    return PacketSuccess.from_scenario(scenario)


def find_measure(name: str) -> type[AnyMeasure]:
    """Find the class of a measure.

    Args:
        name: registered name, or ``package.module:Class``.

    Returns:
        The class.

    Raises:
        InputError: if the name is unknown or does not refer to a measure.
    """
    found = MEASURES.find(name)
    if not (isinstance(found, type) and issubclass(found, AnyMeasure)):
        raise InputError(
            f"measure: {name} is {found!r}; accepted: a subclass of feduplink.SeparableMeasure or "
            "feduplink.Measure."
        )
    return found
