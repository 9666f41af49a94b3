from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from feduplink import FullPower, GraphPolicy, InputError, PerceptronPolicy, Scenario, link
from feduplink.federated import TDMA, AccessScheme, Ideal, find_access_scheme, presence
from feduplink.federated.uplink.access import access_schemes_among, allocate_present, transmit
from feduplink.federated.uplink.rounds import Rounds, UplinkRules, Uploads

SCENARIO = Scenario(workers=2, pmax_dbw=-20, bandwidth_hz=1e5, compute_energy_j_per_bit=1e-9)
#: α = 200 and 100, β = 50 and 25: at 0.01 W the SINR are 2/1.5 and 1/1.25.
CSI = torch.tensor([[[200.0, 50.0], [25.0, 100.0]]])
SINR = (2 / 1.5, 1 / 1.25)
BITS = torch.tensor(1000.0, dtype=torch.float64)
RULES = UplinkRules(SCENARIO, BITS)
#: The first ends at SINR 4/3, the second sends the rest of its bits alone, at SINR 1.
FAST = 1000 / (1e5 * math.log2(1 + SINR[0]))
SLOW = FAST + (1000 - FAST * 1e5 * math.log2(1 + SINR[1])) / 1e5


def rounds(uniform=(0.5, 0.5), present=(True, True), csi=CSI) -> Rounds:
    return Rounds(csi, csi, torch.tensor([uniform]), torch.tensor([present]))


def test_a_round_by_hand():
    outcome = transmit(FullPower(SCENARIO), rounds(), RULES)
    assert outcome.arrived.tolist() == [[True, True]]
    assert outcome.transmitting.tolist() == [[True, True]]
    assert outcome.airtime_s.item() == pytest.approx(SLOW)
    assert outcome.energy_j.item() == pytest.approx(2e-6 + 0.02 * (FAST + SLOW))
    assert outcome.sent_bytes.item() == 250


def test_the_scenarios_pmax_counts_not_the_policys():
    louder = FullPower(SCENARIO.replace(pmax_dbw=0))
    expected = transmit(FullPower(SCENARIO), rounds(), RULES)
    outcome = transmit(louder, rounds(), RULES)
    assert outcome.energy_j.equal(expected.energy_j)
    assert outcome.airtime_s.equal(expected.airtime_s)


@pytest.mark.parametrize("worker", [0, 1])
def test_an_upload_arrives_if_its_number_is_under_the_success_rate(worker: int):
    success = math.exp(-SCENARIO.waterfall / SINR[worker])
    for uniform, arrives in ((success - 1e-6, True), (success + 1e-6, False)):
        others = [0.5, 0.5]
        others[worker] = uniform
        outcome = transmit(FullPower(SCENARIO), rounds(tuple(others)), RULES)
        assert outcome.arrived[0, worker].item() is arrives
        assert outcome.arrived[0, 1 - worker].item() is True


def test_after_the_deadline_an_upload_is_lost_and_stops_costing():
    deadline = (FAST + SLOW) / 2
    outcome = transmit(FullPower(SCENARIO), rounds(), replace(RULES, deadline_s=deadline))
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.item() == pytest.approx(deadline)
    assert outcome.energy_j.item() == pytest.approx(2e-6 + 0.02 * (FAST + deadline))
    late = 1e5 * (SLOW - deadline)  # bits left at SINR 1
    assert outcome.sent_bytes.item() == pytest.approx((2000 - late) / 8)


def test_every_phase_counts_by_its_bits_if_asked_for():
    """The second's last bits are sent alone: it arrives where the worst phase would lose it."""
    early = FAST * 1e5 * math.log2(1 + SINR[1]) / 1000
    every = math.exp(-SCENARIO.waterfall * (early / SINR[1] + (1 - early) / 1.0))
    worst = math.exp(-SCENARIO.waterfall / SINR[1])
    between = rounds((0.5, (worst + every) / 2))
    for rule, arrives in (("worst-phase", False), ("every-phase", True)):
        outcome = transmit(FullPower(SCENARIO), between, replace(RULES, packet_success=rule))
        assert outcome.arrived[0, 1].item() is arrives
    assert not transmit(
        FullPower(SCENARIO),
        rounds((0.5, every + 1e-6)),
        replace(RULES, packet_success="every-phase"),
    ).arrived[0, 1]


