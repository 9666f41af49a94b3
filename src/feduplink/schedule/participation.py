"""Who takes part in a round, if every worker is to deliver in a given share of the rounds.

Minimise E[time + κ · energy] with P(worker i delivers) ≥ d_i. The dual splits over the channels:
worker i earns λ_i for a delivered model, and the senders S of a round are those of the least

    time + κ · energy + Σ_{i ∉ S} λ_i.

A worker in a deep fade waits for a better round. Somebody always sends: a round without any model
teaches nothing, and of several models in one round the second teaches less than the first. With
shares of models allowed this is a linear program again, whose solution leaves few shares between 0
and 1; these are rounded in several ways, and the best counts. What the program costs bounds every
choice of senders from below.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.schedule.column_generation import ColumnGeneration
from feduplink.schedule.front import TOLERANCE
from feduplink.schedule.mixture import phase_rates
from feduplink.schedule.phase_ascent import best_alone
from feduplink.schedule.round_batches import check_rounds, round_batches

#: Who sends: those with a share above one of these; of the last, the best one alone.
_ROUNDINGS = (0.01, 0.25, 0.5, 0.75, 0.99, torch.inf)


@dataclass(frozen=True, repr=False)
class ChosenRounds:
    """Senders and schedules of N rounds.

    Attributes:
        senders: who takes part, (N, L) bool.
        schedule: of the senders.
        cost: time + κ · energy + Σ_{i ∉ S} λ_i, (N,) s.
        lower: what no choice of senders and schedule is below, up to the tolerance, (N,) s.
    """

    senders: Tensor
    schedule: Schedule
    cost: Tensor
    lower: Tensor


def choose_rounds(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    rewards: Tensor,
    *,
    seconds_per_joule: float = 0.0,
    present: Tensor | None = None,
) -> ChosenRounds:
    """The best senders at rewards λ, (L,) s, of a delivered model, with their schedules.

    Other arguments as of the search; ``present`` could take part, (N, L) bool, None is everyone.
    """
    check_rounds(csi, [seconds_per_joule])
    parts = [
        RoundChoice(batch, demand).choose(seconds_per_joule, rewards)
        for batch, demand in round_batches(scenario, csi, bits, present)
    ]
    return ChosenRounds(
        torch.cat([part.senders for part in parts]),
        Schedule.concat([part.schedule for part in parts]),
        torch.cat([part.cost for part in parts]),
        torch.cat([part.lower for part in parts]),
    )


class RoundChoice:
    """Chooses senders for the same channels at one reward after the other.

    Args:
        batch: the channels.
        demand: w of who could take part, (N, L) nats/Hz.
    """

    def __init__(self, batch: ChannelBatch, demand: Tensor) -> None:
        self._relaxed = ColumnGeneration(batch, demand)

    def shares(self, seconds_per_joule: float, rewards: Tensor) -> tuple[Tensor, Tensor]:
        """The linear program's cost (N,) s and shares (N, L)."""
        return self._relaxed.shares(seconds_per_joule, rewards, tolerance=TOLERANCE)

    def choose(self, seconds_per_joule: float, rewards: Tensor) -> ChosenRounds:
        """The best of several roundings of the shares."""
        lower, shares = self.shares(seconds_per_joule, rewards)
        batch, demand = self._relaxed.batch, self._relaxed.demand
        sets = torch.stack([shares > level for level in _ROUNDINGS])
        sets = with_somebody(batch, demand, sets, rewards, seconds_per_joule)
        # Most shares are whole, and most roundings alike: a set that was there before costs nothing
        # to solve for nobody, and does not count.
        seen = torch.zeros_like(sets[..., 0])
        for place in range(1, len(sets)):
            seen[place] = (sets[:place] == sets[place]).all(-1).any(0)
        flat = torch.where(seen[..., None], False, sets).flatten(0, 1)
        index = torch.arange(len(demand), device=demand.device).repeat(len(sets))
        search = ColumnGeneration(batch.take(index), demand[index] * flat)
        search.add_phases(self._relaxed.phases[index], seconds_per_joule)
        solution = search.solve(seconds_per_joule, tolerance=TOLERANCE)
        left_out = torch.where(flat | (demand[index] == 0), 0.0, rewards.to(demand)).sum(-1)
        cost = torch.where(seen, torch.inf, (solution.cost + left_out).view_as(seen))
        chosen = cost.argmin(0) * len(demand) + index[: len(demand)]
        return ChosenRounds(flat[chosen], solution.schedule.take(chosen), cost.amin(0), lower)


def with_somebody(
    batch: ChannelBatch, demand: Tensor, senders: Tensor, rewards: Tensor, seconds_per_joule: float
) -> Tensor:
    """Senders (..., N, L) bool; where there are none, whose model is worth most above its cost."""
    power = best_alone(batch, seconds_per_joule)
    rate = phase_rates(batch, torch.diag_embed(power)).diagonal(dim1=-2, dim2=-1)
    spent = demand / rate * (1 + seconds_per_joule * (power + batch.static_power_w))
    loss = torch.where(demand > 0, spent - rewards.to(demand), torch.inf)
    best = torch.zeros_like(demand > 0).scatter(1, loss.argmin(-1, keepdim=True), True)
    return senders | (best & (demand > 0) & ~senders.any(-1, keepdim=True))
