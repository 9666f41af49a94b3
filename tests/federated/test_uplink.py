from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from feduplink import (
    FullPower,
    GraphPolicy,
    InputError,
    PerceptronPolicy,
    PowerPolicy,
    Scenario,
    link,
    make_policy,
)
from feduplink.channels import draw_csi, observe_csi
from feduplink.federated import Rounds, UplinkRecord, UplinkRules, everyone, presence, transmit
from feduplink.federated.uplink import recorded_rounds
from feduplink.policies import Feedback, Ideal

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


def test_uplink_record_follows_the_formulas():
    outcome = transmit(FullPower(SCENARIO), rounds(), RULES)
    assert outcome.arrived.tolist() == [[True, True]]
    assert outcome.transmitting.tolist() == [[True, True]]
    assert outcome.airtime_s.item() == pytest.approx(SLOW)
    assert outcome.energy_j.item() == pytest.approx(2e-6 + 0.02 * (FAST + SLOW))
    assert outcome.sent_bytes.item() == 250


def test_powers_are_limited_by_the_scenario_of_the_uplink():
    louder = FullPower(SCENARIO.replace(pmax_dbw=0))
    expected = transmit(FullPower(SCENARIO), rounds(), RULES)
    outcome = transmit(louder, rounds(), RULES)
    assert outcome.energy_j.equal(expected.energy_j)
    assert outcome.airtime_s.equal(expected.airtime_s)


@pytest.mark.parametrize("worker", [0, 1])
def test_upload_arrives_if_its_number_is_below_the_success_rate(worker: int):
    success = math.exp(-SCENARIO.waterfall / SINR[worker])
    for uniform, arrives in ((success - 1e-6, True), (success + 1e-6, False)):
        others = [0.5, 0.5]
        others[worker] = uniform
        outcome = transmit(FullPower(SCENARIO), rounds(tuple(others)), RULES)
        assert outcome.arrived[0, worker].item() is arrives
        assert outcome.arrived[0, 1 - worker].item() is True


def test_upload_is_lost_and_costs_nothing_after_the_deadline():
    deadline = (FAST + SLOW) / 2
    outcome = transmit(FullPower(SCENARIO), rounds(), replace(RULES, deadline_s=deadline))
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.item() == pytest.approx(deadline)
    assert outcome.energy_j.item() == pytest.approx(2e-6 + 0.02 * (FAST + deadline))
    late = 1e5 * (SLOW - deadline)  # bits left at SINR 1
    assert outcome.sent_bytes.item() == pytest.approx((2000 - late) / 8)


def test_per_phase_arrivals_weight_phases_by_their_bits():
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


def test_constants_per_worker_are_used():
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
def test_orthogonal_access_follows_the_formulas(name: str):
    outcome = transmit(make_policy(name, SCENARIO), rounds(), RULES)
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
            transmit(make_policy(name, loud, kappa=kappa), rounds(), UplinkRules(loud, BITS))
            for kappa in (0.0, 1e4)
        )
        assert priced.energy_j < free.energy_j
        assert priced.airtime_s > free.airtime_s


@pytest.mark.parametrize("kappa", [-1.0, math.inf, math.nan])
def test_invalid_kappa_is_refused(kappa: float):
    with pytest.raises(InputError, match=r"^kappa: .*; accepted: 0 or more, finite\.$"):
        make_policy("tdma", SCENARIO, kappa=kappa)


def test_absent_workers_neither_transmit_nor_interfere_nor_consume_energy():
    outcome = transmit(FullPower(SCENARIO), rounds(present=(True, False)), RULES)
    alone_s = 1000 / (1e5 * math.log2(1 + 2.0))
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.item() == pytest.approx(alone_s)
    assert outcome.energy_j.item() == pytest.approx(1e-6 + 0.02 * alone_s)


def test_rounds_without_workers_cost_nothing():
    outcome = transmit(FullPower(SCENARIO), rounds(present=(False, False)), RULES)
    assert not outcome.arrived.any()
    assert outcome.airtime_s.item() == outcome.energy_j.item() == outcome.sent_bytes.item() == 0


def test_ideal_loses_no_upload_and_has_undefined_cost():
    outcome = transmit(Ideal(SCENARIO), rounds((0.99, 0.99), (True, False)), RULES)
    assert outcome.arrived.tolist() == [[True, False]]
    assert outcome.airtime_s.isnan().all()
    assert outcome.energy_j.isnan().all()


