"""Calibration of multipliers with a given maximiser of the Lagrangian in the loop, a search or a
network.

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
from typing import Protocol

import torch
from torch import Tensor

from feduplink.channels import denoised_csi, noisy_csi
from feduplink.channels.csi import check_csi
from feduplink.judgement import judge, mean_interval
from feduplink.lagrangian import ChannelBatch, DualPoint, Maximiser, Multipliers, Prices
from feduplink.problem import Problem
from feduplink.progress import track, track_each
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Maximisers that miss a constraint by no more than this share of its threshold are near enough
#: for the multipliers of a policy, which is judged on other channels.
PRIMAL_TOLERANCE = 2e-3
#: Evaluations that a refinement takes.
_EVALUATIONS = 12
#: First step of the multipliers, relative to the weights, for a relative surplus of one.
_FIRST_STEP = 0.05


def thresholds_with_margin(
    problem: Problem, scenario: Scenario, csi: Tensor, power: Tensor, margin: float
) -> Tensor:
    """The thresholds (K, L) raised by ``margin`` standard errors.

    The standard errors are those with which the channels (N, L, L) estimate the expectations in
    the constraints under the powers (N, L). Who meets the raised thresholds on these channels
    meets the given ones on others too.
    """
    power = power.to(torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rows = []
    for constraint in problem.constraints:
        counted = constraint.counted(power)
        values = torch.where(counted, constraint.value(sinr, power), math.nan)
        count = counted.sum(0).clamp_min(2)
        spread = (values - values.nanmean(0)).square().nansum(0) / (count - 1)
        error = (spread / count).sqrt().nan_to_num(nan=0.0)  # NaN: a worker never heard
        raised = constraint.threshold + margin * error
        rows.append(torch.where(constraint.active, raised, constraint.threshold))
    return torch.stack(rows)


def refined(
    problem: Problem, scenario: Scenario, csi: Tensor, near: Multipliers, maximiser: Maximiser
) -> Multipliers:
    """Multipliers near ``near`` at which the maximiser's powers meet the constraints.

    A minimum of the dual function need not meet the constraints: where prices make a worker
    indifferent the maximisers jump, and a network that stands in for the search is not quite the
    maximiser, so that the surplus of a constraint is not quite the gradient. Hence steps along the
    surplus itself, λ ← max(λ − η surplus, 0): longer after a step that brings the constraints
    nearer to being met exactly, and back and shorter after one that does not. Of all multipliers on
    the way the best are taken.

    Args:
        problem: with the thresholds to be met.
        scenario: the radio.
        csi: the channels, (N, L, L), which the constraints speak of.
        near: where to begin.
        maximiser: gives the powers (N, L) on these channels, or on what it sees of them.

    """
    batch = ChannelBatch.from_scenario(scenario, csi)
    scales, active = problem.scales.to(batch.direct), problem.active.to(batch.direct.device)
    unit = scales / near.objective_weight.mean()
    scaled, step = near.constraints * unit, _FIRST_STEP
    best: tuple[tuple[bool, float], Multipliers] | None = None
    base: tuple[float, Tensor, Tensor] | None = None
    for _ in track_each("multipliers", range(_EVALUATIONS), "evaluations"):
        multipliers = Multipliers(scaled / unit, near.objective_weight)
        power = maximiser.maximise(Prices.from_problem(problem, scenario, multipliers))
        rank = judge(power, csi, scenario, problem).rank(PRIMAL_TOLERANCE)
        if best is None or rank > best[0]:
            best = (rank, multipliers)
        surplus = problem.mean_surplus(batch.sinr(power), power) / scales
        surplus = torch.where(active, surplus, 0.0)
        # A surplus is no fault where nothing is paid for it.
        fault = float(torch.where(scaled > 0, surplus, surplus.clamp_max(0.0)).norm())
        if base is None or fault < base[0]:
            base, step = (fault, scaled, surplus), 1.5 * step
        else:
            step = 0.4 * step
        scaled = (base[1] - step * base[2]).clamp_min(0.0)
    assert best is not None
    return best[1]


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
#: A smaller scaled multiplier is raised as much as one of this size: zero would stay zero.
_MIN_RAISED = 0.01
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
            share = share.clamp_max(_RAISE_AT_MOST)
            raised = torch.where(
                self._x > _MIN_RAISED, self._x * (1 + share), self._x + _MIN_RAISED * share
            )
            self._x = torch.where(missed, raised, self._x)
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


#: Channels that tell what a margin costs.
_FEW_CHANNELS = 2000
#: Standard errors by which the policy aims above the thresholds, as far as they cost no more than
#: this share of the objective; but never under so many.
MARGIN = 8.0
_AFFORDABLE = 1e-3
_AT_LEAST = 0.5
#: How often it is looked for what is still missed, on how many channels each time.
_LOOKS, LOOK_CHANNELS = 4, 10_000


class NetworkMaximiser(Protocol):
    """A network that stands in for the search of the Lagrangian's maximum."""

    def powers(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """Powers in W, (N, L), that nearly maximise the Lagrangian of each channel."""


@torch.no_grad()
@track("tuning of pdx")
def calibrated(
    network: NetworkMaximiser,
    problem: Problem,
    scenario: Scenario,
    csi: Tensor,
    *,
    look: Callable[[int], Tensor] | None = None,
    margin: float = MARGIN,
    seed: int = 0,
) -> DualPoint:
    """Multipliers found on channels (N, L, L), and the thresholds they are for.

    Stochastic descent brings them near. Then it goes on for slightly higher thresholds, so that
    unseen channels meet the given ones too. At last what is missed is told by channels that it has
    not descended on: ``look`` gives those of the look with a number, (M, L, L); without it, they
    are the same ones. With noisy CSI the network sees the noise, and the constraints speak of the
    true channels.
    """
    check_csi(csi, scenario.workers)
    if problem.utility.linear and not problem.constrained:
        nothing = Multipliers(torch.zeros_like(problem.thresholds), problem.utility.weights)
        return DualPoint(nothing, problem.thresholds)
    noise = torch_generator(seed, "csi-noise", index=1)

    def maximise(csi: Tensor, prices: Prices) -> Tensor:
        seen = denoised_csi(noisy_csi(csi, scenario.csi_noise, noise), scenario.csi_noise)
        return network.powers(ChannelBatch.from_scenario(scenario, seen), prices)

    descent = DualDescent(problem, scenario, csi, maximise, seed=seed)
    descent.descend(FAR)
    aim = problem.thresholds
    if problem.constrained:
        few, multipliers = csi[:_FEW_CHANNELS], descent.multipliers
        power = maximise(few, Prices.from_problem(problem, scenario, multipliers))
        # All channels tell the means better than a few of them do.
        better = math.sqrt(len(power) / len(csi))
        errors = _affordable_errors(problem, scenario, few, power, multipliers) / better
        aim = thresholds_with_margin(
            problem, scenario, few, power, min(margin, max(errors, _AT_LEAST)) * better
        )
        descent.aim(aim)
    # Few channels are seen often enough in smaller steps.
    at_once = min(NEAR.channels, max(FAR.channels, len(csi) // 20))
    descent.descend(replace(NEAR, channels=at_once))
    if problem.constrained:
        descent.raise_missed(_LOOKS, LOOK_CHANNELS, look)
    return DualPoint(descent.multipliers, aim)


def _affordable_errors(
    problem: Problem, scenario: Scenario, csi: Tensor, power: Tensor, multipliers: Multipliers
) -> float:
    """How many standard errors, with which these channels tell the means, are to spare.

    A constraint that is raised by one costs λ times that in the rounds that count.
    """
    error = thresholds_with_margin(problem, scenario, csi, power, 1.0) - problem.thresholds
    counted = torch.stack([c.counted(power).to(error).mean(0) for c in problem.constraints])
    cost = float((multipliers.constraints * error * counted).sum())
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    achieved = problem.objective.value(sinr, power).mean(0) * multipliers.objective_weight
    return _AFFORDABLE * float(achieved.sum()) / max(cost, 1e-30)
