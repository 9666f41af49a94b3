from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from feduplink import link
from feduplink.link import Schedule, power_alone

#: α = 200 and 100, β = 50 and 25: at 0.01 W both, the SINR are 2/1.5 and 1/1.25.
TWO = torch.tensor([[200.0, 50.0], [25.0, 100.0]], dtype=torch.float64)
FULL_W = 0.01
FULL = torch.tensor([FULL_W, FULL_W], dtype=torch.float64)
BITS, BANDWIDTH = 1000.0, 1e5

CSI = TWO[None]
STATIC = torch.tensor(0.02, dtype=torch.float64)


def seconds(bits: float, sinr: float, bandwidth: float = BANDWIDTH) -> float:
    """Airtime at a constant SINR, s."""
    return bits / (bandwidth * math.log2(1 + sinr))


def upload(csi=TWO, power=FULL, bits=BITS, deadline_s=None) -> link.Upload:
    return link.simultaneous_upload(csi, power, bits, BANDWIDTH, deadline_s)


def test_simultaneous_uploads_of_two_workers_by_hand():
    """The first finishes at SINR 4/3; the second then sends the rest of its bits alone."""
    found = upload()
    first = seconds(BITS, 2 / 1.5)
    sent = first * BANDWIDTH * math.log2(1 + 1 / 1.25)
    second = first + seconds(BITS - sent, 1.0)
    assert found.airtime_s.tolist() == pytest.approx([first, second], rel=1e-12)
    assert found.duration_s.item() == pytest.approx(second, rel=1e-12)
    assert found.finished.all()
    assert found.sent_bits.tolist() == [BITS, BITS]
    # Of the second's bits, a share is sent at 0.8 and the rest at 1.
    mean_inverse = (sent / 0.8 + (BITS - sent) / 1.0) / BITS
    assert found.mean_inverse_sinr.tolist() == pytest.approx([1.5 / 2, mean_inverse], rel=1e-12)
    energy = link.energy(FULL, found.airtime_s, BITS, 0.02, 1e-9)
    expected = [1e-9 * BITS + 0.03 * first, 1e-9 * BITS + 0.03 * second]
    assert energy.tolist() == pytest.approx(expected, rel=1e-12)


def time_stepped(csi, power, bits, static_power_w: float, step: float):
    """Ends and energies by steps of fixed length at constant SINRs.

    Consecutive steps in which no worker completes are taken together.
    """
    left, ends, energy = bits.tolist(), [0.0] * len(bits), [0.0] * len(bits)
    elapsed = 0
    while (sending := [x > 0 for x in left]) != [False] * len(left):
        speed = (BANDWIDTH * torch.log2(1 + link.sinr(csi, power * torch.tensor(sending)))).tolist()
        alike = min(
            int(x / (v * step)) for x, v, on in zip(left, speed, sending, strict=True) if on
        )
        alike = max(alike, 1)
        elapsed += alike
        for i in range(len(left)):
            if sending[i]:
                left[i] -= alike * step * speed[i]
                ends[i] = elapsed * step
                energy[i] += (float(power[i]) + static_power_w) * alike * step
    return ends, energy


def test_simultaneous_uploads_agree_with_a_fine_time_stepping_simulation():
    generator = torch.Generator().manual_seed(5)
    csi = 10 ** (2 * torch.rand(3, 3, generator=generator, dtype=torch.float64))
    csi += torch.diag(torch.tensor([2000.0, 400.0, 900.0], dtype=torch.float64))
    power = torch.tensor([0.01, 0.007, 0.002], dtype=torch.float64)
    bits = torch.tensor([900.0, 1500.0, 1200.0], dtype=torch.float64)
    found = upload(csi, power, bits)
    assert len(set(found.airtime_s.tolist())) == 3
    ends, energy = time_stepped(csi, power, bits, 0.01, found.duration_s.item() / 2e7)
    assert found.airtime_s.tolist() == pytest.approx(ends, rel=1e-6)
    exact = link.energy(power, found.airtime_s, bits, 0.01)
    assert exact.tolist() == pytest.approx(energy, rel=1e-6)


def test_without_interference_each_airtime_is_in_closed_form():
    gains = torch.tensor([200.0, 50.0, 900.0], dtype=torch.float64)
    power = torch.tensor([0.01, 0.01, 0.002], dtype=torch.float64)
    found = upload(torch.diag(gains), power)
    closed_form = link.airtime(gains * power, BITS, BANDWIDTH)
    torch.testing.assert_close(found.airtime_s, closed_form, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.duration_s, closed_form.max(), rtol=1e-12, atol=0)
    torch.testing.assert_close(
        link.energy(power, found.airtime_s, BITS, 0.01), (power + 0.01) * closed_form
    )


