from __future__ import annotations

import math

import pytest
import torch

from feduplink import FullPower, GraphPolicy, InputError, PerceptronPolicy, Scenario, link
from feduplink.federated.uplink import (
    Ideal,
    OrthogonalAccess,
    Rounds,
    allocate_present,
    everyone,
    presence,
    recorded_rounds,
    transmit,
)

SCENARIO = Scenario(workers=2, pmax_dbw=-20, bandwidth_hz=1e5, compute_energy_j_per_bit=1e-9)
#: α = 200 and 100, β = 50 and 25: at 0.01 W the SINR are 2/1.5 and 1/1.25.
CSI = torch.tensor([[[200.0, 50.0], [25.0, 100.0]]])
SINR = (2 / 1.5, 1 / 1.25)
BITS = torch.tensor(1000.0, dtype=torch.float64)
#: The first ends at SINR 4/3, the second sends the rest of its bits alone, at SINR 1.
FAST = 1000 / (1e5 * math.log2(1 + SINR[0]))
SLOW = FAST + (1000 - FAST * 1e5 * math.log2(1 + SINR[1])) / 1e5


def rounds(luck=(0.5, 0.5), present=(True, True), csi=CSI) -> Rounds:
    return Rounds(csi, csi, torch.tensor([luck]), torch.tensor([present]))


def test_a_round_by_hand():
    outcome = transmit(FullPower(SCENARIO), rounds(), SCENARIO, BITS)
    assert outcome.arrived.tolist() == [[True, True]]
    assert outcome.transmitting.tolist() == [[True, True]]
    assert outcome.airtime_s.item() == pytest.approx(SLOW)
    assert outcome.energy_j.item() == pytest.approx(2e-6 + 0.02 * (FAST + SLOW))
    assert outcome.sent_bytes.item() == 250


def test_the_scenarios_pmax_counts_not_the_policys():
    louder = FullPower(SCENARIO.replace(pmax_dbw=0))
    expected = transmit(FullPower(SCENARIO), rounds(), SCENARIO, BITS)
    outcome = transmit(louder, rounds(), SCENARIO, BITS)
    assert outcome.energy_j.equal(expected.energy_j)
    assert outcome.airtime_s.equal(expected.airtime_s)


@pytest.mark.parametrize("worker", [0, 1])
def test_an_upload_arrives_if_its_luck_is_under_the_success_rate(worker: int):
    success = math.exp(-SCENARIO.waterfall / SINR[worker])
    for luck, arrives in ((success - 1e-6, True), (success + 1e-6, False)):
        others = [0.5, 0.5]
        others[worker] = luck
        outcome = transmit(FullPower(SCENARIO), rounds(tuple(others)), SCENARIO, BITS)
        assert outcome.arrived[0, worker].item() is arrives
        assert outcome.arrived[0, 1 - worker].item() is True


def test_after_the_deadline_an_upload_is_lost_and_stops_costing():
    deadline = (FAST + SLOW) / 2
    outcome = transmit(FullPower(SCENARIO), rounds(), SCENARIO, BITS, deadline)
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
        outcome = transmit(FullPower(SCENARIO), between, SCENARIO, BITS, packet_success=rule)
        assert outcome.arrived[0, 1].item() is arrives
    assert not transmit(
        FullPower(SCENARIO),
        rounds((0.5, every + 1e-6)),
        SCENARIO,
        BITS,
        packet_success="every-phase",
    ).arrived[0, 1]


def test_each_worker_has_its_own_constants():
    own = SCENARIO.replace(
        pmax_dbw=(-20, -23), static_power_w=(0.01, 0.03), compute_energy_j_per_bit=(1e-9, 2e-9)
    )
    low = 10**-2.3
    bits = torch.tensor([1000.0, 500.0], dtype=torch.float64)
    outcome = transmit(FullPower(own), rounds(), own, bits)
    power = torch.tensor([0.01, low], dtype=torch.float64)
    upload = link.simultaneous_upload(CSI[0].double(), power, bits, 1e5)
    first, second = upload.airtime_s.tolist()
    spent = 1e-6 + 1e-6 + 0.02 * first + (low + 0.03) * second
    assert outcome.energy_j.item() == pytest.approx(spent)


@pytest.mark.parametrize("name", ["tdma", "ofdma"])
def test_orthogonal_access_by_hand(name: str):
    outcome = transmit(OrthogonalAccess(name), rounds(), SCENARIO, BITS)
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
            transmit(OrthogonalAccess(name, kappa), rounds(), loud, BITS) for kappa in (0.0, 1e4)
        )
        assert priced.energy_j < free.energy_j
        assert priced.airtime_s > free.airtime_s


