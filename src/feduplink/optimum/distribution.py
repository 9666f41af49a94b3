"""A bound on every policy over the whole distribution of channels, from a sample of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.optimum.certificate import certify
from feduplink.optimum.dual_function import lagrangian_constant
from feduplink.optimum.interference_free import interference_free_bound
from feduplink.problem import Problem
from feduplink.scenario import Scenario


@dataclass(frozen=True)
class DistributionBound:
    """A bound on every policy over the whole distribution that channels were drawn from.

    Attributes:
        upper_bound: what the objective of no policy that meets the constraints exceeds.
        confidence: probability, over the draw of the channels, that this is so.
        strongest: largest direct gain the distribution is assumed to have.
        channels: how many channels it rests on.
    """

    upper_bound: float
    confidence: float
    strongest: float
    channels: int

    def as_metrics(self) -> dict[str, float]:
        """The ``distribution`` entry of ``metrics.json``."""
        return {
            "upper_bound": self.upper_bound,
            "confidence": self.confidence,
            "strongest_direct_gain": self.strongest,
            "channels": self.channels,
        }

    def sentence(self, *, recorded: bool = False) -> str:
        """What it says, and under which assumptions."""
        assumed = "the recorded channels are independent draws and " if recorded else ""
        return (
            f"With {self.confidence:.4g} confidence over the draw of {self.channels} channels: no "
            "policy that meets the constraints on the whole distribution of channels has an "
            f"objective above {self.upper_bound:.4f} there, provided that {assumed}no direct gain "
            f"exceeds {self.strongest:.3g}, ten times the largest seen."
        )


def distribution_bound(
    scenario: Scenario,
    multipliers: Multipliers,
    csi: Tensor,
    problem: Problem | None = None,
    *,
    confidence: float = 0.95,
    budget_s: float = 60.0,
) -> DistributionBound:
    """An upper bound for all channels of the distribution, not only those at hand.

    For multipliers that were learned on other channels, the largest Lagrangians X of these
    channels, (N, L, L), are independent draws, and their expectation bounds every policy. By the
    empirical Bernstein inequality (Maurer and Pontil 2009, theorem 4) it is, with probability
    1 − δ, at most

        mean(X) + √(2 V ln(2/δ) / N) + 7 M ln(2/δ) / (3 (N − 1)),

    V the sample variance of X in [0, M]. The certificate knows X up to its gaps: it takes its
    upper ends for the mean and std(lower) + √(Σ gap² / (N − 1)) for √V, which is no less.
    M is computed for direct gains of up to ten times the largest one seen.
    """
    problem = problem or Problem.from_scenario(scenario)
    batch = ChannelBatch.from_scenario(scenario, csi)
    prices = Prices.from_problem(problem, scenario, multipliers)
    certificate = certify(batch, prices, budget_s=budget_s)
    strongest = 10 * float(batch.direct.max())
    rate = link.rate(strongest * batch.pmax_w)
    slope = prices.rate + prices.efficiency / batch.static_power_w
    spread = float((prices.success + slope * rate).sum())
    count, log_term = len(csi), math.log(2 / (1 - confidence))
    gaps = certificate.upper - certificate.lower
    deviation = float(certificate.lower.std() + (gaps.square().sum() / (count - 1)).sqrt())
    slack = deviation * math.sqrt(2 * log_term / count) + 7 * spread * log_term / (3 * (count - 1))
    mean = float(certificate.upper.mean()) + lagrangian_constant(problem, multipliers)
    # On few channels this is tighter: every channel as good as the strongest.
    everyone = torch.full((1, scenario.workers), strongest)
    possible = interference_free_bound(problem, scenario.pmax_w, everyone)
    return DistributionBound(min(mean + slack, possible), confidence, strongest, count)
