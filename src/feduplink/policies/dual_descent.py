"""Multipliers by stochastic descent on the dual function: few channels at a time, many steps.

D(λ) is a mean over channels, and its gradient is what the maximisers leave over of each constraint
(``optimum.dual_solver``). A few hundred channels tell the direction well enough; averaging the last
steps makes up for the noise. Steps are Adam's: a constraint of a worker that is seldom on the air
has small gradients and needs steps as long as the others'.

A network that stands in for the maximiser is not quite the maximiser, so that the minimum of what
it reaches misses the constraints by a few per cent. The steps go along the surplus all the same:
they end where nothing is left over of what is paid for and nothing is missed elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink.feasibility import mean_interval
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.problem import Problem
from feduplink.progress import track_each
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Powers (M, L) W on channels (M, L, L), or on what is seen of them, at given prices.
Maximise = Callable[[Tensor, Prices], Tensor]

#: Decay of Adam's means of gradients and of their squares.
_MEAN, _SQUARE = 0.9, 0.98
#: Added to the root of the mean square, so that constraints that are met exactly stay in place.
_FLOOR = 1e-4
#: Workers on the air in fewer rounds than this share count as if they were in so many.
_SELDOM = 1e-3
#: A multiplier is raised by a third of the share by which its constraint is missed, at most by a
#: tenth. What a worker achieves answers up to three times as strongly, and a worker that is seldom
#: on the air would be brought there by more.
_RAISE, _RAISE_AT_MOST = 1 / 3, 0.1
#: Of the interval that has to end below a threshold before its multiplier is raised: a constraint
#: that is just met is taken for missed one time in thirteen, and its multiplier raised a little.
_CONFIDENCE = 0.85
#: Whether a constraint is missed is told well enough by an interval of this share of the threshold
#: to the upper side; that of a worker on the air in fewer rounds than the other cannot be told.
_TOLD, _OFTEN = 0.03, 0.05


@dataclass(frozen=True)
class Phase:
    """Some steps of a descent.

    Attributes:
        steps: how many.
        channels: per step.
        first, last: the longest change of a scaled multiplier in the first step and in the last.
        averaged: which share of the steps, the last ones, is averaged.
    """

    steps: int
    channels: int
    first: float
    last: float
    averaged: float

    def length(self, step: int) -> float:
        """The longest change in this step."""
        return self.first * math.pow(self.last / self.first, step / self.steps)


#: From nowhere, and from near by.
FAR = Phase(steps=80, channels=192, first=0.3, last=0.1, averaged=0.25)
NEAR = Phase(steps=80, channels=512, first=0.06, last=0.03, averaged=0.6)


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


class DualDescent:
    """A descent from no multipliers at all, on one set of channels.

    Args:
        problem: with the thresholds to be met.
        scenario: the radio.
        csi: the channels, (N, L, L), which the constraints speak of.
        maximise: gives the powers.
        seed: of the order in which the channels come.

    """

    def __init__(
        self,
        problem: Problem,
        scenario: Scenario,
        csi: Tensor,
        maximise: Maximise,
        *,
        seed: int = 0,
    ) -> None:
        self._problem, self._scenario = problem, scenario
        self._csi, self._maximise = csi, maximise
        self._order = torch.randperm(len(csi), generator=torch_generator(seed, "batches"))
        self._next = 0
        self._x = torch.zeros_like(problem.thresholds)
        sinr, power = self._at(
            Multipliers(self._x, problem.utility.weights), self._take(FAR.channels)
        )
        achieved = float(problem.objective.value(sinr, power).mean()) or 1.0
        self._scaled = ScaledMultipliers.from_problem(problem, achieved)
        self._adam = AdamDirections.for_variables(self._x)
        self._weight_adam = AdamDirections.for_variables(self._scaled.weights)

    @property
    def multipliers(self) -> Multipliers:
        """Where it stands."""
        return self._scaled.multipliers(self._x)

    def aim(self, thresholds: Tensor) -> None:
        """Go for other thresholds, (K, L), from here on."""
        self._problem = self._problem.with_thresholds(thresholds)

    def descend(self, phase: Phase) -> None:
        """Take the steps of a phase."""
        problem, x, scaled = self._problem, self._x, self._scaled
        last: list[Tensor] = []
        last_weights: list[Tensor] = []
        for step in track_each("multipliers", range(phase.steps), "steps"):
            sinr, power = self._at(scaled.multipliers(x), self._take(phase.channels))
            length = phase.length(step)
            x = x - length * self._adam.direction(scaled.surplus(problem, sinr, power))
            x = x.clamp_min(0.0)
            if not problem.utility.linear:
                achieved = problem.objective.value(sinr, power).mean(0)
                excess = achieved / problem.utility.maximiser(scaled.weights) - 1
                growth = (-length * self._weight_adam.direction(excess)).exp()
                scaled = replace(scaled, weights=scaled.weights * growth)
            if step >= (1 - phase.averaged) * phase.steps:
                last.append(x)
                last_weights.append(scaled.weights)
        self._x = torch.stack(last).mean(0)
        self._scaled = replace(scaled, weights=torch.stack(last_weights).mean(0))

    def raise_missed(
        self, looks: int, channels: int, look: Callable[[int], Tensor] | None = None
    ) -> None:
        """Raise the multipliers of what is missed by more than the noise, a little per look.

        The steps of a descent see a worker that is on the air in one of a hundred rounds a few
        times each, and end where its constraint is met up to that noise, on the channels of these
        very steps. Many others at once tell whether it is met elsewhere too: ``look`` gives those
        of the look with a number, (M, L, L). Without it they are so many of the descent's own. A
        constraint is judged on all looks since its multiplier was last raised. It ends early when
        none is missed, and none may well be.
        """
        problem = self._problem
        constraints, workers = problem.thresholds.shape
        values = problem.thresholds.new_zeros(constraints, 0, workers)
        counted = torch.zeros_like(values, dtype=torch.bool)
        for number in track_each("missed constraints", range(looks), "looks"):
            csi = look(number) if look else self._take(min(channels, len(self._csi)))
            sinr, power = self._at(self.multipliers, csi)
            values = torch.cat((values, problem.constraint_values(sinr, power)), 1)
            counts = torch.stack([c.counted(power) for c in problem.constraints])
            counted = torch.cat((counted, counts), 1)
            if look is None:  # seen again, a channel counts once
                values, counted = values[:, -len(self._csi) :], counted[:, -len(self._csi) :]
            mean, low, high = mean_interval(values, counted, _CONFIDENCE)
            often = counted.to(mean).mean(1) > _OFTEN
            unsure = often & (low < problem.thresholds) & (high - mean > _TOLD * problem.scales)
            missed = problem.active & (high < problem.thresholds)
            if not bool((missed | (problem.active & unsure)).any()):
                break
            share = _RAISE * (problem.thresholds - mean) / problem.scales
            self._x = torch.where(missed, self._x * (1 + share.clamp_max(_RAISE_AT_MOST)), self._x)
            counted = counted & ~missed[:, None]

    def _take(self, channels: int) -> Tensor:
        """The channels that come next, (M, L, L), in an order of the seed; after all, again."""
        rows = torch.arange(self._next, self._next + channels) % len(self._order)
        self._next += channels
        return self._csi[self._order[rows]]

    def _at(self, multipliers: Multipliers, csi: Tensor) -> tuple[Tensor, Tensor]:
        """SINRs and powers at these multipliers on these channels."""
        prices = Prices.from_problem(self._problem, self._scenario, multipliers)
        power = self._maximise(csi, prices)
        return ChannelBatch.from_scenario(self._scenario, csi).sinr(power), power


@dataclass
class AdamDirections:
    """Directions of Adam's steps, of the size of one.

    Attributes:
        mean, square: decaying means of the gradients and of their squares, of any shape.
        count: gradients so far.
    """

    mean: Tensor
    square: Tensor
    count: int = 0

    @classmethod
    def for_variables(cls, like: Tensor) -> AdamDirections:
        """Before the first gradient."""
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    def direction(self, gradient: Tensor) -> Tensor:
        """Take the next gradient; the direction to go against."""
        self.count += 1
        self.mean = _MEAN * self.mean + (1 - _MEAN) * gradient
        self.square = _SQUARE * self.square + (1 - _SQUARE) * gradient.square()
        size = (self.square / (1 - _SQUARE**self.count)).sqrt() + _FLOOR
        return self.mean / (1 - _MEAN**self.count) / size