def test_silent_workers_take_no_time_and_cause_no_interference():
    found = upload(power=torch.tensor([0.01, 0.0], dtype=torch.float64))
    assert found.airtime_s.tolist() == pytest.approx([seconds(BITS, 2.0), 0.0])
    assert found.finished.tolist() == [True, False]
    assert found.sent_bits.tolist() == [BITS, 0.0]
    assert found.mean_inverse_sinr.tolist() == pytest.approx([0.5, math.inf])
    nobody = upload(power=torch.zeros(2, dtype=torch.float64))
    assert nobody.duration_s == 0
    assert not nobody.finished.any()


def test_identical_workers_complete_together():
    csi = torch.full((4, 4), 10.0, dtype=torch.float64) + torch.diag(torch.full((4,), 90.0))
    found = upload(csi, torch.full((4,), 0.01, dtype=torch.float64))
    expected = seconds(BITS, 1.0 / 1.3)
    assert found.airtime_s.tolist() == pytest.approx([expected] * 4, rel=1e-12)


@pytest.mark.parametrize("share", [0.3, 0.99, 1.5])
def test_every_worker_stops_at_the_deadline(share: float):
    free = upload()
    first, second = free.airtime_s.tolist()
    deadline = first + share * (second - first)
    found = upload(deadline_s=deadline)
    assert found.finished.tolist() == [True, share > 1]
    assert found.airtime_s.tolist() == pytest.approx([first, min(second, deadline)])
    assert found.duration_s.item() == pytest.approx(min(second, deadline))
    # Both phases of the second are cut in proportion to the time.
    early = first * BANDWIDTH * math.log2(1.8)
    late = min(second, deadline) - first
    assert found.sent_bits[1].item() == pytest.approx(early + late * BANDWIDTH)


def test_at_a_deadline_before_the_first_completion_no_upload_is_complete():
    found = upload(deadline_s=1e-5)
    assert not found.finished.any()
    assert found.airtime_s.tolist() == [1e-5, 1e-5]
    sent = [1e-5 * BANDWIDTH * math.log2(1 + sinr) for sinr in (2 / 1.5, 1 / 1.25)]
    assert found.sent_bits.tolist() == pytest.approx(sent)


workers = st.integers(1, 6)


@st.composite
def rounds(draw):
    """A batch of channels with powers, some of them silent, and bits per worker."""
    count, seed = draw(workers), draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)

    def decades(low, high, *shape):
        unit = torch.rand(shape, generator=generator, dtype=torch.float64)
        return 10 ** (low + (high - low) * unit)

    csi = decades(0, 4, 3, count, count) + torch.diag_embed(decades(2, 6, 3, count))
    power = decades(-6, -1, 3, count) * (torch.rand(3, count, generator=generator) < 0.8)
    return csi, power, decades(2, 4, count)


@given(rounds())
def test_airtime_is_at_most_that_of_frozen_sinrs_and_at_least_that_alone(drawn):
    csi, power, bits = drawn
    found = upload(csi, power, bits)
    on_air = power > 0
    frozen = link.airtime(link.sinr(csi, power), bits, BANDWIDTH)
    alone = link.airtime(csi.diagonal(dim1=-2, dim2=-1) * power, bits, BANDWIDTH)
    slack = 1 + 1e-9
    assert (found.airtime_s <= torch.where(on_air, frozen, 0.0) * slack).all()
    assert (found.airtime_s * slack >= torch.where(on_air, alone, 0.0)).all()
    assert found.finished.equal(on_air)
    # Until the first completion the SINRs are the frozen ones.
    ends = torch.where(on_air, found.airtime_s, math.inf).amin(-1)
    soonest = torch.where(on_air, frozen, math.inf).amin(-1)
    torch.testing.assert_close(ends, soonest)
    assert (found.mean_inverse_sinr[on_air] <= slack / found.sinr[on_air]).all()


@given(rounds(), st.randoms())
def test_permuting_workers_permutes_airtimes(drawn, random):
    csi, power, bits = drawn
    order = list(range(power.shape[-1]))
    random.shuffle(order)
    found = upload(csi, power, bits).airtime_s[:, order]
    other = upload(csi[:, order][:, :, order], power[:, order], bits[order]).airtime_s
    torch.testing.assert_close(found, other, rtol=1e-9, atol=0)


