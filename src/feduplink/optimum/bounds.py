"""Upper bounds on every policy: certified, distribution-wide, interference-free; reachability.

Constraints apply to the rounds in which a worker transmits. Silence therefore satisfies all of them
and the problem always has a solution. The thresholds of a worker may be out of reach at any power;
it is then silent in every solution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.link import EnergyEfficiency, Rate
from feduplink.optimum.branch_and_bound import BranchAndBound, Budget, Certificate, Target
from feduplink.optimum.concave_relaxation import has_relaxation
from feduplink.optimum.dual_function import lagrangian_constant
from feduplink.optimum.log_power_search import RelaxationSearch
from feduplink.optimum.monotone_bound import check_monotone
from feduplink.optimum.power_search import PowerSearch
from feduplink.problem import Problem, separable
from feduplink.progress import Callback, track
from feduplink.scenario import Scenario
from feduplink.units import DisplayUnit


def certify(
    batch: ChannelBatch,
    prices: Prices,
    *,
    max_boxes: int | None = None,
    budget_s: float | None = None,
    gap: float = 1e-3,
    channel_gap: float | Tensor | None = None,
    reached: float | None = None,
    record: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Certificate:
    """Enclose the largest Lagrangian of every channel by branch and bound.

    By weak duality the mean of the upper bounds is an upper bound for every feasible policy, at any
    multipliers. If packet success has a price, the search branches in log-powers, in which success
    is concave (:mod:`feduplink.optimum.log_power_search`). If only rates and energy efficiencies
    have prices, it branches in powers, in which a rate is a difference of concave functions
    (:mod:`feduplink.optimum.power_search`).

    Args:
        batch: N channels.
        prices: prices of the Lagrangian, (L,) or (N, L) each.
        max_boxes: maximum number of boxes; None: :data:`MAX_BOXES`, or no limit if ``budget_s`` is
            given.
        budget_s: time limit, s; None: no limit. The result then depends on the machine.
        gap: mean gap at which the search stops, in the unit of the objective.
        channel_gap: largest gap per channel at which the search stops, a number or (N,); None to
            consider the mean only.
        reached: mean value from which the mean gap counts (:class:`Target`); None for the mean of
            the best values found.
        record: keep the branching tree for a proof. The search then omits steps that a proof
            cannot contain, and may take longer.
        callbacks: called with every intermediate :class:`Certificate`.

    Returns:
        Lower and upper bound per channel, with the best powers found. They are valid whether or
        not the target gap is reached.

    Raises:
        InputError: if a measure with a price has no upper bound.
    """
    check_provable(prices)
    search: type[BranchAndBound] = (
        RelaxationSearch if _branches_in_log_powers(prices) else PowerSearch
    )
    target = Target(gap, channel_gap, reached)
    budget = Budget(max_boxes, budget_s)
    total, unit = (budget.boxes, "boxes") if budget_s is None else (budget_s, "s")
    with track("certificate", total, unit, callbacks) as progress:
        return search(batch, prices, target, record=record).run(budget, progress)


def check_provable(prices: Prices) -> None:
    """Check that an upper bound is available at these prices.

    Raises:
        InputError: if a measure with a price has neither a concave relaxation nor known
            monotonicity.
    """
    if not has_relaxation(prices):
        check_monotone(prices)


def _branches_in_log_powers(prices: Prices) -> bool:
    """Whether the search branches in log-powers."""
    needs_relaxation = bool((prices.success > 0).any()) or bool(prices.others)
    return needs_relaxation and has_relaxation(prices)


def interference_free_bound(problem: Problem, pmax_w: Tensor, direct: Tensor) -> float:
    """Return g(E[max_p f_i(α_i p)]), the optimum without interference and constraints.

    It is an upper bound for every policy: interference only lowers f_i, g is non-decreasing, and
    constraints only exclude policies.

    Args:
        problem: objective and utility.
        pmax_w: maximum transmit power, () or (L,), W.
        direct: direct gains α, (N, L), 1/W.

    Returns:
        The bound in the unit of the utility; infinite for a measure without a known maximum.
    """
    most = separable(problem.objective).most_alone(direct.to("cpu", torch.float64), pmax_w)
    return math.inf if most is None else float(problem.utility.value(most.mean(0)))


@dataclass(frozen=True)
class DistributionBound:
    """An upper bound for every policy on the distribution from which the channels were drawn.

    Attributes:
        upper_bound: bound on the objective of every feasible policy.
        confidence: probability, over the draw of the channels, that the bound holds.
        strongest: largest direct gain that the distribution is assumed to have, 1/W.
        channels: number of channels in the sample.
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

    def sentence(self, unit: DisplayUnit | None = None, *, recorded: bool = False) -> str:
        """The bound and its assumptions, in a sentence.

        Args:
            unit: in which the objective is displayed; None for that of the package.
            recorded: the channels are recorded and not drawn.
        """
        bound = (unit or DisplayUnit("")).text(self.upper_bound, ".4f")
        assumed = "the recorded channels are independent draws and " if recorded else ""
        return (
            f"With {self.confidence:.4g} confidence over the draw of {self.channels} channels: no "
            "policy that meets the constraints on the whole distribution of channels has an "
            f"objective above {bound} there, provided that {assumed}no direct gain exceeds "
            f"{self.strongest:.3g}, ten times the largest seen."
        )