def test_policy_is_given_the_submatrix_of_present_workers():
    scenario = Scenario(workers=5)
    policy = GraphPolicy.initialised(scenario, 0)
    drawn = Rounds.draw(scenario, presence(4, 5, {1: {0, 2, 3}, 3: {4}}), seed=0, run=0)
    power = policy.step(drawn.observed, present=drawn.present)
    assert (power > 0).equal(drawn.present)
    there = torch.tensor([0, 2, 3])
    smaller = drawn.csi[1][there][:, there]
    torch.testing.assert_close(power[1, there], policy.allocate(smaller))


def test_policy_of_fixed_size_refuses_absent_workers():
    scenario = Scenario(workers=3)
    policy = PerceptronPolicy.initialised(scenario, 0)
    drawn = Rounds.draw(scenario, presence(2, 3, {1: {0, 1}}), seed=0, run=0)
    with pytest.raises(InputError, match="exactly 3"):
        transmit(policy, drawn, UplinkRules(scenario, BITS))


def test_upload_that_misses_the_deadline_has_zero_success_rate():
    full = transmit(FullPower(SCENARIO), rounds(), RULES).success[0].tolist()
    assert full == pytest.approx([math.exp(-SCENARIO.waterfall / sinr) for sinr in SINR])
    late = replace(RULES, deadline_s=(FAST + SLOW) / 2)
    assert transmit(FullPower(SCENARIO), rounds(), late).success[0].tolist() == [full[0], 0]
    alone = transmit(FullPower(SCENARIO), rounds(present=(True, False)), RULES).success[0]
    assert alone.tolist() == pytest.approx([math.exp(-SCENARIO.waterfall / 2), 0])
    ideal = transmit(Ideal(SCENARIO), rounds(present=(True, False)), RULES).success[0]
    assert ideal.tolist() == [1, 0]
    every = transmit(FullPower(SCENARIO), rounds(), replace(RULES, packet_success="every-phase"))
    assert every.success[0, 0].item() == pytest.approx(full[0])
    assert every.success[0, 1].item() > full[1]


def test_frequency_of_arrivals_equals_the_success_rate():
    count = 20_000
    numbers = torch.rand(count, 2, generator=torch.Generator().manual_seed(0))
    many = Rounds(*(CSI.expand(count, 2, 2),) * 2, numbers, torch.ones(count, 2, dtype=torch.bool))
    low = RULES.scenario.replace(waterfall=0.5)
    record = transmit(FullPower(SCENARIO), many, UplinkRules(low, BITS))
    rates = record.arrived.double().mean(0)
    # Four standard deviations of a share at most 1/2.
    torch.testing.assert_close(rates, record.success[0], rtol=0, atol=4 * 0.5 / count**0.5)


class Alternating(PowerPolicy):
    """All workers in every second round; keeps the feedback."""

    has_state = True
    seen: ClassVar[list[Feedback | None]] = []

    def reset(self) -> None:
        self.number = 0
        self.seen.clear()

    def powers(self, csi: Tensor) -> Tensor:
        return self.scenario.max_power * torch.full(csi.shape[:-1], float(self.number % 2))

    def step(
        self,
        csi: Tensor,
        feedback: Feedback | None = None,
        *,
        present: Tensor | None = None,
        bits: Tensor | None = None,
    ) -> Tensor:
        self.number += 1
        self.seen.append(feedback)
        return super().step(csi, feedback, present=present, bits=bits)


def test_a_policy_with_a_state_decides_round_by_round_with_feedback():
    count = 4
    csi, present = CSI.expand(count, 2, 2), torch.ones(count, 2, dtype=torch.bool)
    uniform = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.9999, 0.5], [0.5, 0.5]])
    policy = Alternating(SCENARIO)
    for _ in range(2):  # a second run starts anew
        record = transmit(policy, Rounds(csi, csi, uniform, present), RULES)
        assert record.transmitting.tolist() == [[True, True], [False, False]] * 2
        assert record.arrived.tolist() == [[True] * 2, [False] * 2, [False, True], [False] * 2]
        assert policy.seen[0] is None
        for feedback, row in zip(policy.seen[1:], range(count), strict=False):
            assert feedback is not None
            assert feedback.arrived.equal(record.arrived[row])
            assert feedback.transmitting.equal(record.transmitting[row])


