from __future__ import annotations

import math

import pytest
import torch

from feduplink import FullPower, GraphPolicy, InputError, PerceptronPolicy, Scenario
from feduplink.federated.uplink import (
    Ideal,
    Rounds,
    allocate_present,
    everyone,
    model_bits,
    presence,
    transmit,
)

SCENARIO = Scenario(workers=2, pmax_dbw=-20, bandwidth_hz=1e5, compute_energy_j_per_bit=1e-9)
#: α = 200 and 100, β = 50 and 25: at 0.01 W the SINR are 2/1.5 and 1/1.25.
CSI = torch.tensor([[[200.0, 50.0], [25.0, 100.0]]])
SINR = (2 / 1.5, 1 / 1.25)
BITS = 1000


def rounds(luck=(0.5, 0.5), present=(True, True), csi=CSI) -> Rounds:
    return Rounds(csi, csi, torch.tensor([luck]), torch.tensor([present]))


def test_a_round_by_hand():
    outcome = transmit(FullPower(SCENARIO), rounds(), SCENARIO, BITS)
    taken = [BITS / (1e5 * math.log2(1 + sinr)) for sinr in SINR]
    assert outcome.arrived.tolist() == [[True, True]]
    assert outcome.transmitting.tolist() == [[True, True]]
    assert outcome.airtime_s.item() == pytest.approx(max(taken))
    energy = 2 * 1e-9 * BITS + sum(0.02 * seconds for seconds in taken)
    assert outcome.energy_j.item() == pytest.approx(energy)
    assert outcome.sent_bytes.item() == 2 * BITS / 8


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
    fast, slow = (BITS / (1e5 * math.log2(1 + sinr)) for sinr in SINR)
    deadline = (fast + slow) / 2
    outcome = transmit(FullPower(SCENARIO), rounds(), SCENARIO, BITS, deadline)
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.item() == pytest.approx(deadline)
    assert outcome.energy_j.item() == pytest.approx(2e-6 + 0.02 * (fast + deadline))
    assert outcome.sent_bytes.item() == pytest.approx((1 + deadline / slow) * BITS / 8)


def test_the_absent_neither_send_nor_disturb_nor_spend():
    outcome = transmit(FullPower(SCENARIO), rounds(present=(True, False)), SCENARIO, BITS)
    alone_s = BITS / (1e5 * math.log2(1 + 2.0))
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
    assert model_bits(39_760) == 32 * 39_760 + 32
