from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from feduplink import link
from feduplink.link import Schedule

#: α = 200 and 100, β = 50 and 25.
TWO = torch.tensor([[200.0, 50.0], [25.0, 100.0]], dtype=torch.float64)
BITS, BANDWIDTH = 1000.0, 1e5
FULL = 0.01


def schedule(*phases: tuple[float, list[float]]) -> Schedule:
    durations, powers = zip(*phases, strict=True)
    return Schedule(
        torch.tensor(durations, dtype=torch.float64), torch.tensor(powers, dtype=torch.float64)
    )


def seconds(bits: float, sinr: float) -> float:
    return bits / (BANDWIDTH * math.log2(1 + sinr))


def test_one_after_the_other_is_tdma():
    first, second = seconds(BITS, 2.0), seconds(BITS, 1.0)
    plan = schedule((first, [FULL, 0.0]), (second, [0.0, FULL]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    limits = torch.tensor([FULL, 0.02], dtype=torch.float64)
    tdma = link.tdma(TWO, torch.ones(2, dtype=torch.bool), BITS, BANDWIDTH, *limits)
    assert found.finished.all()
    assert found.duration_s.item() == pytest.approx(tdma.duration_s.item(), rel=1e-12)
    torch.testing.assert_close(found.airtime_s, tdma.airtime_s)
    torch.testing.assert_close(found.sinr, tdma.sinr)
    torch.testing.assert_close(found.mean_inverse_sinr, tdma.mean_inverse_sinr)
    energy = link.energy(found.power, found.airtime_s, BITS, 0.02).sum()
    assert energy.item() == pytest.approx(plan.energy_j(0.02).item(), rel=1e-12)


def test_power_that_changes_is_paid_for_as_it_is():
    plan = schedule((0.002, [FULL, 0.0]), (math.inf, [FULL / 2, FULL]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    early = 0.002 * BANDWIDTH * math.log2(3.0)
    together = 1.0 / 1.5  # the first at half its power against the second
    late = seconds(BITS - early, together)
    assert found.airtime_s[0].item() == pytest.approx(0.002 + late, rel=1e-12)
    assert found.sinr[0].item() == pytest.approx(together)
    spent = FULL * 0.002 + FULL / 2 * late
    assert (found.power * found.airtime_s)[0].item() == pytest.approx(spent, rel=1e-12)
    share = early / BITS
    expected = share / 2.0 + (1 - share) / together
    assert found.mean_inverse_sinr[0].item() == pytest.approx(expected, rel=1e-12)


def test_who_has_not_finished_goes_on_at_its_last_power():
    plan = schedule((0.001, [FULL, 0.0]), (0.001, [0.0, FULL]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    left = torch.tensor(BITS) - 0.001 * BANDWIDTH * torch.log2(torch.tensor([3.0, 2.0]))
    rest = link.simultaneous_upload(
        TWO, torch.full((2,), FULL, dtype=torch.float64), left, BANDWIDTH
    )
    assert found.finished.all()
    assert found.duration_s.item() == pytest.approx(0.002 + rest.duration_s.item(), rel=1e-6)


def test_a_phase_ends_early_with_its_last_sender():
    plan = schedule((1.0, [FULL, 0.0]), (1.0, [0.0, FULL]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    expected = seconds(BITS, 2.0) + seconds(BITS, 1.0)
    assert found.duration_s.item() == pytest.approx(expected, rel=1e-12)


def test_who_comes_after_the_deadline_does_not_send():
    first = seconds(BITS, 2.0)
    plan = schedule((first, [FULL, 0.0]), (math.inf, [0.0, FULL]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH, deadline_s=first / 2)
    assert found.power.tolist() == [FULL, 0.0]
    assert found.finished.tolist() == [False, False]
    assert found.sent_bits.tolist() == pytest.approx([BITS / 2, 0.0])
    assert found.duration_s.item() == pytest.approx(first / 2)


@given(st.integers(0, 10_000))
def test_bits_and_joules_are_conserved(seed: int):
    """Whatever the schedule: everyone sends its bits, at Σ t (p + P_c) over what happened."""
    generator = torch.Generator().manual_seed(seed)
    csi = 10 ** (3 * torch.rand(5, 3, 3, generator=generator, dtype=torch.float64))
    power = 0.01 * torch.rand(5, 4, 3, generator=generator, dtype=torch.float64)
    power = torch.where(torch.rand(5, 4, 3, generator=generator) < 0.4, 0.0, power)
    durations = 0.01 * torch.rand(5, 4, generator=generator, dtype=torch.float64)
    plan = Schedule(durations, power)
    found = link.scheduled_upload(csi, plan, BITS, BANDWIDTH)
    assert torch.equal(found.finished, plan.senders)
    assert (found.airtime_s <= found.duration_s[:, None] * (1 + 1e-12)).all()
    assert (found.power <= power.amax(-2) * (1 + 1e-12)).all()
    # Nobody needs longer than alone at its least power and worst SINR.
    slowest = link.airtime(found.sinr, BITS, BANDWIDTH)
    assert (found.airtime_s[plan.senders] <= slowest[plan.senders] * (1 + 1e-9)).all()
    planned = plan.planned_bits(csi, BANDWIDTH)
    enough = (planned >= BITS).all(-1)
    assert (found.duration_s[enough] <= plan.time_s[enough] * (1 + 1e-12)).all()


def test_schedules_say_how_large_they_are():
    assert repr(schedule((1.0, [FULL, 0.0]))) == "Schedule(1 rounds of 1 phases, 2 workers)"