@given(rounds(), st.floats(0.01, 1.2))
def test_a_deadline_truncates_airtimes_only(drawn, share):
    csi, power, bits = drawn
    free = upload(csi, power, bits)
    deadline = share * float(free.duration_s.max()) + 1e-9
    found = upload(csi, power, bits, deadline)
    torch.testing.assert_close(found.airtime_s, free.airtime_s.clamp_max(deadline))
    assert (found.sent_bits <= bits * (1 + 1e-12)).all()


def test_thresholds_follow_from_a_time_limit_and_an_energy_budget():
    bits, bandwidth, static = 1.2e6, 180e3, 0.01
    r0 = link.rate_for_time(bits, 7.0, bandwidth)
    sinr = torch.expm1(r0)
    assert link.airtime(sinr, bits, bandwidth).item() == pytest.approx(7.0)
    e0 = link.efficiency_for_energy(bits, 0.2, bandwidth, 1e-9)
    # A worker with just this efficiency at some power spends just this energy.
    power = torch.tensor(0.004, dtype=torch.float64)
    at = torch.expm1(e0 * (power + static))
    spent = link.energy(power, link.airtime(at, bits, bandwidth), bits, static, 1e-9)
    assert spent.item() == pytest.approx(0.2)


def schedule(*phases: tuple[float, list[float]]) -> Schedule:
    durations, powers = zip(*phases, strict=True)
    return Schedule(
        torch.tensor(durations, dtype=torch.float64), torch.tensor(powers, dtype=torch.float64)
    )


