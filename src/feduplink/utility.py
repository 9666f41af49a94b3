"""Utilities: how what every worker gets becomes one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

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
