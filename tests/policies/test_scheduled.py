from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from feduplink import FullPower, InputError, Scenario, SchedulePolicy, link
from feduplink.channels import Channels, make_channels
from feduplink.federated import (
    Rounds,
    UplinkRules,
    everyone,
    presence,
    transmit,
)
from feduplink.link import Schedule
from feduplink.policies import (
    ComputedSchedule,
    LearnedSchedule,
    load_policy,
    make_policies,
    make_policy,
    save_policy,
)
from feduplink.scheduling import PhaseNetwork

SCENARIO = Scenario(workers=4)
RULES = UplinkRules(SCENARIO, SCENARIO.model_bits(10_000))


def drawn(count: int = 5) -> Rounds:
    return Rounds.draw(SCENARIO, everyone(count, 4), seed=0, run=0)


def rounds_on(csi: Tensor, scenario: Scenario) -> Rounds:
    present = everyone(len(csi), scenario.workers)
    return Rounds.draw(scenario, present, seed=0, run=0, recorded=csi)


class InPairs(SchedulePolicy):
    """Workers 0 and 1, then 2 and 3, at full power."""

    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        pairs = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
        power = (self.scenario.max_power * pairs).expand(len(csi), -1, -1)
        return Schedule(torch.full((len(csi), 2), math.inf, dtype=torch.float64), power)


def test_user_defined_schedule_policy_is_evaluated():
    outcome = transmit(InPairs(SCENARIO), drawn(), RULES)
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
    policies = {
        "max": FullPower(SCENARIO),
        "fixed-power": make_policy("fixed-power", SCENARIO, kappa=10.0),
        "schedule": make_policy("schedule", SCENARIO, kappa=10.0),
        "tdma": make_policy("tdma", SCENARIO, kappa=10.0),
    }
    found = {name: transmit(p, rounds, RULES) for name, p in policies.items()}
    cost = {name: row.cost(10.0) for name, row in found.items()}
    for name in ("max", "fixed-power", "tdma"):
        assert (cost["schedule"] <= cost[name] * (1 + 2e-3)).all()
    assert (cost["fixed-power"] <= cost["max"] * (1 + 1e-6)).all()
    assert policies["schedule"].kappa == 10.0
    assert policies["max"].kappa is None


def test_absent_workers_do_not_transmit():
    rounds = Rounds.draw(SCENARIO, presence(3, 4, {1: {0, 2}, 2: set()}), seed=0, run=0)
    for name in ("schedule", "fixed-power"):
        outcome = transmit(make_policy(name, SCENARIO), rounds, RULES)
        assert torch.equal(outcome.transmitting, rounds.present)
        assert outcome.airtime_s[2] == 0


def test_schedules_are_computed_from_noisy_csi_and_judged_on_true_channels():
    noisy = SCENARIO.replace(csi_noise=1e6)
    rounds = Rounds.draw(noisy, everyone(10, 4), seed=0, run=0)
    rules = UplinkRules(noisy, RULES.bits)
    outcome = transmit(ComputedSchedule(noisy), rounds, rules)
    assert (outcome.success > 0).all()  # all have finished, if later than planned
    exact = transmit(ComputedSchedule(SCENARIO), rounds_on(rounds.csi, SCENARIO), RULES)
    assert float(outcome.airtime_s.mean()) > float(exact.airtime_s.mean())


@pytest.mark.slow
def test_workers_transmit_less_at_low_delivery_rates():
    channels = Rounds.draw(SCENARIO, everyone(400, 4), seed=1, run=0).csi
    policy = make_policy(
        "schedule",
        SCENARIO,
        channels=Channels.from_csi(channels[:300]),
        kappa=10.0,
        delivery=0.3,
        bits=RULES.bits,
    )
    outcome = transmit(policy, rounds_on(channels[300:], SCENARIO), RULES)
    rates = outcome.success.mean(0)
    assert float(rates.min()) > 0.2
    assert float(rates.max()) < 0.55
    everybody = transmit(
        ComputedSchedule(SCENARIO, 10.0), rounds_on(channels[300:], SCENARIO), RULES
    )
    assert float(outcome.airtime_s.mean()) < 0.4 * float(everybody.airtime_s.mean())
    assert float(outcome.energy_j.mean()) < 0.4 * float(everybody.energy_j.mean())


