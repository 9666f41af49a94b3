"""Participation: choice of the senders of a round, for a required delivery rate per worker.

Minimise E[time + κ · energy] subject to P(worker i delivers) ≥ d_i. The dual problem separates over
the channels: worker i earns a reward λ_i per delivered upload, and the senders S of a round
minimise

    time + κ · energy + Σ_{i ∉ S} λ_i.

A worker in a deep fade thus waits for a better round. Every round has at least one sender, because
a round without an upload does not improve the model. If fractions of uploads are allowed, the
choice is a linear program, whose optimum is a lower bound on the cost. Few of its fractions are
strictly between 0 and 1; they are rounded at several thresholds, and the best rounding is the
result.
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
    MANDATORY_REWARD_S,
    ColumnGeneration,
    check_rounds,
    round_batches,
)
from feduplink.scheduling.phases import phase_rates
from feduplink.tensor_record import TensorRecord

#: Thresholds of the share above which a worker sends; at the last, only the best worker sends.
_ROUNDING_THRESHOLDS = (0.01, 0.25, 0.5, 0.75, 0.99, torch.inf)


@dataclass(frozen=True, repr=False)
class ChosenRounds(TensorRecord):
    """Senders and schedules of N rounds.

    Attributes:
        senders: workers that take part, (N, L) bool.
        schedule: schedules of the senders.
        cost: time + κ · energy + Σ_{i ∉ S} λ_i, (N,), s.
        lower: lower bound on the cost of any choice of senders and schedule, up to the tolerance of
            the linear program, (N,), s.
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
    """Choose the senders of rounds and their schedules at given rewards.

    Args:
        scenario: the radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        rewards: λ, reward of a delivered upload, (L,), s.
        seconds_per_joule: κ ≥ 0, s/J.
        present: workers that may take part, (N, L) bool; None: all.

    Raises:
        InputError: if ``csi`` is not (N, L, L), or κ is negative or not finite.
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
    """The best of several roundings of the relaxed shares; demand (N, L) nats/Hz."""
    relaxed = ColumnGeneration(batch, demand)
    lower, shares = relaxed.shares(seconds_per_joule, rewards)
    sets = torch.stack([shares > level for level in _ROUNDING_THRESHOLDS])
    sets = ensure_a_sender(batch, demand, sets, rewards, seconds_per_joule)
    # Most shares are 0 or 1, so most roundings coincide. Only the first of equal sets is solved;
    # duplicates are emptied, which makes their programs trivial.
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


def ensure_a_sender(
    batch: ChannelBatch, demand: Tensor, senders: Tensor, rewards: Tensor, seconds_per_joule: float
) -> Tensor:
    """Add a sender to rounds without one: the worker with the lowest cost minus reward.

    Args:
        batch: N channels.
        demand: w, (N, L), nats/Hz; 0 for workers that may not take part.
        senders: (..., N, L) bool.
        rewards: λ, (L,), s.
        seconds_per_joule: κ, s/J.

    Returns:
        Senders, (..., N, L) bool.
    """
    power = power_alone(batch.direct, batch.pmax_w, batch.static_power_w, seconds_per_joule)
    rate = phase_rates(batch, torch.diag_embed(power)).diagonal(dim1=-2, dim2=-1)
    cost = demand / rate * (1 + seconds_per_joule * (power + batch.static_power_w))
    loss = torch.where(demand > 0, cost - rewards.to(demand), torch.inf)
    best = torch.zeros_like(demand > 0).scatter(1, loss.argmin(-1, keepdim=True), True)
    return senders | (best & (demand > 0) & ~senders.any(-1, keepdim=True))


#: Number of trials of rewards on a share of the channels, then on all of them.
_SUBSET_SHARE = 0.25
_SUBSET_TRIALS = 3
_FULL_TRIALS = 2
#: Slope of the log-odds of delivery in ln λ: initial value, and range of the secant estimates.
_INITIAL_SLOPE = 2.0
_MIN_SLOPE, _MAX_SLOPE = 0.5, 8.0
#: Margin above d in standard errors of the estimated rate: a rate ends below d with about 2 %
#: probability.
_MARGIN_SE = 2.0


def expected_arrivals(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, schedule: Schedule
) -> Tensor:
    """Probability that each worker's upload is sent and received, (N, L).

    Args:
        scenario: the radio, with the rule of arrivals.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        schedule: schedules of N rounds.
    """
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
    """Find rewards λ at which each worker's upload arrives in a share d_i of the rounds.

    A secant iteration on ln λ and the log-odds of delivery, first on a quarter of the channels,
    then on all of them.

    Args:
        scenario: the radio.
        csi: H of the training rounds, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        delivery: d, (L,), in (0, 1]; a worker with d_i = 1 sends in every round.
        seconds_per_joule: κ ≥ 0, s/J.
        choose: maps channels (N, L, L) and rewards (L,) to schedules of the chosen senders, e.g. by
            :func:`choose_rounds` or by a network.
        alike: whether all workers' channels have the same distribution. Workers with the same d
            then share a reward, estimated from all of them.

    Returns:
        λ, (L,), s.

    Raises:
        InputError: for channels that are not (N, L, L), a negative κ, or rates outside (0, 1].
    """
    check_rounds(csi, [seconds_per_joule])
    check_delivery(delivery, csi.shape[-1])
    mandatory = delivery >= 1
    groups = delivery[:, None] == delivery if alike else torch.eye(len(delivery)).bool()
    mean_of = groups.double() / groups.sum(-1, keepdim=True)
    rewards = mean_of @ _interference_free_cost(scenario, csi, bits, delivery, seconds_per_joule)
    subset = csi[: max(1, round(_SUBSET_SHARE * len(csi)))]
    trials = [subset] * _SUBSET_TRIALS + [csi] * _FULL_TRIALS
    slope, previous = torch.full_like(rewards, _INITIAL_SLOPE), None
    for tried in track_each("rewards for delivered models", trials):
        rewards = torch.where(mandatory, MANDATORY_REWARD_S, rewards)
        schedule = choose(tried, rewards)
        arriving = expected_arrivals(scenario, tried, bits, schedule) @ mean_of.T
        odds = _log_odds(arriving.mean(0), len(tried))
        if previous is not None and previous.count == len(tried):
            secant = (odds - previous.odds) / (rewards / previous.rewards).log()
            slope = torch.where(secant.isfinite(), secant.clamp(_MIN_SLOPE, _MAX_SLOPE), slope)
        aim = delivery + _MARGIN_SE * arriving.std(0, correction=0) / len(tried) ** 0.5
        aim = _log_odds(torch.minimum(aim, (1 + delivery) / 2), len(tried))
        previous = _Trial(len(tried), rewards, odds)
        rewards = rewards * ((aim - odds) / slope).exp()
    return torch.where(mandatory, MANDATORY_REWARD_S, rewards)


@dataclass(frozen=True)
class _Trial:
    """Result of trying rewards on some channels.

    Attributes:
        count: number of channels.
        rewards: λ, (L,), s.
        odds: log-odds of delivery, (L,).
    """

    count: int
    rewards: Tensor
    odds: Tensor


def _log_odds(rate: Tensor, count: int) -> Tensor:
    """ln r / (1 − r); rates of 0 and 1 count as half a delivery more or less of ``count``."""
    return rate.clamp(0.5 / count, 1 - 0.5 / count).logit()


def check_delivery(delivery: Tensor, workers: int) -> None:
    """Check required delivery rates.

    Args:
        delivery: d, expected (L,) in (0, 1].
        workers: L.

    Raises:
        InputError: if the shape or a value is not accepted.
    """
    if delivery.shape != (workers,) or not bool(((delivery > 0) & (delivery <= 1)).all()):
        raise InputError(
            f"delivery: {delivery.tolist()} was given; accepted: above 0 and at most 1, one "
            f"value or one per worker ({workers})."
        )


def _interference_free_cost(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, delivery: Tensor, kappa: float
) -> Tensor:
    """Quantile d_i of worker i's time + κ · energy without interference, (L,), s."""
    gain = csi.double().diagonal(dim1=-2, dim2=-1)
    static = scenario.static_power.to(gain)
    power = power_alone(gain, scenario.max_power, static, kappa)
    time_s = link.airtime(gain * power, bits, scenario.bandwidth_hz)
    cost = time_s * (1 + kappa * (power + static))
    return torch.stack([c.quantile(float(d)) for c, d in zip(cost.T, delivery, strict=True)])
