"""The fastest and the cheapest rounds of a set of channels, and all between."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from feduplink.progress import track
from feduplink.scenario import Scenario
from feduplink.schedule.column_generation import ColumnGeneration, ScheduleSolution
from feduplink.schedule.round_batches import check_rounds, round_batches
from feduplink.schedule.schedule_bound import BoundedSchedules, bound_schedules

#: The largest Lagrangian that may be left above 1, hence about the relative error of a cost.
TOLERANCE = 1e-3


def find_schedules(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    *,
    seconds_per_joule: float = 0.0,
    senders: Tensor | None = None,
    tolerance: float = TOLERANCE,
) -> ScheduleSolution:
    """Schedules of least time + κ · energy of channels (N, L, L).

    Args:
        scenario: the radio.
        csi: H, (N, L, L).
        bits: Z of a model, a scalar or (L,).
        seconds_per_joule: κ ≥ 0; 0 is the fastest round.
        senders: who takes part, (N, L) bool; None is everyone.
        tolerance: how far above 1 a Lagrangian may be left, about the relative error of the cost.
    """
    return find_front(
        scenario, csi, bits, [seconds_per_joule], senders=senders, tolerance=tolerance
    )[0]


def find_front(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    seconds_per_joule: Sequence[float],
    *,
    senders: Tensor | None = None,
    tolerance: float = TOLERANCE,
) -> list[ScheduleSolution]:
    """The same for several κ, which share what is found: the front between time and energy."""
    check_rounds(csi, seconds_per_joule)
    found: list[list[ScheduleSolution]] = [[] for _ in seconds_per_joule]
    with track("schedules", len(csi), "channels") as tracker:
        for batch, demand in round_batches(scenario, csi, bits, senders):
            search = ColumnGeneration(batch, demand)
            for kappa, parts in zip(seconds_per_joule, found, strict=True):
                parts.append(search.solve(kappa, tolerance=tolerance))
            tracker.advance(sum(len(part.cost) for part in found[0]))
    return [ScheduleSolution.concat(parts) for parts in found]


def bound_front(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    seconds_per_joule: Sequence[float],
    *,
    gap: float,
    budget_s: float,
) -> list[BoundedSchedules]:
    """The front with a proof for every channel and κ, ``budget_s`` seconds at most for each κ."""
    check_rounds(csi, seconds_per_joule)
    found: list[list[BoundedSchedules]] = [[] for _ in seconds_per_joule]
    with track("bounds of schedules", len(csi), "channels") as tracker:
        for batch, demand in round_batches(scenario, csi, bits):
            search = ColumnGeneration(batch, demand)
            share = len(demand) / len(csi)
            for kappa, parts in zip(seconds_per_joule, found, strict=True):
                parts.append(bound_schedules(search, kappa, gap=gap, budget_s=share * budget_s))
            tracker.advance(sum(len(part.lower) for part in found[0]))
    return [
        BoundedSchedules(
            ScheduleSolution.concat([part.solution for part in parts]),
            torch.cat([part.lower for part in parts]),
            sum(part.seconds for part in parts),
        )
        for parts in found
    ]