def distribution_bound(
    scenario: Scenario,
    csi: Tensor,
    *,
    multipliers: Multipliers,
    problem: Problem | None = None,
    confidence: float = 0.95,
    max_boxes: int | None = None,
    budget_s: float | None = None,
) -> DistributionBound:
    """Bound every policy on the distribution of the channels, from a sample of them.

    At multipliers found on other channels, the largest Lagrangians X of these channels are
    independent draws, and their expectation is an upper bound for every policy. By the empirical
    Bernstein inequality (Maurer and Pontil 2009, theorem 4) it is at most

        mean(X) + √(2 V ln(2/δ) / N) + 7 M ln(2/δ) / (3 (N − 1))

    with probability 1 − δ, where V is the sample variance of X in [0, M]. The certificate encloses
    X: the mean is that of its upper ends, and √V ≤ std(lower) + √(Σ gap² / (N − 1)). M holds for
    direct gains of up to ten times the largest one of the sample.

    Args:
        scenario: the cell and its radio.
        csi: the sample, (N, L, L), linear, relative to the noise power.
        multipliers: multipliers found on other channels.
        problem: objective and constraints; None for those of the scenario.
        confidence: 1 − δ.
        max_boxes: maximum number of boxes of branch and bound; None: a default, or no limit if
            ``budget_s`` is given.
        budget_s: time limit, s; None: no limit.

    Raises:
        InputError: if a measure with a price has no upper bound or no known largest value.
    """
    problem = problem or Problem.from_scenario(scenario)
    batch = ChannelBatch.from_scenario(scenario, csi)
    prices = Prices.from_problem(problem, scenario, multipliers)
    certificate = certify(batch, prices, max_boxes=max_boxes, budget_s=budget_s)
    strongest = 10 * float(batch.direct.max())
    spread = _largest_lagrangian(prices, batch, strongest)
    count, log_term = len(csi), math.log(2 / (1 - confidence))
    gaps = certificate.upper - certificate.lower
    deviation = float(certificate.lower.std() + (gaps.square().sum() / (count - 1)).sqrt())
    slack = deviation * math.sqrt(2 * log_term / count) + 7 * spread * log_term / (3 * (count - 1))
    mean = float(certificate.upper.mean()) + lagrangian_constant(problem, multipliers)
    # With few channels the interference-free bound at the strongest gain is tighter.
    gains = torch.full((1, scenario.workers), strongest)
    interference_free = interference_free_bound(problem, scenario.max_power, gains)
    return DistributionBound(min(mean + slack, interference_free), confidence, strongest, count)


def _largest_lagrangian(prices: Prices, batch: ChannelBatch, gain: float) -> float:
    """Upper bound M on the Lagrangian of any channel with direct gains up to ``gain``."""
    rate = link.rate(gain * batch.pmax_w)
    slope = prices.rate.clamp_min(0.0) + prices.efficiency.clamp_min(0.0) / batch.static_power_w
    largest = prices.success.clamp_min(0.0) + slope * rate + (-prices.activation_cost).clamp_min(0)
    for measure, price in prices.others:
        if measure.convex_in_log_power and bool((price <= 0).all()):
            continue  # at most 0: the measure is 0 in silence and non-decreasing in power
        most = measure.most_alone(torch.full_like(batch.pmax_w, gain), batch.pmax_w)
        if most is None:
            raise InputError(
                f"confidence: the largest value of {measure.name} on a channel is unknown; "
                "accepted for a bound on the distribution: measures with most_alone."
            )
        largest = largest + price.clamp_min(0.0) * most
    return float(largest.sum())


#: Number of powers between the most efficient one and Pmax, and number of weights of rate and
#: efficiency, in the test of both constraints together.
_GRID_POWERS, _GRID_WEIGHTS = 2000, 201


