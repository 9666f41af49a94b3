"""What no schedule of a round costs less than, by the dual of the linear program.

For λ ≥ 0 with Σ_i λ_i R_i(p) ≤ 1 + κ Σ_{i on} (p_i + P_c) at all powers p, every schedule costs at
least Σ_i λ_i w_i: its phases deliver w. If the largest Lagrangian Σ λ R − κ Σ (p + P_c) is at most
U ≥ 1, then λ / U is such a point, because dividing the rates and not the rest lowers it further. So
any upper bound U on the inner problem, as that of branch and bound, gives Σ λ w / U.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.optimum import certify
from feduplink.schedule.column_generation import ColumnGeneration, ScheduleSolution

#: Branch and bound also finds phases that the search had missed. With them the program is solved
#: again, so often at most.
_ROUNDS = 4
#: Of the gap that is asked for, this share goes to the search; the rest is for its bound.
_SHARE = 0.2


@dataclass(frozen=True)
class BoundedSchedules:
    """Schedules with a proof of how good they are.

    Attributes:
        solution: the schedules.
        lower: what no schedule of the channel costs less than, (N,) s.
        seconds: that the proof took.
    """

    solution: ScheduleSolution
    lower: Tensor
    seconds: float

    @property
    def gap(self) -> Tensor:
        """1 − lower / cost, (N,): by which share anybody could be cheaper at most."""
        return 1 - self.lower / self.solution.cost


def dual_value(solution: ScheduleSolution, upper: Tensor) -> Tensor:
    """Σ λ w / U, (N,), with an upper bound U (N,) on the largest Lagrangian."""
    multipliers = solution.multipliers.clamp_min(0.0)
    return (multipliers * solution.demand).sum(-1) / upper.clamp_min(1.0)


def bound_schedules(
    search: ColumnGeneration,
    seconds_per_joule: float,
    *,
    gap: float,
    budget_s: float,
) -> BoundedSchedules:
    """The best schedules and a bound, until it is within ``gap`` of each or time is up.

    Sound whenever it stops: a bound that is cut short is only looser.
    """
    started = time.monotonic()
    tolerance = min(1e-3, _SHARE * gap)
    solution = search.solve(seconds_per_joule, tolerance=tolerance)
    lower = torch.zeros_like(solution.cost)
    for _ in range(_ROUNDS):
        left = budget_s - (time.monotonic() - started)
        wanted = 1 - 2 * _SHARE
        certificate = certify(
            search.batch,
            solution.prices(search.batch),
            budget_s=max(left, 0.0),
            target_gap=wanted * gap,
            channel_gap=wanted * gap,
        )
        lower = torch.maximum(lower, dual_value(solution, certificate.upper))
        proved = bool((lower >= (1 - gap) * solution.cost).all())
        if proved or time.monotonic() - started >= budget_s:
            break
        search.add_phases(certificate.power[:, None], seconds_per_joule)
        solution = search.solve(seconds_per_joule, tolerance=tolerance)
    return BoundedSchedules(solution, lower, time.monotonic() - started)
