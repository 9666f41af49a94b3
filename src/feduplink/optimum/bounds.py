"""Bounds on every policy: without interference, over the distribution of channels, and thresholds
out of reach.

Silence meets every constraint, since these speak of the rounds in which a worker transmits. So the
problem always has a solution; but a worker may be shut out of it by its thresholds alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.link import EnergyEfficiency, Rate
from feduplink.optimum.certificate import certify
from feduplink.optimum.dual_function import lagrangian_constant
from feduplink.problem import Problem
from feduplink.scenario import Scenario


def interference_free_bound(problem: Problem, pmax_w: Tensor, direct: Tensor) -> float:
    """g(E[max_p f_i(α_i p)]): the objective if nobody disturbed anybody, without constraints.

    No policy exceeds it on channels with the direct gains α (N, L): interference only lowers every
    f_i, g does not fall in any of them, and constraints only exclude policies. Infinite for a
    measure that does not know what it is at most alone.
    """
    most = problem.objective.most_alone(direct.to("cpu", torch.float64), pmax_w)
    return math.inf if most is None else float(problem.utility.value(most.mean(0)))


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
    max_boxes: int | None = None,
    budget_s: float | None = None,
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
    certificate = certify(batch, prices, max_boxes=max_boxes, budget_s=budget_s)
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


#: Powers between the most efficient one and Pmax that mixtures are made of.
_POWERS = 2000
_MIXTURES = 201


@dataclass(frozen=True)
class Unreachable:
    """A worker that cannot transmit and meet its thresholds on any of the channels.

    Attributes:
        worker: counted from 1.
        constraint: ``rate``, ``energy_efficiency``, or ``both together``.
        best: the most it reaches alone on the air in its best channel, nats/s/Hz or nats/s/Hz/W;
            for both together the largest share of both thresholds that it reaches at once.
        threshold: what it would have to reach; 1 for both together.
    """

    worker: int
    constraint: str
    best: float
    threshold: float

    @property
    def shortfall(self) -> float:
        """By which share of the threshold it falls short."""
        return 1 - self.best / self.threshold

    def __str__(self) -> str:
        if self.constraint == "both together":
            return (
                f"worker {self.worker}: rate and energy_efficiency can be met each, but not both "
                f"at once; alone on the air in its best channel it has at most {self.best:.1%} of "
                f"both, {self.shortfall:.1%} short, and must stay silent"
            )
        return (
            f"worker {self.worker}: {self.constraint} of {self.threshold:g} is out of reach; alone "
            f"on the air in its best channel it has at most {self.best:.4g}, "
            f"{self.shortfall:.1%} short, and must stay silent"
        )


def find_unreachable(problem: Problem, scenario: Scenario, csi: Tensor) -> list[Unreachable]:
    """Workers that no policy can let transmit on these channels, (N, L, L).

    Rate and efficiency at any power are largest in the channel with the largest direct gain, with
    everyone else silent. So a worker can transmit iff it can do so alone in that channel, at a
    mixture of powers that meets both constraints in the mean. Of other measures that is not known.
    """
    strongest = csi.diagonal(dim1=-2, dim2=-1).reshape(-1, scenario.workers).amax(0)
    pmax = scenario.pmax_w.expand(scenario.workers).tolist()
    static = scenario.static_power.expand(scenario.workers).tolist()
    rate, efficiency = (_lower_limit(problem, kind) for kind in (Rate, EnergyEfficiency))
    entries = (
        _unreachable_alone(
            i + 1,
            float(strongest[i]),
            float(rate[i]),
            float(efficiency[i]),
            _Radio(pmax[i], static[i], scenario.amplifier_inefficiency),
        )
        for i in range(scenario.workers)
    )
    return [entry for entry in entries if entry]


def check_reachable(problem: Problem, scenario: Scenario, csi: Tensor) -> list[Unreachable]:
    """As :func:`find_unreachable`; an :class:`InputError` if that leaves nobody to transmit."""
    entries = find_unreachable(problem, scenario, csi)
    if len(entries) == scenario.workers:
        raise InputError(f"thresholds: no worker can ever transmit; {entries[0]}.")
    return entries


def _lower_limit(problem: Problem, kind: type[Rate] | type[EnergyEfficiency]) -> Tensor:
    """The lower limit of a measure, (L,), 0 where there is none."""
    for constraint in problem.constraints:
        if isinstance(constraint.measure, kind) and not constraint.at_most:
            return torch.where(constraint.active, constraint.limit, 0.0)
    return torch.zeros_like(problem.utility.weights)


@dataclass(frozen=True)
class _Radio:
    """Pmax and P_c of one worker, W, and its amplifier's inefficiency."""

    pmax_w: float
    static_power_w: float
    amplifier_inefficiency: float


def _unreachable_alone(
    worker: int, gain: float, r0: float, e0: float, radio: _Radio
) -> Unreachable | None:
    """The worker's entry if it cannot transmit alone with direct gain ``gain``."""

    def rates(power: Tensor) -> Tensor:
        return link.rate(gain * power)

    def efficiencies(power: Tensor) -> Tensor:
        return link.energy_efficiency(
            rates(power), power, radio.static_power_w, radio.amplifier_inefficiency
        )

    pmax = radio.pmax_w
    best_rate = float(rates(torch.tensor(pmax, dtype=torch.float64)))
    if best_rate < r0:
        return Unreachable(worker, "rate", best_rate, r0)
    peak = link.most_efficient_power(
        torch.tensor(gain, dtype=torch.float64),
        torch.tensor(radio.static_power_w, dtype=torch.float64),
        radio.amplifier_inefficiency,
    )
    efficient = min(float(peak), pmax)
    best_efficiency = float(efficiencies(torch.tensor(efficient, dtype=torch.float64)))
    if best_efficiency < e0 * (1 - 1e-9):
        return Unreachable(worker, "energy_efficiency", best_efficiency, e0)
    if r0 == 0 or e0 == 0:
        return None
    # Both: no mixture does iff weights θ, 1 − θ exist at which every power falls short. Under the
    # peak both grow with the power; above it the rate of an interval's upper end and the
    # efficiency of its lower end are no less than those of any power in it.
    powers = torch.logspace(
        math.log10(efficient), math.log10(pmax), _POWERS, dtype=torch.float64
    ).clamp_max(pmax)
    ratios = torch.stack((rates(powers)[1:] / r0, efficiencies(powers)[:-1] / e0))
    theta = torch.linspace(0, 1, _MIXTURES, dtype=torch.float64)
    share = float((torch.stack((theta, 1 - theta), dim=1) @ ratios).amax(1).min())
    return Unreachable(worker, "both together", share, 1.0) if share < 1 else None
