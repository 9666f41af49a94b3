"""Multipliers for ``pdx``: those that make the constraints hold, the network in the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from feduplink.channels import denoised_csi, noisy_csi
from feduplink.channels.csi import check_csi
from feduplink.lagrangian import ChannelBatch, DualPoint, Multipliers, Prices
from feduplink.optimum import thresholds_with_margin
from feduplink.policies.dual_descent import FAR, NEAR, DualDescent
from feduplink.problem import Problem
from feduplink.progress import track
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

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