def test_each_worker_has_its_own_constants():
    own = SCENARIO.replace(
        pmax_dbw=(-20, -23), static_power_w=(0.01, 0.03), compute_energy_j_per_bit=(1e-9, 2e-9)
    )
    low = 10**-2.3
    bits = torch.tensor([1000.0, 500.0], dtype=torch.float64)
    outcome = transmit(FullPower(own), rounds(), UplinkRules(own, bits))
    power = torch.tensor([0.01, low], dtype=torch.float64)
    upload = link.simultaneous_upload(CSI[0].double(), power, bits, 1e5)
    first, second = upload.airtime_s.tolist()
    spent = 1e-6 + 1e-6 + 0.02 * first + (low + 0.03) * second
    assert outcome.energy_j.item() == pytest.approx(spent)


@pytest.mark.parametrize("name", ["tdma", "ofdma"])
def test_orthogonal_access_by_hand(name: str):
    outcome = transmit(find_access_scheme(name), rounds(), RULES)
    if name == "tdma":
        taken = [1000 / (1e5 * math.log2(1 + snr)) for snr in (2, 1)]
        duration = sum(taken)
    else:
        taken = [1000 / (0.5e5 * math.log2(1 + 2 * snr)) for snr in (2, 1)]
        duration = max(taken)
    assert outcome.arrived.tolist() == [[True, True]]
    assert outcome.airtime_s.item() == pytest.approx(duration)
    assert outcome.energy_j.item() == pytest.approx(2e-6 + 0.02 * sum(taken))


def test_a_price_on_energy_lowers_the_power_of_orthogonal_access():
    loud = SCENARIO.replace(pmax_dbw=0)
    for name in ("tdma", "ofdma"):
        free, priced = (
            transmit(
                find_access_scheme(name, seconds_per_joule=kappa), rounds(), UplinkRules(loud, BITS)
            )
            for kappa in (0.0, 1e4)
        )
        assert priced.energy_j < free.energy_j
        assert priced.airtime_s > free.airtime_s


@pytest.mark.parametrize("kappa", [-1.0, math.inf, math.nan])
def test_a_price_on_energy_is_a_number(kappa: float):
    with pytest.raises(InputError, match=r"^kappa: .*; accepted: 0 or more, finite\.$"):
        find_access_scheme("tdma", seconds_per_joule=kappa)


def test_the_absent_neither_send_nor_disturb_nor_spend():
    outcome = transmit(FullPower(SCENARIO), rounds(present=(True, False)), RULES)
    alone_s = 1000 / (1e5 * math.log2(1 + 2.0))
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.item() == pytest.approx(alone_s)
    assert outcome.energy_j.item() == pytest.approx(1e-6 + 0.02 * alone_s)


def test_nobody_there_costs_nothing():
    outcome = transmit(FullPower(SCENARIO), rounds(present=(False, False)), RULES)
    assert not outcome.arrived.any()
    assert outcome.airtime_s.item() == outcome.energy_j.item() == outcome.sent_bytes.item() == 0


def test_ideal_hears_everyone_and_has_no_cost():
    outcome = transmit(Ideal(), rounds((0.99, 0.99), (True, False)), RULES)
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.isnan().all()
    assert outcome.energy_j.isnan().all()


def test_the_policy_sees_the_workers_that_are_there():
    scenario = Scenario(workers=5)
    policy = GraphPolicy.initialised(scenario, 0)
    drawn = Rounds.draw(scenario, presence(4, 5, {1: {0, 2, 3}, 3: {4}}), seed=0, run=0)
    power = allocate_present(policy, drawn.observed, drawn.present)
    assert (power > 0).equal(drawn.present)
    there = torch.tensor([0, 2, 3])
    smaller = drawn.csi[1][there][:, there]
    torch.testing.assert_close(power[1, there], policy.allocate(smaller))


