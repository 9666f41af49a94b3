"""The optimum on a set of channels: the best policy found, and proof of how close it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from feduplink.channels import draw_csi
from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.lagrangian import Cell, Multipliers
from feduplink.optimum.certificate import Certificate, certify
from feduplink.optimum.dual import DualSolution, DualStep, solve_dual
from feduplink.optimum.reachability import Unreachable, unreachable
from feduplink.policies.dual import DualPolicy
from feduplink.problem import Problem
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: A gap of at most this share of the objective's scale counts as certified.
CERTIFIED_GAP = 0.02
#: Channels that the multipliers of the ``dual`` policy are learned on, and by how many standard
#: errors of a constraint's mean over them the policy aims above the thresholds.
LEARNING_CHANNELS = 4000
_MARGIN = 1.0


@dataclass(frozen=True)
class Optimum:
    """The solution of the dual problem on some channels, with its certificate.

    No policy that meets the constraints on these channels has an objective above
    ``upper_bound``; ``power`` reaches ``objective``.
    """

    scenario: Scenario
    solution: DualSolution
    certificate: Certificate
    unreachable: list[Unreachable]

    @property
    def power(self) -> Tensor:
        """The best powers found that meet the constraints, (N, L) W."""
        return self.solution.power

    @property
    def objective(self) -> float:
        """What these powers reach."""
        return self.solution.judgement.objective

    @property
    def upper_bound(self) -> float:
        """What nobody exceeds."""
        return float(self.certificate.upper.mean()) + self.solution.conjugate

    @property
    def gap(self) -> float:
        """upper_bound − objective."""
        return self.upper_bound - self.objective

    def as_metrics(self) -> dict[str, Any]:
        """The ``optimum`` entry of ``metrics.json``."""
        verdict = self.solution.judgement.as_metrics()
        scale = max(1.0, abs(self.objective))
        return {
            "objective": self.objective,
            "upper_bound": self.upper_bound,
            "gap": self.gap,
            "certified": self.gap <= CERTIFIED_GAP * scale,
            "rate_min": verdict["rate_min"],
            "energy_efficiency_min": verdict["energy_efficiency_min"],
            "participation": verdict["participation"],
            "weighted_per": verdict["weighted_per"],
            "dual_value": self.solution.dual_value,
            "multipliers": self.solution.multipliers.constraints.tolist(),
            "unreachable": [str(entry) for entry in self.unreachable],
        }


def find_optimum(
    scenario: Scenario,
    csi: Tensor,
    *,
    budget_s: float = 60.0,
    target_gap: float = 1e-3,
    on_dual_step: Callable[[DualStep], None] | None = None,
    on_bound: Callable[[Certificate], None] | None = None,
) -> Optimum:
    """Solve the problem on channels (N, L, L), then certify the solution.

    Args:
        scenario: the problem; its ``workers`` must be the channels' L.
        csi: the channels.
        budget_s: most seconds for the certificate, on top of the solution.
        target_gap: the certificate stops earlier when it is this tight.
        on_dual_step: told of every evaluation of the dual function.
        on_bound: told of every improvement of the bound.
    """
    check_csi(csi, scenario.workers)
    shut_out = unreachable(scenario, csi)
    if len(shut_out) == scenario.workers:
        raise InputError(f"thresholds: no worker can ever transmit; {shut_out[0]}.")
    solution = solve_dual(scenario, csi, progress=on_dual_step)
    certificate = certify(
        Cell.of(scenario, csi),
        solution.multipliers.prices(scenario),
        budget_s=budget_s,
        target_gap=target_gap,
        progress=on_bound,
    )
    return Optimum(scenario, solution, certificate, shut_out)


def learn_dual_policy(scenario: Scenario, csi: Tensor) -> DualPolicy:
    """The ``dual`` policy with multipliers from training channels, (N, L, L).

    Solved twice: the first solution tells the standard error with which the channels estimate
    each constraint, and the second aims above the thresholds by as much, so that the constraints
    also hold on channels it has not seen.
    """
    first = solve_dual(scenario, csi)
    power = first.power.to(torch.float64)
    sinr = Cell.of(scenario, csi).sinr(power)
    aims = {}
    for constraint, field in zip(
        Problem.of(scenario).constraints, ("rate_min", "ee_min"), strict=True
    ):
        values = torch.where(power > 0, constraint.measure(sinr, power), math.nan)
        heard = (power > 0).sum(0).clamp_min(2)
        spread = (values - values.nanmean(0)).square().nansum(0) / (heard - 1)
        error = (spread / heard).sqrt().nan_to_num(nan=0.0)  # NaN: a worker never heard
        # A threshold of 0 means that there is no constraint.
        aim = torch.where(constraint.threshold > 0, constraint.threshold + _MARGIN * error, 0.0)
        aims[field] = tuple(aim.tolist())
    aimed = scenario.replace(**aims)
    return DualPolicy(aimed, solve_dual(aimed, csi).multipliers)


def learned_on_fresh_channels(scenario: Scenario, seed: int) -> DualPolicy:
    """The ``dual`` policy for a scenario, from channels drawn for it."""
    csi = draw_csi(scenario, LEARNING_CHANNELS, torch_generator(seed, "train-channels"))
    return learn_dual_policy(scenario, csi)


def distribution_bound(
    scenario: Scenario, multipliers: Multipliers, csi: Tensor, confidence: float, budget_s: float
) -> tuple[float, float]:
    """An upper bound for all channels of the distribution, not only those at hand.

    For multipliers that were learned on other channels, the largest Lagrangians of these channels
    are independent draws, and their expectation bounds every policy. By the empirical Bernstein
    inequality (Maurer and Pontil 2009) it is, with the given confidence, at most their mean plus
    √(2 V ln(2/δ) / N) + 7 M ln(2/δ) / (3 (N − 1)), V their variance and M their range.

    Returns the bound and the direct gain up to which it holds: M is computed for gains up to ten
    times the largest one seen.
    """
    cell = Cell.of(scenario, csi)
    prices = multipliers.prices(scenario)
    upper = certify(cell, prices, budget_s=budget_s).upper
    strongest = 10 * float(cell.direct.max())
    rate = math.log1p(strongest * scenario.pmax_w)
    slope = prices.rate + prices.efficiency / scenario.static_power_w
    spread = float((prices.success + slope * rate).sum())
    count, log_term = len(upper), math.log(2 / (1 - confidence))
    slack = math.sqrt(2 * float(upper.var()) * log_term / count)
    slack += 7 * spread * log_term / (3 * (count - 1))
    return float(upper.mean()) + slack, strongest