def test_learned_schedules_reach_the_delivery_rates():
    """Who is worth it in the eyes of the network is not who is by the search."""
    scenario = Scenario()
    csi = make_channels(scenario, 400, seed=77).test
    policy = make_policy(LearnedSchedule, scenario, kappa=10.0, delivery=0.2, bits=RULES.bits)
    outcome = transmit(policy, rounds_on(csi, scenario), UplinkRules(scenario, RULES.bits))
    # 400 rounds of 8 workers tell the rate to 0.006.
    assert 0.2 <= float(outcome.success.mean()) <= 0.25


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"^kappa: -1"):
        ComputedSchedule(SCENARIO, -1.0)
    with pytest.raises(InputError, match=r"^delivery: .*; accepted: above 0 and at most 1"):
        make_policy("schedule", SCENARIO, delivery=(0.5, 0.5, 0.5, 0.0))
    with pytest.raises(InputError, match=r"^delivery: .*one per worker \(4\)"):
        make_policy("schedule", SCENARIO, delivery=(0.5, 0.6))


def test_a_saved_schedule_decides_as_before(tmp_path):
    channels = make_channels(SCENARIO, 30)
    given = {"channels": channels, "kappa": 10.0, "delivery": 0.5}
    policy = make_policy("learned-schedule", SCENARIO, **given)
    loaded = load_policy(save_policy(policy, tmp_path))
    assert isinstance(loaded, LearnedSchedule)
    assert loaded.identity() == policy.identity()
    again, once = loaded.step(channels.test), policy.step(channels.test)
    assert again.power.equal(once.power)
    assert again.durations_s.equal(once.durations_s)
    other = make_policy("learned-schedule", SCENARIO, **{**given, "delivery": 0.4})
    assert other.identity() != policy.identity()


def test_saved_network_accepts_kappa_and_delivery(tmp_path):
    channels = make_channels(SCENARIO, 30)
    network = PhaseNetwork.initialised(seed=1)
    path = save_policy(LearnedSchedule(SCENARIO, network=network), tmp_path)
    given = {"channels": channels, "kappa": 10.0, "delivery": 0.5}
    used = make_policy(path, SCENARIO, **given)
    assert used.kappa == 10.0
    assert used.rewards is not None
    assert used.step(channels.test).power.equal(
        LearnedSchedule(SCENARIO, 10.0, used.rewards, network).step(channels.test).power
    )
    assert load_policy(save_policy(used, tmp_path)).identity() == used.identity()
    assert used.identity() != make_policy("learned-schedule", SCENARIO, **given).identity()


def test_saved_network_with_kappa_refuses_another_one(tmp_path):
    network = PhaseNetwork.initialised(seed=1)
    path = save_policy(LearnedSchedule(SCENARIO, 3.0, network=network), tmp_path)
    assert make_policies([path], SCENARIO, options={"kappa": 10.0})["learned-schedule"].kappa == 3
    with pytest.raises(InputError, match=r"^kappa: learned-schedule does not accept this option"):
        make_policy(path, SCENARIO, kappa=10.0)


def test_a_single_channel_gives_a_single_schedule():
    csi = make_channels(SCENARIO, 3).test
    for name in ("tdma", "ofdma", "schedule", "fixed-power"):
        policy = make_policy(name, SCENARIO)
        batch, one = policy.step(csi), policy.step(csi[0])
        torch.testing.assert_close(one.power, batch.power[0])
        torch.testing.assert_close(one.durations_s, batch.durations_s[0])


def test_ofdma_shares_the_band_between_the_workers_present():
    csi = make_channels(SCENARIO, 1).test.double()
    present = torch.tensor([[True, False, True, True]])
    schedule = make_policy("ofdma", SCENARIO).step(csi, present=present)
    upload = link.scheduled_upload(csi, schedule, RULES.bits, SCENARIO.bandwidth_hz)
    direct = csi.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(upload.sinr, 3 * direct * SCENARIO.max_power * present)
    rate = SCENARIO.bandwidth_hz / 3 * torch.log2(1 + upload.sinr)
    torch.testing.assert_close((RULES.bits / rate)[present], upload.airtime_s[present])