def test_a_schedule_of_one_sender_per_phase_is_tdma():
    first, second = seconds(BITS, 2.0), seconds(BITS, 1.0)
    plan = schedule((first, [FULL_W, 0.0]), (second, [0.0, FULL_W]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    power = torch.full((2,), FULL_W, dtype=torch.float64)
    tdma = link.scheduled_upload(TWO, Schedule.tdma(power), BITS, BANDWIDTH)
    assert found.finished.all()
    assert found.duration_s.item() == pytest.approx(tdma.duration_s.item(), rel=1e-12)
    torch.testing.assert_close(found.airtime_s, tdma.airtime_s)
    torch.testing.assert_close(found.sinr, tdma.sinr)
    torch.testing.assert_close(found.mean_inverse_sinr, tdma.mean_inverse_sinr)
    energy = link.energy(found.power, found.airtime_s, BITS, 0.02).sum()
    assert energy.item() == pytest.approx(plan.energy_j(0.02).item(), rel=1e-12)


def test_energy_follows_a_power_that_changes_between_phases():
    plan = schedule((0.002, [FULL_W, 0.0]), (math.inf, [FULL_W / 2, FULL_W]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    early = 0.002 * BANDWIDTH * math.log2(3.0)
    together = 1.0 / 1.5  # the first at half its power against the second
    late = seconds(BITS - early, together)
    assert found.airtime_s[0].item() == pytest.approx(0.002 + late, rel=1e-12)
    assert found.sinr[0].item() == pytest.approx(together)
    spent = FULL_W * 0.002 + FULL_W / 2 * late
    assert (found.power * found.airtime_s)[0].item() == pytest.approx(spent, rel=1e-12)
    share = early / BITS
    expected = share / 2.0 + (1 - share) / together
    assert found.mean_inverse_sinr[0].item() == pytest.approx(expected, rel=1e-12)


def test_a_worker_that_is_not_complete_continues_at_its_last_power():
    plan = schedule((0.001, [FULL_W, 0.0]), (0.001, [0.0, FULL_W]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    left = torch.tensor(BITS) - 0.001 * BANDWIDTH * torch.log2(torch.tensor([3.0, 2.0]))
    rest = link.simultaneous_upload(
        TWO, torch.full((2,), FULL_W, dtype=torch.float64), left, BANDWIDTH
    )
    assert found.finished.all()
    assert found.duration_s.item() == pytest.approx(0.002 + rest.duration_s.item(), rel=1e-6)


def test_a_phase_ends_when_its_last_sender_completes():
    plan = schedule((1.0, [FULL_W, 0.0]), (1.0, [0.0, FULL_W]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH)
    expected = seconds(BITS, 2.0) + seconds(BITS, 1.0)
    assert found.duration_s.item() == pytest.approx(expected, rel=1e-12)


def test_a_worker_scheduled_after_the_deadline_stays_silent():
    first = seconds(BITS, 2.0)
    plan = schedule((first, [FULL_W, 0.0]), (math.inf, [0.0, FULL_W]))
    found = link.scheduled_upload(TWO, plan, BITS, BANDWIDTH, deadline_s=first / 2)
    assert found.power.tolist() == [FULL_W, 0.0]
    assert found.finished.tolist() == [False, False]
    assert found.sent_bits.tolist() == pytest.approx([BITS / 2, 0.0])
    assert found.duration_s.item() == pytest.approx(first / 2)


@given(st.integers(0, 10_000))
def test_bits_and_joules_are_conserved(seed: int):
    """Every sender of a random schedule completes, within its planned time and power."""
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
    # Airtime is at most that at the least power and worst SINR.
    slowest = link.airtime(found.sinr, BITS, BANDWIDTH)
    assert (found.airtime_s[plan.senders] <= slowest[plan.senders] * (1 + 1e-9)).all()
    planned = plan.planned_bits(csi, BANDWIDTH)
    enough = (planned >= BITS).all(-1)
    assert (found.duration_s[enough] <= plan.time_s[enough] * (1 + 1e-12)).all()


def test_the_repr_of_a_schedule_states_its_size():
    assert repr(schedule((1.0, [FULL_W, 0.0]))) == "Schedule(1 rounds of 1 phases, 2 workers)"


def upload_of(schedule: Schedule, deadline_s: float | None = None) -> link.Upload:
    return link.scheduled_upload(CSI, schedule, BITS, BANDWIDTH, deadline_s)


def test_tdma_by_hand():
    found = upload_of(Schedule.tdma(FULL[None]))
    assert found.airtime_s[0].tolist() == pytest.approx([seconds(BITS, 2.0), seconds(BITS, 1.0)])
    assert found.duration_s.item() == pytest.approx(seconds(BITS, 2.0) + seconds(BITS, 1.0))
    assert found.sinr[0].tolist() == pytest.approx([2.0, 1.0])
    energy = link.energy(found.power, found.airtime_s, BITS, STATIC)
    assert energy.sum().item() == pytest.approx(0.03 * (seconds(BITS, 2.0) + seconds(BITS, 1.0)))


def test_ofdma_by_hand():
    found = upload_of(Schedule.ofdma(FULL[None]))
    halves = [seconds(BITS, 4.0, BANDWIDTH / 2), seconds(BITS, 2.0, BANDWIDTH / 2)]
    assert found.airtime_s[0].tolist() == pytest.approx(halves)
    assert found.duration_s.item() == pytest.approx(max(halves))
    assert found.sinr[0].tolist() == pytest.approx([4.0, 2.0])


@pytest.mark.parametrize("access", [Schedule.tdma, Schedule.ofdma])
def test_a_lone_worker_uses_the_whole_band(access):
    found = upload_of(access(FULL[None] * torch.tensor([0.0, 1.0])))
    assert found.airtime_s[0].tolist() == pytest.approx([0.0, seconds(BITS, 1.0)])
    assert found.power.tolist() == [[0.0, 0.01]]
    assert found.finished.tolist() == [[False, True]]


def test_at_the_deadline_later_tdma_senders_do_not_start():
    deadline = 0.5 * seconds(BITS, 2.0)
    found = upload_of(Schedule.tdma(FULL[None]), deadline)
    assert found.airtime_s[0].tolist() == pytest.approx([deadline, 0.0])
    assert found.sent_bits[0].tolist() == pytest.approx([BITS / 2, 0.0])
    assert not found.finished.any()


def test_at_the_deadline_slow_ofdma_senders_stop():
    fast, slow = seconds(BITS, 4.0, BANDWIDTH / 2), seconds(BITS, 2.0, BANDWIDTH / 2)
    deadline = (fast + slow) / 2
    found = upload_of(Schedule.ofdma(FULL[None]), deadline)
    assert found.finished.tolist() == [[True, False]]
    assert found.duration_s.item() == pytest.approx(deadline)


@given(st.floats(1, 6), st.floats(-1, 4), st.floats(-3, -1))
def test_power_alone_minimises_time_plus_energy(log_gain, log_kappa, log_static):
    gain, kappa, static = (10.0**x for x in (log_gain, log_kappa, log_static))

    def cost(power: float) -> float:
        return (1 + kappa * (power + static)) / math.log1p(gain * power)

    found = power_alone(
        torch.tensor(gain, dtype=torch.float64),
        torch.tensor(10.0, dtype=torch.float64),
        torch.tensor(static, dtype=torch.float64),
        kappa,
    ).item()
    best = minimize_scalar(
        lambda t: cost(math.exp(t)), bounds=(-25, math.log(10)), method="bounded"
    )
    assert cost(found) <= best.fun * (1 + 1e-9)
    assert 0 < found <= 10


def test_without_a_price_on_energy_power_alone_is_pmax():
    own = torch.tensor([0.01, 0.003], dtype=torch.float64)
    assert power_alone(torch.ones(4, 2).double(), own, STATIC, 0.0).equal(own.expand(4, 2))
