"""Participation: which workers send in a round, so that each delivers in a given share of the
rounds.

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

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch
from feduplink.link import Schedule
from feduplink.link.uploads import power_alone
from feduplink.progress import track_each
from feduplink.scenario import Scenario
from feduplink.scheduling.column_generation import (
    ALWAYS_S,
    ColumnGeneration,
    check_rounds,
    round_batches,
)
from feduplink.scheduling.phases import phase_rates
from feduplink.tensor_record import TensorRecord

#: Who sends: those with a share above one of these; of the last, the best one alone.
_ROUNDINGS = (0.01, 0.25, 0.5, 0.75, 0.99, torch.inf)


@dataclass(frozen=True, repr=False)
class ChosenRounds(TensorRecord):
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
        _best_rounding(batch, demand, rewards, seconds_per_joule)
        for batch, demand in round_batches(scenario, csi, bits, present)
    ]
    return ChosenRounds.concat(parts)


def _best_rounding(
    batch: ChannelBatch, demand: Tensor, rewards: Tensor, seconds_per_joule: float
) -> ChosenRounds:
    """The best of several roundings of the shares; ``demand`` (N, L) is of who could take part."""
    relaxed = ColumnGeneration(batch, demand)
    lower, shares = relaxed.shares(seconds_per_joule, rewards)
    sets = torch.stack([shares > level for level in _ROUNDINGS])
    sets = with_somebody(batch, demand, sets, rewards, seconds_per_joule)
    # Most shares are 0 or 1, so most roundings coincide. Of equal sets only the first is solved; a
    # duplicate is left without senders, which costs no time.
    duplicate = torch.zeros_like(sets[..., 0])
    for place in range(1, len(sets)):
        duplicate[place] = (sets[:place] == sets[place]).all(-1).any(0)
    flat = sets.masked_fill(duplicate[..., None], False).flatten(0, 1)
    index = torch.arange(len(demand), device=demand.device).repeat(len(sets))
    search = ColumnGeneration(batch.take(index), demand[index] * flat)
    search.add_phases(relaxed.phases[index], seconds_per_joule)
    solution = search.solve(seconds_per_joule)
    left_out = torch.where(flat | (demand[index] == 0), 0.0, rewards.to(demand)).sum(-1)
    solved = ChosenRounds(flat, solution.schedule, solution.cost + left_out, lower[index])
    cost = solved.cost.view_as(duplicate)
    return solved.select(cost.masked_fill(duplicate, torch.inf).argmin(0))


def with_somebody(
    batch: ChannelBatch, demand: Tensor, senders: Tensor, rewards: Tensor, seconds_per_joule: float
) -> Tensor:
    """Senders (..., N, L) bool; where there are none, whose model is worth most above its cost."""
    power = power_alone(batch.direct, batch.pmax_w, batch.static_power_w, seconds_per_joule)
    rate = phase_rates(batch, torch.diag_embed(power)).diagonal(dim1=-2, dim2=-1)
    spent = demand / rate * (1 + seconds_per_joule * (power + batch.static_power_w))
    loss = torch.where(demand > 0, spent - rewards.to(demand), torch.inf)
    best = torch.zeros_like(demand > 0).scatter(1, loss.argmin(-1, keepdim=True), True)
    return senders | (best & (demand > 0) & ~senders.any(-1, keepdim=True))


#: Rewards are tried on a quarter of the channels first, then on all of them.
_FIRST_SHARE = 0.25
_FIRST_TRIALS = 3
_TRIALS = 2
#: How the log-odds of delivering rise with ln λ: what is assumed of the first step, and the
#: least and the most that is believed of two trials.
_SLOPE = 2.0
_LEAST_SLOPE, _MOST_SLOPE = 0.5, 8.0
#: So many standard errors of the rate on the channels at hand above d are aimed at: of fifty sets
#: of rewards one may leave a rate below d.
_MARGIN = 2.0


def expected_arrivals(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, schedule: Schedule
) -> Tensor:
    """The probability that each worker's model arrives, (N, L): it is sent, and not lost."""
    return link.upload(csi.double(), schedule, scenario, bits=bits).arrivals