@pytest.mark.parametrize("kappa", [-1.0, math.inf, math.nan])
def test_a_price_on_energy_is_a_number(kappa: float):
    with pytest.raises(InputError, match=r"^kappa: .*; accepted: 0 or more, finite\.$"):
        OrthogonalAccess("tdma", kappa)


def test_the_absent_neither_send_nor_disturb_nor_spend():
    outcome = transmit(FullPower(SCENARIO), rounds(present=(True, False)), SCENARIO, BITS)
    alone_s = 1000 / (1e5 * math.log2(1 + 2.0))
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.item() == pytest.approx(alone_s)
    assert outcome.energy_j.item() == pytest.approx(1e-6 + 0.02 * alone_s)


def test_nobody_there_costs_nothing():
    outcome = transmit(FullPower(SCENARIO), rounds(present=(False, False)), SCENARIO, BITS)
    assert not outcome.arrived.any()
    assert outcome.airtime_s.item() == outcome.energy_j.item() == outcome.sent_bytes.item() == 0


def test_ideal_hears_everyone_and_has_no_cost():
    outcome = transmit(Ideal(), rounds((0.99, 0.99), (True, False)), SCENARIO, BITS)
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.isnan().all()
    assert outcome.energy_j.isnan().all()


def test_the_policy_sees_the_workers_that_are_there():
    scenario = Scenario(workers=5)
    policy = GraphPolicy.initialised(scenario, 0)
    drawn = Rounds.draw(scenario, presence(4, 5, {1: {0, 2, 3}, 3: {4}}), seed=0, run=0)
    power = allocate_present(policy, drawn.seen, drawn.present)
    assert (power > 0).equal(drawn.present)
    there = torch.tensor([0, 2, 3])
    smaller = drawn.csi[1][there][:, there]
    torch.testing.assert_close(power[1, there], policy.allocate(smaller))


def test_a_policy_for_one_size_refuses_another():
    scenario = Scenario(workers=3)
    policy = PerceptronPolicy.initialised(scenario, 0)
    drawn = Rounds.draw(scenario, presence(2, 3, {1: {0, 1}}), seed=0, run=0)
    with pytest.raises(InputError, match="exactly 3"):
        transmit(policy, drawn, scenario, BITS)


def test_presence_from_changes():
    schedule = presence(5, 3, {1: {0}, 3: {1, 2}})
    assert schedule.int().tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1]]


def test_kept_workers_keep_their_channels_and_runs_differ():
    kept = Scenario(workers=3, geometry="kept", coherence_time_s=1e6)
    drawn = Rounds.draw(kept, everyone(5, 3), seed=0, run=0)
    torch.testing.assert_close(drawn.csi[0], drawn.csi[-1], rtol=0.05, atol=0)
    again = Rounds.draw(kept, everyone(5, 3), seed=0, run=0)
    other = Rounds.draw(kept, everyone(5, 3), seed=0, run=1)
    assert drawn.csi.equal(again.csi)
    assert not drawn.csi.equal(other.csi)
    assert not drawn.luck.equal(other.luck)


def test_noise_is_in_what_the_policy_sees_not_in_the_outcome():
    drawn = Rounds.draw(Scenario(workers=3, csi_noise=1.0), everyone(5, 3), seed=0, run=0)
    clean = Rounds.draw(Scenario(workers=3), everyone(5, 3), seed=0, run=0)
    assert drawn.csi.equal(clean.csi)
    assert not drawn.seen.equal(drawn.csi)
    assert clean.seen.equal(clean.csi)


def test_bits_of_a_model():
    assert Scenario().model_bits(39_760) == 32 * 39_760 + 32
    own = Scenario(workers=2, bits_per_weight=(8, 16))
    assert own.model_bits(100).tolist() == [832, 1632]


def test_recorded_channels_are_the_rounds_of_run_after_run():
    recorded = torch.arange(1.0, 8.0)[:, None, None].expand(7, 2, 2)
    present = everyone(3, 2)
    for run, expected in ((0, [1, 2, 3]), (1, [4, 5, 6])):
        found = Rounds.draw(SCENARIO, present, seed=0, run=run, recorded=recorded)
        assert found.csi[:, 0, 0].tolist() == expected
        drawn = Rounds.draw(SCENARIO, present, seed=0, run=run)
        assert torch.equal(found.luck, drawn.luck)


def test_recorded_channels_that_are_too_few_or_of_others_are_refused():
    csi = torch.ones(4, 2, 2)
    assert recorded_rounds(csi, 3, 2).shape == (3, 2, 2)
    with pytest.raises(InputError, match="channels: 4 recorded for 5 rounds"):
        recorded_rounds(csi, 5, 2)
    with pytest.raises(InputError, match="2 workers; accepted here: exactly 3"):
        recorded_rounds(csi, 3, 3)
