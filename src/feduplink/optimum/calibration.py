"""Calibration of multipliers with a given maximiser of the Lagrangian, a search or a network.

D(λ) is a mean over channels, and its gradient is the mean surplus of every constraint at the
maximisers (:mod:`feduplink.optimum.dual_function`). :class:`DualDescent` takes stochastic steps on
a few hundred channels each and averages the last iterates. It uses Adam, because the constraint of
a worker that rarely transmits has a small gradient and needs steps of the same length.

A network only approximates the maximiser, so the minimum of its D violates the constraints by a few
per cent. The steps therefore follow the surplus: they stop when complementary slackness holds and
no constraint is violated.
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

#: Largest relative violation at which the multipliers of a policy count as feasible. It may be
#: coarse, because policies are judged on other channels.
PRIMAL_TOLERANCE = 2e-3
#: Evaluations of a refinement.
_REFINEMENT_EVALUATIONS = 12
#: First step of a refinement: change of a multiplier relative to the weights, for a relative
#: surplus of one; factors on the step after a better and after a worse residual.
_FIRST_STEP, _STEP_GROWTH, _STEP_SHRINKAGE = 0.05, 1.5, 0.4


def thresholds_with_margin(
    scenario: Scenario, csi: Tensor, power: Tensor, *, problem: Problem, margin: float
) -> Tensor:
    """Raise the thresholds by a number of standard errors.

    A policy that satisfies the raised thresholds on these channels is likely to satisfy the
    original ones on others.

    Args:
        scenario: the radio.
        csi: channels on which the constraints are estimated, (N, L, L).
        power: powers on these channels, (N, L), W.
        problem: K constraints.
        margin: number of standard errors of the estimates.

    Returns:
        Thresholds, (K, L), in the units of the measures; unchanged for workers without a limit.
    """
    power = power.to(torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rows = []
    for constraint in problem.constraints:
        counted = constraint.counted(power)
        values = torch.where(counted, constraint.value(sinr, power), math.nan)
        count = counted.sum(0).clamp_min(2)
        variance = (values - values.nanmean(0)).square().nansum(0) / (count - 1)
        error = (variance / count).sqrt().nan_to_num(nan=0.0)  # NaN: a worker never transmits
        raised = constraint.threshold + margin * error
        rows.append(torch.where(constraint.active, raised, constraint.threshold))
    return torch.stack(rows)


def refine_multipliers(
    scenario: Scenario, csi: Tensor, maximiser: Maximiser, *, problem: Problem, near: Multipliers
) -> Multipliers:
    """Find multipliers at which the maximiser's powers satisfy the constraints, near given ones.

    A minimum of the dual function need not be feasible: the maximisers jump at prices at which a
    worker is indifferent, and for a network the surplus is not exactly the gradient. The steps
    therefore follow the surplus, λ ← max(λ − η surplus, 0), from the multipliers with the smallest
    residual of complementary slackness so far. η grows after a step that reduced the residual and
    shrinks otherwise.

    Args:
        scenario: the radio.
        csi: the channels of the constraints, (N, L, L).
        maximiser: computes powers (N, L) on these channels or on noisy observations of them.
        problem: objective and constraints, with the thresholds to be satisfied.
        near: initial multipliers.

    Returns:
        The best multipliers evaluated, by feasibility, then by objective.
    """
    batch = ChannelBatch.from_scenario(scenario, csi)
    unit = problem.scales.to(batch.direct) / near.objective_weight.mean()
    scaled, step = near.constraints * unit, _FIRST_STEP
    best: tuple[tuple[bool, float], Multipliers] | None = None
    best_scaled, best_surplus, best_residual = scaled, torch.zeros_like(scaled), math.inf
    for _ in track_each("multipliers", range(_REFINEMENT_EVALUATIONS), "evaluations"):
        multipliers = Multipliers(scaled / unit, near.objective_weight)
        power = maximiser.maximise(Prices.from_problem(problem, scenario, multipliers))
        rank = judge(scenario, csi, power, problem=problem).rank(PRIMAL_TOLERANCE)
        if best is None or rank > best[0]:
            best = (rank, multipliers)
        surplus = _relative_surplus(problem, batch.sinr(power), power)
        # Slack is not penalised where the multiplier is zero.
        residual = float(torch.where(scaled > 0, surplus, surplus.clamp_max(0.0)).norm())
        if residual < best_residual:
            best_scaled, best_surplus, best_residual = scaled, surplus, residual
            step = _STEP_GROWTH * step
        else:
            step = _STEP_SHRINKAGE * step
        scaled = (best_scaled - step * best_surplus).clamp_min(0.0)
    assert best is not None
    return best[1]


#: Maps channels (M, L, L), or noisy observations of them, and prices to powers (M, L) W.
Maximise = Callable[[Tensor, Prices], Tensor]

#: Decay rates of Adam's means of gradients and of their squares.
_BETA_MEAN, _BETA_SQUARE = 0.9, 0.98
#: Added to the root mean square, so that multipliers with a gradient of zero do not change.
_EPSILON = 1e-4
#: Increase of a violated constraint's multiplier per relative violation, and its maximum. The mean
#: of a worker changes by up to three times the relative change of its multiplier, and larger steps
#: would activate a worker that rarely transmits.
_RAISE_PER_VIOLATION, _MAX_RAISE = 1 / 3, 0.1
#: Scaled multipliers below this are raised by as much as one of this size, since the increase is
#: relative.
_MIN_SCALED_MULTIPLIER = 0.01
#: Confidence level of the violation test. A constraint that just holds is rejected with a
#: probability of 7.5 %, and its multiplier then raised slightly.
_CONFIDENCE = 0.85
#: Half-width of a confidence interval, relative to the threshold, below which it is conclusive.
CI_REL_WIDTH = 0.03
#: Share of transmitting rounds below which a worker's inconclusive constraints are ignored.
MIN_ACTIVITY = 0.05


@dataclass(frozen=True)
class DescentStage:
    """A number of steps of a stochastic descent, with step lengths that decay geometrically.

    Attributes:
        steps: number of steps.
        channels: channels per step.
        first, last: largest change of a scaled multiplier in the first and in the last step.
        averaged: share of the steps, at the end, whose iterates are averaged.
    """

    steps: int
    channels: int
    first: float
    last: float
    averaged: float

    def length(self, step: int) -> float:
        """Largest change of a scaled multiplier in a step, counted from 0."""
        return self.first * math.pow(self.last / self.first, step / self.steps)


#: Stages of the descent: from zero to the neighbourhood of the solution, and refinement.
COARSE = DescentStage(steps=80, channels=192, first=0.3, last=0.1, averaged=0.25)
FINE = DescentStage(steps=80, channels=512, first=0.06, last=0.03, averaged=0.6)


def _relative_surplus(problem: Problem, sinr: Tensor, power: Tensor) -> Tensor:
    """Mean surplus of every constraint relative to its threshold, (K, L); 0 without a limit."""
    surplus = problem.mean_surplus(sinr, power)
    surplus = surplus / problem.scales.to(surplus)
    return torch.where(problem.active.to(surplus.device), surplus, 0.0)


class DualDescent:
    """Stochastic descent of the dual function from multipliers of zero.

    The variables are x = λ c0 / (ω f), of the order of one, with f a worker's mean of the
    objective's measure at the start. For a utility other than the weighted sum the weights ω are
    variables too.

    Args:
        scenario: the radio.
        csi: the channels of the constraints, (N, L, L).
        maximise: maximiser of the Lagrangian, from channels (M, L, L) and prices to powers (M, L)
            W.
        problem: objective and constraints, with the thresholds to be satisfied.
        seed: seed of the order in which the channels are visited.
    """

    def __init__(
        self,
        scenario: Scenario,
        csi: Tensor,
        maximise: Maximise,
        *,
        problem: Problem,
        seed: int = 0,
    ) -> None:
        self._problem, self._scenario = problem, scenario
        self._csi, self._maximise = csi, maximise
        self._order = torch.randperm(len(csi), generator=torch_generator(seed, "batches"))
        self._next = 0
        self._x = torch.zeros_like(problem.thresholds)
        self._weights = problem.utility.weights
        sinr, power = self._evaluate(
            Multipliers(self._x, self._weights), self._next_channels(COARSE.channels)
        )
        achieved = float(problem.objective_values(sinr, power).mean()) or 1.0
        self._unit = self._weights * achieved / problem.scales
        self._adam = AdamDirections.for_variables(self._x)
        self._weight_adam = AdamDirections.for_variables(self._weights)

    @property
    def multipliers(self) -> Multipliers:
        """The current multipliers."""
        return Multipliers(self._x * self._unit, self._weights)

    def aim(self, thresholds: Tensor) -> None:
        """Replace the thresholds by (K, L) for further steps."""
        self._problem = self._problem.with_thresholds(thresholds)

    def descend(self, stage: DescentStage) -> None:
        """Take the steps of a stage."""
        problem = self._problem
        iterates: list[tuple[Tensor, Tensor]] = []
        for step in track_each("multipliers", range(stage.steps), "steps"):
            sinr, power = self._evaluate(self.multipliers, self._next_channels(stage.channels))
            length = stage.length(step)
            direction = self._adam.direction(_relative_surplus(problem, sinr, power))
            self._x = (self._x - length * direction).clamp_min(0.0)
            if not problem.utility.linear:
                achieved = problem.objective_values(sinr, power).mean(0)
                excess = achieved / problem.utility.maximiser(self._weights) - 1
                growth = (-length * self._weight_adam.direction(excess)).exp()
                self._weights = self._weights * growth
            if step >= (1 - stage.averaged) * stage.steps:
                iterates.append((self._x, self._weights))
        self._x, self._weights = (
            torch.stack(parts).mean(0) for parts in zip(*iterates, strict=True)
        )

    def raise_violated_multipliers(
        self, rounds: int, channels: int, draw_csi: Callable[[int], Tensor] | None = None
    ) -> None:
        """Raise the multipliers of constraints that are violated on many channels.

        A step of the descent contains few rounds in which a rarely transmitting worker is active.
        Its constraint is satisfied only up to that noise, and only on the channels of the descent.
        Each correction round pools further channels with those since the constraint's multiplier
        was last raised, tests every constraint by a confidence interval, and raises the multipliers
        of the violated ones. It stops when no constraint is violated or inconclusive.

        Args:
            rounds: maximum number of correction rounds.
            channels: channels per round if ``draw_csi`` is None, taken from those of the descent.
            draw_csi: maps the number of a round, counted from 0, to channels (M, L, L).
        """
        problem = self._problem
        constraints, workers = problem.thresholds.shape
        values = problem.thresholds.new_zeros(constraints, 0, workers)
        counted = torch.zeros_like(values, dtype=torch.bool)
        for number in track_each("violated constraints", range(rounds), "rounds"):
            csi = (
                draw_csi(number) if draw_csi else self._next_channels(min(channels, len(self._csi)))
            )
            sinr, power = self._evaluate(self.multipliers, csi)
            values = torch.cat((values, problem.constraint_values(sinr, power)), 1)
            counts = torch.stack([c.counted(power) for c in problem.constraints])
            counted = torch.cat((counted, counts), 1)
            if draw_csi is None:  # repeated channels count once
                values, counted = values[:, -len(self._csi) :], counted[:, -len(self._csi) :]
            mean, low, high = mean_interval(values, counted, _CONFIDENCE)
            is_active = counted.to(mean).mean(1) > MIN_ACTIVITY
            is_wide = high - mean > CI_REL_WIDTH * problem.scales
            inconclusive = problem.active & is_active & (low < problem.thresholds) & is_wide
            violated = problem.active & (high < problem.thresholds)
            if not bool((violated | inconclusive).any()):
                break
            share = _RAISE_PER_VIOLATION * (problem.thresholds - mean) / problem.scales
            share = share.clamp_max(_MAX_RAISE)
            raised = torch.where(
                self._x > _MIN_SCALED_MULTIPLIER,
                self._x * (1 + share),
                self._x + _MIN_SCALED_MULTIPLIER * share,
            )
            self._x = torch.where(violated, raised, self._x)
            counted = counted & ~violated[:, None]

    def _next_channels(self, channels: int) -> Tensor:
        """The next channels (M, L, L) in a random cyclic order."""
        rows = torch.arange(self._next, self._next + channels) % len(self._order)
        self._next += channels
        return self._csi[self._order[rows]]

    def _evaluate(self, multipliers: Multipliers, csi: Tensor) -> tuple[Tensor, Tensor]:
        """SINRs and powers in W at these multipliers on channels (M, L, L), (M, L) each."""
        prices = Prices.from_problem(self._problem, self._scenario, multipliers)
        power = self._maximise(csi, prices)
        return ChannelBatch.from_scenario(self._scenario, csi).sinr(power), power


@dataclass
class AdamDirections:
    """Adam's normalised directions: the mean gradient over its root mean square.

    Attributes:
        mean, square: exponential moving averages of the gradients and of their squares, any shape.
        count: number of gradients so far.
    """

    mean: Tensor
    square: Tensor
    count: int = 0

    @classmethod
    def for_variables(cls, like: Tensor) -> AdamDirections:
        """The state before the first gradient, in the shape of ``like``."""
        return cls(torch.zeros_like(like), torch.zeros_like(like))

    def direction(self, gradient: Tensor) -> Tensor:
        """Update the averages with the next gradient; return the direction of ascent."""
        self.count += 1
        self.mean = _BETA_MEAN * self.mean + (1 - _BETA_MEAN) * gradient
        self.square = _BETA_SQUARE * self.square + (1 - _BETA_SQUARE) * gradient.square()
        size = (self.square / (1 - _BETA_SQUARE**self.count)).sqrt() + _EPSILON
        return self.mean / (1 - _BETA_MEAN**self.count) / size


#: Number of channels on which the cost of a margin is estimated.
_MARGIN_CHANNELS = 2000
#: Default margin of the thresholds in standard errors of the constraints' means, its maximum cost
#: relative to the objective, and the minimum margin regardless of cost.
MARGIN = 8.0
_MAX_MARGIN_COST = 1e-3
_MIN_MARGIN = 0.5
#: Maximum number of correction rounds, and channels per round.
_MAX_CORRECTION_ROUNDS, CORRECTION_CHANNELS = 4, 10_000


class NetworkMaximiser(Protocol):
    """A network that approximates the maximiser of the Lagrangian."""

    def powers(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """Return powers (N, L) in W that nearly maximise the Lagrangian of each channel."""


@torch.no_grad()
@track("tuning of pdx")
def calibrate_multipliers(
    scenario: Scenario,
    csi: Tensor,
    network: NetworkMaximiser,
    *,
    problem: Problem | None = None,
    draw_csi: Callable[[int], Tensor] | None = None,
    margin: float = MARGIN,
    seed: int = 0,
) -> DualPoint:
    """Find the multipliers of a problem for a network that maximises the Lagrangian.

    A stochastic descent approaches the multipliers and continues with slightly raised thresholds,
    so that the original ones hold on other channels too. Finally the multipliers of constraints
    that are violated on fresh channels are raised. With noisy CSI the network observes the noisy
    channels, and the constraints apply to the true ones.

    Args:
        scenario: the radio and the CSI noise.
        csi: channels of the descent, (N, L, L), linear, relative to the noise power.
        network: approximates the maximiser.
        problem: objective and constraints; None for those of the scenario.
        draw_csi: maps the number of a correction round to fresh channels (M, L, L); None to use the
            channels of the descent.
        margin: maximum number of standard errors by which thresholds are raised.
        seed: seed of the order of the channels and of the CSI noise.

    Returns:
        The multipliers with the thresholds for which they were computed.

    Raises:
        InputError: if ``csi`` is not valid CSI for the scenario's workers.
    """
    check_csi(csi, scenario.workers)
    problem = problem or Problem.from_scenario(scenario)
    if problem.utility.linear and not problem.constrained:
        zero = Multipliers(torch.zeros_like(problem.thresholds), problem.utility.weights)
        return DualPoint(zero, problem.thresholds)
    noise = torch_generator(seed, "calibration-noise")

    def maximise(csi: Tensor, prices: Prices) -> Tensor:
        observed = denoised_csi(noisy_csi(csi, scenario.csi_noise, noise), scenario.csi_noise)
        return network.powers(ChannelBatch.from_scenario(scenario, observed), prices)

    descent = DualDescent(scenario, csi, maximise, problem=problem, seed=seed)
    descent.descend(COARSE)
    aim = problem.thresholds
    if problem.constrained:
        subset, multipliers = csi[:_MARGIN_CHANNELS], descent.multipliers
        power = maximise(subset, Prices.from_problem(problem, scenario, multipliers))
        # Standard errors on all channels are smaller than on some of them.
        ratio = math.sqrt(len(power) / len(csi))
        affordable = _affordable_margin(problem, scenario, subset, power, multipliers) / ratio
        errors = min(margin, max(affordable, _MIN_MARGIN)) * ratio
        aim = thresholds_with_margin(scenario, subset, power, problem=problem, margin=errors)
        descent.aim(aim)
    # With few channels, smaller steps visit each of them often enough.
    per_step = min(FINE.channels, max(COARSE.channels, len(csi) // 20))
    descent.descend(replace(FINE, channels=per_step))
    if problem.constrained:
        descent.raise_violated_multipliers(_MAX_CORRECTION_ROUNDS, CORRECTION_CHANNELS, draw_csi)
    return DualPoint(descent.multipliers, aim)


def _affordable_margin(
    problem: Problem, scenario: Scenario, csi: Tensor, power: Tensor, multipliers: Multipliers
) -> float:
    """Largest margin in standard errors at the accepted cost.

    Raising a threshold by one unit costs λ units of the objective in the counted rounds.
    """
    error = (
        thresholds_with_margin(scenario, csi, power, problem=problem, margin=1.0)
        - problem.thresholds
    )
    counted = torch.stack([c.counted(power).to(error).mean(0) for c in problem.constraints])
    cost = float((multipliers.constraints * error * counted).sum())
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    achieved = problem.objective_values(sinr, power).mean(0) * multipliers.objective_weight
    return _MAX_MARGIN_COST * float(achieved.sum()) / max(cost, 1e-30)
