from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from feduplink import FullPower, Scenario
from feduplink.channels import Channels, make_channels
from feduplink.errors import InputError
from feduplink.federated import (
    ComputedSchedule,
    LearnedSchedule,
    Rounds,
    ScheduledAccess,
    UplinkRules,
    find_access_scheme,
    presence,
)
from feduplink.federated.uplink.access import compare_rounds, transmit
from feduplink.federated.uplink.rounds import everyone, rounds_on
from feduplink.link import Schedule

SCENARIO = Scenario(workers=4)
RULES = UplinkRules(SCENARIO, SCENARIO.model_bits(10_000))


def drawn(count: int = 5) -> Rounds:
    return Rounds.draw(SCENARIO, everyone(count, 4), seed=0, run=0)


class InPairs(ScheduledAccess):
    """Workers 0 and 1, then 2 and 3, at full power."""

    name = "in-pairs"

    def schedules(self, csi: Tensor, present: Tensor, rules: UplinkRules) -> Schedule:
        pairs = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
        power = (rules.scenario.pmax_w * pairs).expand(len(csi), -1, -1)
        return Schedule(torch.full((len(csi), 2), math.inf, dtype=torch.float64), power)


def test_phases_of_ones_own():
    outcome = transmit(InPairs(), drawn(), RULES)
    assert outcome.transmitting.all()
    first, second = (
        transmit(
            FullPower(SCENARIO),
            Rounds.draw(SCENARIO, presence(5, 4, {0: pair}), seed=0, run=0),
            RULES,
        )
        for pair in ({0, 1}, {2, 3})
    )
    torch.testing.assert_close(outcome.airtime_s, first.airtime_s + second.airtime_s)
    torch.testing.assert_close(outcome.energy_j, first.energy_j + second.energy_j)


def test_schedules_are_faster_and_cheaper_than_full_power():
    rounds = rounds_on(drawn(20).csi, SCENARIO)
    senders = {
        "max": FullPower(SCENARIO),
        "fixed-power": find_access_scheme("fixed-power", seconds_per_joule=10.0),
        "schedule": find_access_scheme("schedule", seconds_per_joule=10.0),
        "tdma": find_access_scheme("tdma", seconds_per_joule=10.0),
    }
    found = compare_rounds(senders, rounds, RULES)
    cost = {name: row.cost(10.0) for name, row in found.items()}
    for name in ("max", "fixed-power", "tdma"):
        assert (cost["schedule"] <= cost[name] * (1 + 2e-3)).all()
    assert (cost["fixed-power"] <= cost["max"] * (1 + 1e-6)).all()
    assert found["schedule"].as_metrics()["kappa_s_per_j"] == 10.0
    assert found["max"].as_metrics()["kappa_s_per_j"] is None


def test_the_absent_do_not_send():
    rounds = Rounds.draw(SCENARIO, presence(3, 4, {1: {0, 2}, 2: set()}), seed=0, run=0)
    for name in ("schedule", "fixed-power"):
        outcome = transmit(find_access_scheme(name), rounds, RULES)
        assert torch.equal(outcome.transmitting, rounds.present)
        assert outcome.airtime_s[2] == 0


def test_noisy_channels_are_scheduled_as_seen_and_sent_as_they_are():
    noisy = SCENARIO.replace(csi_noise=1e6)
    rounds = Rounds.draw(noisy, everyone(10, 4), seed=0, run=0)
    rules = UplinkRules(noisy, RULES.bits)
    outcome = transmit(ComputedSchedule(), rounds, rules)
    assert (outcome.success > 0).all()  # all have finished, if later than planned
    exact = transmit(ComputedSchedule(), rounds_on(rounds.csi, SCENARIO), RULES)
    assert float(outcome.airtime_s.mean()) > float(exact.airtime_s.mean())


@pytest.mark.slow
def test_few_deliver_if_few_have_to():
    channels = Rounds.draw(SCENARIO, everyone(400, 4), seed=1, run=0).csi
    scheme = ComputedSchedule(10.0, 0.3, SCENARIO, Channels.from_csi(channels[:300]))
    outcome = transmit(scheme, rounds_on(channels[300:], SCENARIO), RULES)
    rates = outcome.success.mean(0)
    assert float(rates.min()) > 0.2
    assert float(rates.max()) < 0.55
    everybody = transmit(ComputedSchedule(10.0), rounds_on(channels[300:], SCENARIO), RULES)
    assert float(outcome.airtime_s.mean()) < 0.4 * float(everybody.airtime_s.mean())
    assert float(outcome.energy_j.mean()) < 0.4 * float(everybody.energy_j.mean())


def test_learned_schedules_deliver_as_often_too():
    """Who is worth it in the eyes of the network is not who is by the search."""
    scenario = Scenario()
    csi = make_channels(scenario, 400, seed=77).test
    scheme = LearnedSchedule(10.0, 0.2)
    outcome = transmit(scheme, rounds_on(csi, scenario), UplinkRules(scenario, RULES.bits))
    # 400 rounds of 8 workers tell the rate to 0.006.
    assert 0.2 <= float(outcome.success.mean()) <= 0.25


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"^kappa: -1"):
        ComputedSchedule(-1.0)
    with pytest.raises(InputError, match=r"^delivery: .*; accepted: above 0 and at most 1"):
        ComputedSchedule(0.0, (0.5, 0.0))


def test_a_resumed_federation_must_have_the_same_settings_and_channels():
    def identity(delivery: float, gain: float) -> Any:
        channels = Channels.from_csi(torch.full((3, 2, 2), gain))
        return ComputedSchedule(0.0, delivery, SCENARIO, channels).identity()

    assert identity(0.5, 1.0) == identity(0.5, 1.0)
    assert identity(0.5, 1.0) != identity(0.4, 1.0)
    assert identity(0.5, 1.0) != identity(0.5, 2.0)