def find_rewards(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    delivery: Tensor,
    *,
    seconds_per_joule: float = 0.0,
    choose: Callable[[Tensor, Tensor], Schedule],
    alike: bool = False,
) -> Tensor:
    """λ, (L,) s, with which every worker's model arrives in a share d_i of the rounds.

    Args:
        scenario: the radio.
        csi: H of the rounds to learn from, (N, L, L).
        bits: Z of a model, a scalar or (L,).
        delivery: d, (L,), above 0 and at most 1; 1 is to send in every round.
        seconds_per_joule: κ ≥ 0.
        choose: senders and their schedules for channels (N, L, L) and rewards (L,), as the rewards
            are to be used: by :func:`choose_rounds` or by a network.
        alike: no worker's channels differ from another's in distribution, so that those with the
            same d may have the same reward, learned from all of them together.
    """
    check_rounds(csi, [seconds_per_joule])
    check_delivery(delivery, csi.shape[-1])
    always = delivery >= 1
    groups = delivery[:, None] == delivery if alike else torch.eye(len(delivery)).bool()
    mean_of = groups.double() / groups.sum(-1, keepdim=True)
    rewards = mean_of @ _alone(scenario, csi, bits, delivery, seconds_per_joule)
    few = csi[: max(1, round(_FIRST_SHARE * len(csi)))]
    trials = [few] * _FIRST_TRIALS + [csi] * _TRIALS
    slope, before = torch.full_like(rewards, _SLOPE), None
    for tried in track_each("rewards for delivered models", trials):
        rewards = torch.where(always, ALWAYS_S, rewards)
        schedule = choose(tried, rewards)
        arriving = expected_arrivals(scenario, tried, bits, schedule) @ mean_of.T
        odds = _log_odds(arriving.mean(0), len(tried))
        if before is not None and before.count == len(tried):
            found = (odds - before.odds) / (rewards / before.rewards).log()
            slope = torch.where(found.isfinite(), found.clamp(_LEAST_SLOPE, _MOST_SLOPE), slope)
        aim = delivery + _MARGIN * arriving.std(0, correction=0) / len(tried) ** 0.5
        aim = _log_odds(torch.minimum(aim, (1 + delivery) / 2), len(tried))
        before = _Trial(len(tried), rewards, odds)
        rewards = rewards * ((aim - odds) / slope).exp()
    return torch.where(always, ALWAYS_S, rewards)


@dataclass(frozen=True)
class _Trial:
    """What rewards (L,) s led to on some channels: log-odds of delivering, (L,)."""

    count: int
    rewards: Tensor
    odds: Tensor


def _log_odds(rate: Tensor, count: int) -> Tensor:
    """ln r / (1 − r) of rates on ``count`` channels; of none or all, as if of half a channel."""
    return rate.clamp(0.5 / count, 1 - 0.5 / count).logit()


def check_delivery(delivery: Tensor, workers: int) -> None:
    """Refuse rates that are none."""
    if delivery.shape != (workers,) or not bool(((delivery > 0) & (delivery <= 1)).all()):
        raise InputError(
            f"delivery: {delivery.tolist()} is not accepted; accepted: above 0 and at most 1, one "
            f"value or one per worker ({workers})."
        )


def _alone(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, delivery: Tensor, kappa: float
) -> Tensor:
    """The time + κ · energy that worker i, if alone, stays under in a share d_i of rounds, (L,)."""
    gain = csi.double().diagonal(dim1=-2, dim2=-1)
    static = scenario.static_power.to(gain)
    power = power_alone(gain, scenario.max_power, static, kappa)
    time_s = link.airtime(gain * power, bits, scenario.bandwidth_hz)
    cost = time_s * (1 + kappa * (power + static))
    return torch.stack([c.quantile(float(d)) for c, d in zip(cost.T, delivery, strict=True)])
