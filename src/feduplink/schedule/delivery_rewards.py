"""What a delivered model has to be worth, so that every worker delivers as often as it is to."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch
from feduplink.link.orthogonal import power_alone
from feduplink.observing import track_each
from feduplink.problem import find_measure, success_rate
from feduplink.scenario import Scenario
from feduplink.schedule.participation import ChosenRounds, RoundChoice
from feduplink.schedule.round_batches import ALWAYS_S, check_rounds, demand_of

#: Steps with shares of models, which are quick, then with whole ones.
_SHARED_STEPS = 8
_WHOLE_STEPS = 4
#: A step in ln λ per unit of ln(d / rate): rates rise with a high power of the reward.
_STEP = 0.25
#: So many standard errors of the rate on the channels at hand above d are aimed at.
_MARGIN = 1.0


def expected_arrivals(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, rounds: ChosenRounds
) -> Tensor:
    """The probability that each worker's model arrives, (N, L): it is sent, and not lost."""
    upload = link.scheduled_upload(csi.double(), rounds.schedule, bits, scenario.bandwidth_hz)
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
    """
    check_rounds(csi, [seconds_per_joule])
    check_delivery(delivery, csi.shape[-1])
    batch = ChannelBatch.from_scenario(scenario, csi)
    choice = RoundChoice(batch, demand_of(scenario, csi, bits))
    always = delivery >= 1
    groups = delivery[:, None] == delivery if alike else torch.eye(len(delivery)).bool()
    mean_of = groups.double() / groups.sum(-1, keepdim=True)
    samples = len(csi) * groups.sum(-1)
    aim = delivery + _MARGIN * (delivery * (1 - delivery) / samples).sqrt()
    aim = torch.minimum(aim, (1 + delivery) / 2)
    rewards = mean_of @ _alone(scenario, csi, bits, delivery, seconds_per_joule)
    rewards = torch.where(always, ALWAYS_S, rewards)
    for step in track_each("rewards for delivered models", range(_SHARED_STEPS + _WHOLE_STEPS)):
        if step < _SHARED_STEPS:
            arriving = choice.shares(seconds_per_joule, rewards)[1]
        else:
            rounds = choice.choose(seconds_per_joule, rewards)
            arriving = expected_arrivals(scenario, csi, bits, rounds)
        rate = mean_of @ arriving.mean(0)
        missing = (aim / rate.clamp_min(0.5 / len(csi))).log()
        rewards = torch.where(always, ALWAYS_S, rewards * (_STEP * missing).exp())
    return rewards


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
