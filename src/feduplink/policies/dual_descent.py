"""Multipliers by stochastic descent on the dual function: few channels at a time, many steps.

D(λ) is a mean over channels, and its gradient is what the maximisers leave over of each constraint
(``optimum.dual_solver``). A few hundred channels tell the direction well enough while the
multipliers are far off; averaging the last steps makes up for the noise. Steps are Adam's: a
constraint of a worker that is seldom on the air has small gradients and needs steps as long as the
others'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.observing import track_each
from feduplink.problem import Problem
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Powers (M, L) W on the channels of these indices (M,), at given prices.
Maximise = Callable[[Tensor, Prices], Tensor]

_STEPS = 160
#: Channels per step.
_CHANNELS = 256
#: The longest change of a scaled multiplier, in the first step and in the last one.
_FIRST, _LAST = 0.3, 0.02
#: Decay of Adam's means of gradients and of their squares.
_MEAN, _SQUARE = 0.9, 0.98
#: Added to the root of the mean square, so that constraints that are met exactly stay in place.
_FLOOR = 1e-4
#: Which share of the steps, the last ones, is averaged.
_AVERAGED = 0.25
#: Workers on the air in fewer rounds than this share count as if they were in so many.
_SELDOM = 1e-3


@dataclass(frozen=True)
class ScaledMultipliers:
    """Multipliers in units in which all are of the size of one: x = λ c0 / (ω f).

    f is the size of what a worker achieves of the objective. For a utility other than the weighted
    sum the workers' weights are variables too.

    Attributes:
        unit: ω f / c0, (K, L).
        weights: what one unit of the objective is worth, (L,).
    """

    unit: Tensor
    weights: Tensor

    @classmethod
    def from_problem(cls, problem: Problem, achieved: float) -> ScaledMultipliers:
        """Where workers achieve so much of the objective in the mean."""
        weights = problem.utility.weights
        return cls(weights * achieved / problem.scales, weights)

    def multipliers(self, x: Tensor) -> Multipliers:
        """λ and ω at x, (K, L)."""
        return Multipliers(x * self.unit, self.weights)

    @staticmethod
    def surplus(
        problem: Problem, sinr: Tensor, power: Tensor, *, while_on_air: bool = False
    ) -> Tensor:
        """Mean surplus of every constraint relative to its threshold, (K, L); 0 without one."""
        surplus = torch.where(problem.active, problem.mean_surplus(sinr, power), 0.0)
        surplus = surplus / problem.scales
        if while_on_air:
            surplus = surplus / (power > 0).to(surplus).mean(0).clamp_min(_SELDOM)
        return surplus


def descended(
    problem: Problem, scenario: Scenario, csi: Tensor, maximise: Maximise, *, seed: int = 0
) -> tuple[ScaledMultipliers, Tensor]:
    """The units, and the scaled multipliers (K, L) after a descent from nothing.

    Args:
        problem: with the thresholds to be met.
        scenario: the radio.
        csi: the channels, (N, L, L), which the constraints speak of.
        maximise: gives the powers on some of these channels, or on what it sees of them.
        seed: of the order in which the channels come.

    """
    batch = ChannelBatch.from_scenario(scenario, csi)
    rows = torch.randperm(len(csi), generator=torch_generator(seed, "batches"))
    rows = rows.repeat(math.ceil(_STEPS * _CHANNELS / len(csi)))

    def at(multipliers: Multipliers, step: int) -> tuple[Tensor, Tensor]:
        chosen = rows[step * _CHANNELS : (step + 1) * _CHANNELS]
        power = maximise(chosen, Prices.from_problem(problem, scenario, multipliers))
        return batch.take(chosen).sinr(power), power

    x = torch.zeros_like(problem.thresholds)
    sinr, power = at(Multipliers(x, problem.utility.weights), 0)
    objective = problem.objective.value(sinr, power)
    scaled = ScaledMultipliers.from_problem(problem, float(objective.mean()) or 1.0)
    adam = _Adam(x)
    weight_adam = _Adam(scaled.weights)
    last: list[Tensor] = []
    last_weights: list[Tensor] = []
    for step in track_each("multipliers", range(_STEPS), "steps"):
        sinr, power = at(scaled.multipliers(x), step)
        length = _FIRST * (_LAST / _FIRST) ** (step / _STEPS)
        x = (x - length * adam.direction(scaled.surplus(problem, sinr, power))).clamp_min(0.0)
        if not problem.utility.linear:
            achieved = problem.objective.value(sinr, power).mean(0)
            excess = achieved / problem.utility.maximiser(scaled.weights) - 1
            growth = (-length * weight_adam.direction(excess)).exp()
            scaled = replace(scaled, weights=scaled.weights * growth)
        if step >= (1 - _AVERAGED) * _STEPS:
            last.append(x)
            last_weights.append(scaled.weights)
    weights = torch.stack(last_weights).mean(0)
    return replace(scaled, weights=weights), torch.stack(last).mean(0)


class _Adam:
    """Directions of Adam's steps, of the size of one."""

    def __init__(self, like: Tensor) -> None:
        self._mean = self._square = torch.zeros_like(like)
        self._count = 0

    def direction(self, gradient: Tensor) -> Tensor:
        self._count += 1
        self._mean = _MEAN * self._mean + (1 - _MEAN) * gradient
        self._square = _SQUARE * self._square + (1 - _SQUARE) * gradient.square()
        size = (self._square / (1 - _SQUARE**self._count)).sqrt() + _FLOOR
        return self._mean / (1 - _MEAN**self._count) / size
