from __future__ import annotations

import math

import pytest
import torch

from feduplink import InputError, Scenario, judge, link
from feduplink.link import (
    EnergyEfficiency,
    LinkState,
    Measure,
    Rate,
    Schedule,
    SeparableMeasure,
    upload,
)
from feduplink.problem import Constraint, Problem, WeightedSum

SCENARIO = Scenario(workers=2, bandwidth_hz=1e5, compute_energy_j_per_bit=1e-9)
#: α = 200 and 100, β = 50 and 25: at 0.01 W the SINR are 2/1.5 and 1/1.25.
CSI = torch.tensor([[[200.0, 50.0], [25.0, 100.0]]], dtype=torch.float64)
POWER = torch.full((1, 2), 0.01, dtype=torch.float64)
BITS = torch.tensor(1000.0, dtype=torch.float64)


def test_powers_and_the_schedule_of_one_phase_are_the_same_state():
    state = upload(CSI, POWER, SCENARIO, bits=BITS)
    phases = upload(CSI, Schedule.simultaneous(POWER), SCENARIO, bits=BITS)
    for name in ("power", "sinr", "arrivals", "energy_j"):
        torch.testing.assert_close(getattr(phases, name), getattr(state, name))
    torch.testing.assert_close(state.sinr, torch.tensor([[2 / 1.5, 1 / 1.25]]).double())
    expected = torch.exp(-SCENARIO.waterfall / state.sinr)
    torch.testing.assert_close(state.arrivals, expected)


def test_after_the_deadline_nothing_arrives():
    whole = upload(CSI, POWER, SCENARIO, bits=BITS)
    early, late = whole.upload.airtime_s[0].tolist()
    state = upload(CSI, POWER, SCENARIO, bits=BITS, deadline_s=(early + late) / 2)
    assert state.arrivals[0, 0] == whole.arrivals[0, 0]
    assert state.arrivals[0, 1] == 0
    assert state.energy_j[0, 1] < whole.energy_j[0, 1]


def test_energy_by_hand():
    state = upload(CSI, Schedule.tdma(POWER), SCENARIO, bits=BITS)
    airtime = [1000 / (1e5 * math.log2(1 + snr)) for snr in (2.0, 1.0)]
    expected = [1e-6 + (0.01 + 0.01) * seconds for seconds in airtime]
    assert state.energy_j[0].tolist() == pytest.approx(expected)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"^power: shape .* does not match csi"):
        upload(CSI[0], POWER, SCENARIO)
    with pytest.raises(InputError, match=r"^power: shape .* does not match csi"):
        upload(CSI, POWER[:, :1], SCENARIO)


def test_under_ofdma_rate_and_efficiency_count_with_the_share_of_the_band():
    """R = Z ln 2 / (B τ), whatever part of the band the worker has."""
    state = upload(CSI, Schedule.ofdma(POWER), SCENARIO, bits=BITS)
    rate = Rate().of(state)
    expected = BITS * math.log(2) / (SCENARIO.bandwidth_hz * state.upload.airtime_s)
    torch.testing.assert_close(rate, expected)
    efficiency = EnergyEfficiency.from_scenario(SCENARIO).of(state)
    torch.testing.assert_close(efficiency, rate / (POWER + 0.01))


class Throughput(Measure):
    """Delivered bits per second of the round."""

    def value(self, state: LinkState):
        upload = state.upload
        return upload.sent_bits * state.arrivals / upload.duration_s[..., None]


class Doubled(SeparableMeasure):
    def value(self, sinr, power):
        return 2 * sinr


def test_a_measure_without_a_name_is_called_by_its_class():
    assert (Throughput.name, Throughput().label, Doubled.name) == (
        "Throughput",
        "Throughput",
        "Doubled",
    )


def test_powers_are_judged_by_a_measure_of_the_whole_upload():
    limit = torch.tensor([1.0, 1e9], dtype=torch.float64)
    constraint = Constraint.at_least(Throughput(), limit)
    problem = Problem(Throughput(), WeightedSum(torch.ones(2).double()), (constraint,))
    csi, power = CSI.expand(5, 2, 2), POWER.expand(5, 2)
    judgement = judge(SCENARIO, csi, power, problem=problem)
    value = Throughput().of(upload(CSI, POWER, SCENARIO))
    assert judgement.objective == pytest.approx(value.sum().item())
    assert judgement.constraints["Throughput"].expected.tolist() == pytest.approx(value[0].tolist())
    assert judgement.verdict == "infeasible"


@pytest.mark.parametrize("access", [Schedule.tdma, Schedule.ofdma])
def test_schedules_are_judged_and_outside_the_class_of_the_bound(access):
    judgement = judge(SCENARIO, CSI.expand(5, 2, 2), access(POWER.expand(5, 2)))
    assert not judgement.is_simultaneous
    share = 1.0 if access == Schedule.tdma else 2.0
    success = torch.exp(-SCENARIO.waterfall / (share * torch.tensor([2.0, 1.0]).double()))
    expected = (SCENARIO.worker_weights * success).sum().item()
    assert judgement.objective == pytest.approx(expected)
    assert judge(SCENARIO, CSI, POWER).is_simultaneous


def test_gradients_reach_the_powers():
    power = POWER.clone().requires_grad_()
    state = upload(CSI, power, SCENARIO, bits=BITS)
    (by_sinr,) = torch.autograd.grad(state.sinr.sum(), power)
    (expected,) = torch.autograd.grad(link.sinr(CSI, power).sum(), power)
    assert by_sinr.equal(expected)
