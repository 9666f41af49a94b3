"""The fastest and the cheapest rounds of a set of channels, and all between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import check_csi
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch
from feduplink.observing import track
from feduplink.scenario import Scenario
from feduplink.schedule.column_generation import ColumnGeneration, ScheduleSolution
from feduplink.schedule.schedule_bound import BoundedSchedules, bound_schedules

#: Channels solved at once: their columns stay in memory.
CHUNK = 256
#: The largest Lagrangian that may be left above 1, hence about the relative error of a cost.
TOLERANCE = 1e-3


def demand_of(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> Tensor:
    """w = Z ln 2 / B of every worker, (N, L) nats/Hz; 0 for who is not among the ``senders``."""
    shape = csi.shape[:-1]
    demand = link.rate_for_time(
        torch.as_tensor(bits, dtype=torch.float64), 1.0, scenario.bandwidth_hz
    )
    demand = demand.expand(shape).to(csi.device)
    return demand.clone() if senders is None else demand * senders


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
    check_front_input(csi, seconds_per_joule)
    found: list[list[ScheduleSolution]] = [[] for _ in seconds_per_joule]
    with track("schedules", len(csi), "channels") as tracker:
        for search in _searches(scenario, csi, bits, senders):
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
    check_front_input(csi, seconds_per_joule)
    found: list[list[BoundedSchedules]] = [[] for _ in seconds_per_joule]
    with track("bounds of schedules", len(csi), "channels") as tracker:
        for search in _searches(scenario, csi, bits, None):
            share = len(search.demand) / len(csi)
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


def _searches(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None
) -> Iterator[ColumnGeneration]:
    demand = demand_of(scenario, csi, bits, senders)
    for start in range(0, len(csi), CHUNK):
        rows = slice(start, start + CHUNK)
        yield ColumnGeneration(ChannelBatch.from_scenario(scenario, csi[rows]), demand[rows])


def check_front_input(csi: Tensor, seconds_per_joule: Sequence[float]) -> None:
    """Refuse channels that are not (N, L, L) and prices that are none."""
    check_csi(csi)
    if csi.ndim != 3 or len(csi) == 0:
        raise InputError(f"csi: shape {tuple(csi.shape)}; accepted: (N, L, L) with N of 1 or more.")
    for kappa in seconds_per_joule:
        if not 0 <= kappa < math.inf:
            raise InputError(f"kappa: {kappa} s/J is not accepted; accepted: 0 or more, finite.")