@dataclass(frozen=True)
class Unreachable:
    """A worker whose thresholds are out of reach on every channel.

    Attributes:
        worker: number of the worker, counted from 1.
        constraint: ``rate``, ``energy_efficiency`` or ``both together``.
        best: largest value without interference on its best channel, nats/s/Hz or nats/s/Hz/W; for
            both together, the largest common share of both thresholds.
        threshold: the required value; 1 for both together.
    """

    worker: int
    constraint: str
    best: float
    threshold: float

    @property
    def shortfall(self) -> float:
        """Relative shortfall 1 − best / threshold."""
        return 1 - self.best / self.threshold

    def __str__(self) -> str:
        if self.constraint == "both together":
            return (
                f"worker {self.worker}: rate and energy_efficiency are each within reach, but not "
                f"both at once; alone on its best channel it attains at most {self.best:.1%} of "
                f"both, {self.shortfall:.1%} short, and must stay silent"
            )
        return (
            f"worker {self.worker}: {self.constraint} of {self.threshold:g} is out of reach; alone "
            f"on its best channel it attains at most {self.best:.4g}, {self.shortfall:.1%} short, "
            "and must stay silent"
        )


def find_unreachable(
    scenario: Scenario, csi: Tensor, *, problem: Problem | None = None
) -> list[Unreachable]:
    """Find workers that cannot transmit and satisfy their constraints.

    Rate and efficiency at any power are largest on the channel with the largest direct gain and
    with all other workers silent. A worker can therefore transmit if and only if it can do so alone
    on that channel, at a mixture of powers that satisfies both constraints on average. Other
    measures are not tested.

    Args:
        scenario: the cell and its radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        problem: objective and constraints; None for those of the scenario.

    Returns:
        One entry per unreachable worker.
    """
    problem = problem or Problem.from_scenario(scenario)
    strongest = csi.diagonal(dim1=-2, dim2=-1).reshape(-1, scenario.workers).amax(0)
    columns = (
        strongest.to("cpu", torch.float64),
        scenario.max_power.expand_as(strongest),
        scenario.static_power.expand_as(strongest),
        *(_lower_limit(problem, kind) for kind in (Rate, EnergyEfficiency)),
    )
    entries = (
        _unreachable_alone(worker, *alone, inefficiency=scenario.amplifier_inefficiency)
        for worker, alone in enumerate(zip(*columns, strict=True), 1)
    )
    return [entry for entry in entries if entry]


def check_reachable(
    scenario: Scenario, csi: Tensor, *, problem: Problem | None = None
) -> list[Unreachable]:
    """Find unreachable workers, and check that they are not all workers.

    Arguments and result as for :func:`find_unreachable`.

    Raises:
        InputError: if no worker can transmit and satisfy its constraints.
    """
    entries = find_unreachable(scenario, csi, problem=problem)
    if len(entries) == scenario.workers:
        raise InputError(f"thresholds: no worker can ever transmit; {entries[0]}.")
    return entries


def _lower_limit(problem: Problem, kind: type[Rate] | type[EnergyEfficiency]) -> Tensor:
    """Lower limit of a measure, (L,); 0 for workers without one."""
    for constraint in problem.constraints:
        if isinstance(constraint.measure, kind) and not constraint.at_most:
            return torch.where(constraint.active, constraint.limit, 0.0)
    return torch.zeros_like(problem.utility.weights)


def _unreachable_alone(
    worker: int,
    gain: Tensor,
    pmax: Tensor,
    static_power_w: Tensor,
    rate_min: Tensor,
    efficiency_min: Tensor,
    *,
    inefficiency: float,
) -> Unreachable | None:
    """The entry of a worker that cannot transmit even alone, else None; all tensors are scalars."""

    def rates(power: Tensor) -> Tensor:
        return link.rate(gain * power)

    def efficiencies(power: Tensor) -> Tensor:
        return link.efficiency_of_rate(rates(power), power, static_power_w, inefficiency)

    r0, e0, best_rate = float(rate_min), float(efficiency_min), float(rates(pmax))
    if best_rate < r0:
        return Unreachable(worker, "rate", best_rate, r0)
    peak = link.most_efficient_power(gain, static_power_w, inefficiency)
    efficient = torch.minimum(peak, pmax)
    best_efficiency = float(efficiencies(efficient))
    if best_efficiency < e0 * (1 - 1e-9):
        return Unreachable(worker, "energy_efficiency", best_efficiency, e0)
    if r0 == 0 or e0 == 0:
        return None
    # No mixture satisfies both if and only if weights θ, 1 − θ exist for which every power falls
    # short. Below the most efficient power both measures increase. Above it, the rate at the upper
    # end of an interval and the efficiency at its lower end bound those of all powers in between.
    powers = torch.logspace(
        math.log10(efficient), math.log10(pmax), _GRID_POWERS, dtype=torch.float64
    ).minimum(pmax)
    ratios = torch.stack((rates(powers)[1:] / r0, efficiencies(powers)[:-1] / e0))
    theta = torch.linspace(0, 1, _GRID_WEIGHTS, dtype=torch.float64)
    share = float((torch.stack((theta, 1 - theta), dim=1) @ ratios).amax(1).min())
    return Unreachable(worker, "both together", share, 1.0) if share < 1 else None