def test_a_policy_for_one_size_refuses_another():
    scenario = Scenario(workers=3)
    policy = PerceptronPolicy.initialised(scenario, 0)
    drawn = Rounds.draw(scenario, presence(2, 3, {1: {0, 1}}), seed=0, run=0)
    with pytest.raises(InputError, match="exactly 3"):
        transmit(policy, drawn, UplinkRules(scenario, BITS))


def test_an_upload_that_cannot_finish_has_no_chance():
    full = transmit(FullPower(SCENARIO), rounds(), RULES).success[0].tolist()
    assert full == pytest.approx([math.exp(-SCENARIO.waterfall / sinr) for sinr in SINR])
    late = replace(RULES, deadline_s=(FAST + SLOW) / 2)
    assert transmit(FullPower(SCENARIO), rounds(), late).success[0].tolist() == [full[0], 0]
    alone = transmit(FullPower(SCENARIO), rounds(present=(True, False)), RULES).success[0]
    assert alone.tolist() == pytest.approx([math.exp(-SCENARIO.waterfall / 2), 0])
    ideal = transmit(Ideal(), rounds(present=(True, False)), RULES).success[0]
    assert ideal.tolist() == [1, 0]
    every = transmit(FullPower(SCENARIO), rounds(), replace(RULES, packet_success="every-phase"))
    assert every.success[0, 0].item() == pytest.approx(full[0])
    assert every.success[0, 1].item() > full[1]


def test_uploads_arrive_as_often_as_their_success_rate_says():
    count = 20_000
    numbers = torch.rand(count, 2, generator=torch.Generator().manual_seed(0))
    many = Rounds(*(CSI.expand(count, 2, 2),) * 2, numbers, torch.ones(count, 2, dtype=torch.bool))
    low = RULES.scenario.replace(waterfall=0.5)
    record = transmit(FullPower(SCENARIO), many, UplinkRules(low, BITS))
    rates = record.arrived.double().mean(0)
    # Four standard deviations of a share at most 1/2.
    torch.testing.assert_close(rates, record.success[0], rtol=0, atol=4 * 0.5 / count**0.5)


class OnlyTheFirst(AccessScheme):
    """Worker 0 has the band for itself."""

    name = "first"

    def uploads(self, rounds: Rounds, rules: UplinkRules) -> Uploads:
        power = torch.tensor([rules.scenario.pmax_w.max().item(), 0.0], dtype=torch.float64)
        upload = link.simultaneous_upload(
            rounds.csi.double(),
            power.expand(rounds.present.shape) * rounds.present,
            rules.bits,
            rules.scenario.bandwidth_hz,
            rules.deadline_s,
        )
        return Uploads.from_link(upload, rounds.present, rules)


def test_a_scheme_of_the_users_own_by_name():
    scheme = find_access_scheme(f"{__name__}:OnlyTheFirst", seconds_per_joule=3.0)
    record = transmit(scheme, rounds(), RULES)
    assert record.arrived.tolist() == [[True, False]]
    assert record.airtime_s.item() == pytest.approx(1000 / (1e5 * math.log2(3)))
    assert scheme.identity() == {"name": f"{__name__}:OnlyTheFirst", "settings": {}}


def test_schemes_and_policies_are_told_apart():
    own = [f"{__name__}:OnlyTheFirst", f"{__name__}:make_tdma", "examples_of_none:Nobody"]
    names = ["max", own[0], "tdma", "rand:unselected", own[1], own[2], "decimal:Decimal", "ideal"]
    found, left = access_schemes_among(names, seconds_per_joule=2.0)
    assert {name: type(scheme) for name, scheme in found.items()} == {
        "ideal": Ideal,
        "tdma": TDMA,
        "first": OnlyTheFirst,
        own[1]: TDMA,  # whose own name is taken
    }
    assert found["tdma"].seconds_per_joule == 2
    assert left == ["max", "rand:unselected", own[2], "decimal:Decimal"]


def make_tdma() -> TDMA:
    return TDMA()


def test_what_is_no_scheme_is_refused_by_name():
    with pytest.raises(InputError, match="access scheme: 'cdma' is unknown, did you mean"):
        find_access_scheme("cdma")
    with pytest.raises(InputError, match=r"^access scheme: builtins:object makes a object; "):
        find_access_scheme("builtins:object")
