from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.errors import InputError
from feduplink.link import Schedule
from feduplink.scheduling import choose_rounds, expected_arrivals, find_rewards, find_schedules

BITS = 1.0e6
SMALL = Scenario(workers=4)


def _schedules(csi: Tensor, rewards: Tensor) -> Schedule:
    return choose_rounds(SMALL, csi, BITS, rewards, seconds_per_joule=10.0).schedule


@pytest.mark.parametrize(("kappa", "reward"), [(0.0, 0.7), (20.0, 1.5)])
def test_the_cost_of_chosen_senders_is_near_that_of_the_best_subset(kappa: float, reward: float):
    csi = make_channels(SMALL, 8, seed=3).test
    rewards = torch.full((4,), reward, dtype=torch.float64)
    found = choose_rounds(SMALL, csi, BITS, rewards, seconds_per_joule=kappa)
    costs = []
    for on_air in itertools.product([False, True], repeat=4):
        if not any(on_air):  # at least one worker transmits
            continue
        senders = torch.tensor(on_air).expand(8, -1)
        cost = find_schedules(SMALL, csi, BITS, seconds_per_joule=kappa, senders=senders).cost
        costs.append(cost + reward * (4 - sum(on_air)))
    best = torch.stack(costs).amin(0)
    assert (found.lower <= best * (1 + 2e-3)).all()
    assert (found.cost >= best * (1 - 2e-3)).all()
    # Rounding shares up or down loses little.
    assert (found.cost <= best * 1.1).all()
    assert float(found.cost.mean()) <= 1.02 * float(best.mean())
    assert torch.equal(found.schedule.senders, found.senders)


def test_without_rewards_only_the_cheapest_worker_transmits():
    csi = make_channels(SMALL, 6, seed=2).test
    found = choose_rounds(SMALL, csi, BITS, torch.zeros(4), seconds_per_joule=5.0)
    each = [
        find_schedules(SMALL, csi, BITS, seconds_per_joule=5.0, senders=only.expand(6, -1)).cost
        for only in torch.eye(4, dtype=torch.bool)
    ]
    cheapest, worker = torch.stack(each, -1).min(-1)
    assert torch.equal(found.senders, torch.nn.functional.one_hot(worker, 4).bool())
    torch.testing.assert_close(found.cost, cheapest, rtol=2e-3, atol=0.0)
    nobody = torch.zeros(6, 4, dtype=torch.bool)
    absent = choose_rounds(SMALL, csi, BITS, torch.zeros(4), present=nobody)
    assert not absent.senders.any()


def test_absent_workers_are_not_chosen():
    csi = make_channels(SMALL, 3, seed=3).test
    present = torch.tensor([True, False, True, False]).expand(3, -1)
    rewards = torch.full((4,), 100.0, dtype=torch.float64)
    found = choose_rounds(SMALL, csi, BITS, rewards, present=present)
    assert torch.equal(found.senders, present)
    same = find_schedules(SMALL, csi, BITS, senders=present)
    torch.testing.assert_close(found.cost, same.cost, rtol=2e-3, atol=0.0)


@pytest.mark.slow
def test_rewards_give_the_required_delivery_rates():
    splits = make_channels(SMALL, 600, seed=0)
    delivery = torch.tensor([0.2, 0.5, 0.5, 1.0], dtype=torch.float64)
    rewards = find_rewards(
        SMALL,
        splits.training[:200],
        BITS,
        delivery,
        seconds_per_joule=10.0,
        choose=_schedules,
        alike=True,
    )
    assert rewards[1] == rewards[2] > rewards[0]
    rounds = choose_rounds(SMALL, splits.test, BITS, rewards, seconds_per_joule=10.0)
    assert rounds.senders[:, 3].all()
    rates = expected_arrivals(SMALL, splits.test, BITS, rounds.schedule).mean(0)
    # 600 rounds estimate a rate to 0.02; the 200 for tuning add as much.
    assert (rates[:3] >= delivery[:3] - 0.05).all()
    assert (rates[:3] <= delivery[:3] + 0.12).all()


@pytest.mark.parametrize("count", [1, 3])
def test_rewards_from_few_channels_are_finite(count: int):
    csi = make_channels(SMALL, count, seed=0).training
    delivery = torch.tensor([0.2, 0.5, 0.5, 1.0], dtype=torch.float64)
    rewards = find_rewards(SMALL, csi, BITS, delivery, seconds_per_joule=10.0, choose=_schedules)
    assert rewards.isfinite().all()
    assert (rewards > 0).all()


def test_delivery_rates_outside_the_unit_interval_are_refused():
    csi = make_channels(SMALL, 2, seed=0).test
    for wrong in ([0.0] * 4, [1.1] * 4, [0.5] * 3):
        with pytest.raises(InputError, match=r"^delivery: .*; accepted: above 0 and at most 1"):
            find_rewards(SMALL, csi, BITS, torch.tensor(wrong), choose=_schedules)
