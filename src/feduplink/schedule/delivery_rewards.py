"""What a delivered model has to be worth, so that every worker delivers as often as it is to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.link import Schedule
from feduplink.link.orthogonal import power_alone
from feduplink.problem import find_measure, success_rate
from feduplink.progress import track_each
from feduplink.scenario import Scenario
from feduplink.schedule.participation import choose_rounds
from feduplink.schedule.round_batches import ALWAYS_S, check_rounds

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
    upload = link.scheduled_upload(csi.double(), schedule, bits, scenario.bandwidth_hz)
    objective = find_measure(scenario.objective).from_scenario(scenario)
    arriving = success_rate(objective, scenario).value(upload.sinr, upload.power)
    return torch.where(upload.finished, arriving, 0.0)


def find_rewards(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    delivery: Tensor,
    *,
    seconds_per_joule: float = 0.0,
    alike: bool = False,
    choose: Callable[[Tensor, Tensor], Schedule] | None = None,
) -> Tensor:
    """λ, (L,) s, with which every worker's model arrives in a share d_i of the rounds.

    Args:
        scenario: the radio.
        csi: H of the rounds to learn from, (N, L, L).
        bits: Z of a model, a scalar or (L,).
        delivery: d, (L,), above 0 and at most 1; 1 is to send in every round.
        seconds_per_joule: κ ≥ 0.
        alike: no worker's channels differ from another's in distribution, so that those with the
            same d may have the same reward, learned from all of them together.
        choose: senders and their schedules for channels (N, L, L) and rewards (L,), as the rewards
            are to be used; None is by :func:`choose_rounds`.
    """
    check_rounds(csi, [seconds_per_joule])
    check_delivery(delivery, csi.shape[-1])
    choose = choose or (
        lambda some, rewards: (
            choose_rounds(
                scenario, some, bits, rewards, seconds_per_joule=seconds_per_joule
            ).schedule
        )
    )
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
    power = power_alone(gain, scenario.pmax_w, static, kappa)
    time_s = link.airtime(gain * power, bits, scenario.bandwidth_hz)
    cost = time_s * (1 + kappa * (power + static))
    return torch.stack([c.quantile(float(d)) for c, d in zip(cost.T, delivery, strict=True)])