def test_single_round_is_limited_to_present_workers():
    """Policies with a state are given single rounds."""
    scenario = Scenario(workers=3)
    csi = Rounds.draw(scenario, everyone(1, 3), seed=0, run=0).csi[0]
    present = torch.tensor([True, False, True])
    policy = GraphPolicy.initialised(scenario, 0)
    power = policy.step(csi, present=present)
    assert power.shape == (3,)
    assert power[1] == 0
    torch.testing.assert_close(power[present], policy.allocate(csi[present][:, present]))


def test_policy_with_state_supports_changing_presence():
    present = presence(4, 2, {1: {0}, 2: {1}, 3: set()})
    csi, uniform = CSI.expand(4, 2, 2), torch.full((4, 2), 0.5)
    record = transmit(Alternating(SCENARIO), Rounds(csi, csi, uniform, present), RULES)
    sent = [[True, True], [False, False], [False, True], [False, False]]
    assert record.transmitting.tolist() == sent


def test_batched_rounds_equal_single_rounds():
    scenario = Scenario(workers=3)
    drawn = Rounds.draw(scenario, presence(6, 3, {2: {0, 2}, 4: set()}), seed=0, run=0)
    rules = UplinkRules(scenario, scenario.model_bits(100))
    for name in ("max", "orth", "tdma", "fixed-power"):
        policy = make_policy(name, scenario)
        together = transmit(policy, drawn, rules)
        rows = [drawn.take(slice(n, n + 1)) for n in range(6)]
        apart = UplinkRecord.concat([transmit(policy, row, rules) for row in rows])
        for key, values in together.tensors().items():
            torch.testing.assert_close(apart.tensors()[key], values)


def test_presence_holds_until_the_next_change():
    schedule = presence(5, 3, {1: {0}, 3: {1, 2}})
    assert schedule.int().tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1]]


def test_kept_positions_correlate_rounds_and_runs_differ():
    kept = Scenario(workers=3, geometry="kept", coherence_time_s=1e6)
    drawn = Rounds.draw(kept, everyone(5, 3), seed=0, run=0)
    torch.testing.assert_close(drawn.csi[0], drawn.csi[-1], rtol=0.05, atol=0)
    again = Rounds.draw(kept, everyone(5, 3), seed=0, run=0)
    other = Rounds.draw(kept, everyone(5, 3), seed=0, run=1)
    assert drawn.csi.equal(again.csi)
    assert not drawn.csi.equal(other.csi)
    assert not drawn.uniform.equal(other.uniform)


def test_noise_affects_the_observed_csi_only():
    drawn = Rounds.draw(Scenario(workers=3, csi_noise=1.0), everyone(5, 3), seed=0, run=0)
    clean = Rounds.draw(Scenario(workers=3), everyone(5, 3), seed=0, run=0)
    assert drawn.csi.equal(clean.csi)
    assert not drawn.observed.equal(drawn.csi)
    assert clean.observed.equal(clean.csi)


def test_federation_and_evaluation_use_different_noise():
    scenario = Scenario(workers=3, csi_noise=1e4)
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(0))
    rounds = Rounds.draw(scenario, everyone(5, 3), seed=0, run=0, recorded=csi)
    assert not rounds.observed.equal(observe_csi(csi, scenario, seed=0))


def test_bits_of_a_model():
    assert Scenario().model_bits(39_760) == 32 * 39_760 + 32
    own = Scenario(workers=2, bits_per_weight=(8, 16))
    assert own.model_bits(100).tolist() == [832, 1632]


def test_recorded_channels_are_used_in_order_over_the_runs():
    recorded = torch.arange(1.0, 8.0)[:, None, None].expand(7, 2, 2)
    present = everyone(3, 2)
    for run, expected in ((0, [1, 2, 3]), (1, [4, 5, 6])):
        found = Rounds.draw(Scenario(workers=2), present, seed=0, run=run, recorded=recorded)
        assert found.csi[:, 0, 0].tolist() == expected
        drawn = Rounds.draw(Scenario(workers=2), present, seed=0, run=run)
        assert torch.equal(found.uniform, drawn.uniform)


def test_too_few_or_unsuitable_recorded_channels_are_refused():
    csi = torch.ones(4, 2, 2)
    assert recorded_rounds(csi, 3, 2).shape == (3, 2, 2)
    with pytest.raises(InputError, match="channels: 4 recorded for 5 rounds"):
        recorded_rounds(csi, 5, 2)
    with pytest.raises(InputError, match="2 workers; accepted here: exactly 3"):
        recorded_rounds(csi, 3, 3)
