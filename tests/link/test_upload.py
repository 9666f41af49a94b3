from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from feduplink import link

#: α = 200 and 100, β = 50 and 25: at 0.01 W both, the SINR are 2/1.5 and 1/1.25.
TWO = torch.tensor([[200.0, 50.0], [25.0, 100.0]], dtype=torch.float64)
FULL = torch.tensor([0.01, 0.01], dtype=torch.float64)
BITS, BANDWIDTH = 1000.0, 1e5


def seconds(bits: float, sinr: float) -> float:
    return bits / (BANDWIDTH * math.log2(1 + sinr))


def upload(csi=TWO, power=FULL, bits=BITS, deadline_s=None) -> link.Upload:
    return link.simultaneous_upload(csi, power, bits, BANDWIDTH, deadline_s)


def test_two_workers_by_hand():
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
    """Ends and energies by steps of fixed length, in which nothing changes.

    Steps in which nobody ends are alike, so they are taken together.
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


def test_three_workers_against_a_fine_time_stepping_simulation():
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


def test_without_interference_everybody_takes_its_own_time():
    gains = torch.tensor([200.0, 50.0, 900.0], dtype=torch.float64)
    power = torch.tensor([0.01, 0.01, 0.002], dtype=torch.float64)
    found = upload(torch.diag(gains), power)
    closed_form = link.airtime(gains * power, BITS, BANDWIDTH)
    torch.testing.assert_close(found.airtime_s, closed_form, rtol=1e-12, atol=0)
    assert found.duration_s == closed_form.max()
    torch.testing.assert_close(
        link.energy(power, found.airtime_s, BITS, 0.01), (power + 0.01) * closed_form
    )


def test_the_silent_take_no_time_and_disturb_nobody():
    found = upload(power=torch.tensor([0.01, 0.0], dtype=torch.float64))
    assert found.airtime_s.tolist() == pytest.approx([seconds(BITS, 2.0), 0.0])
    assert found.finished.tolist() == [True, False]
    assert found.sent_bits.tolist() == [BITS, 0.0]
    assert found.mean_inverse_sinr.tolist() == pytest.approx([0.5, math.inf])
    nobody = upload(power=torch.zeros(2, dtype=torch.float64))
    assert nobody.duration_s == 0
    assert not nobody.finished.any()


def test_those_that_are_alike_end_together():
    csi = torch.full((4, 4), 10.0, dtype=torch.float64) + torch.diag(torch.full((4,), 90.0))
    found = upload(csi, torch.full((4,), 0.01, dtype=torch.float64))
    expected = seconds(BITS, 1.0 / 1.3)
    assert found.airtime_s.tolist() == pytest.approx([expected] * 4, rel=1e-12)


@pytest.mark.parametrize("share", [0.3, 0.99, 1.5])
def test_at_the_deadline_everybody_stops(share: float):
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


def test_a_deadline_before_anybody_ends():
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
def test_nobody_takes_longer_than_with_frozen_sinrs_nor_less_than_alone(drawn):
    csi, power, bits = drawn
    found = upload(csi, power, bits)
    on_air = power > 0
    frozen = link.airtime(link.sinr(csi, power), bits, BANDWIDTH)
    alone = link.airtime(csi.diagonal(dim1=-2, dim2=-1) * power, bits, BANDWIDTH)
    slack = 1 + 1e-9
    assert (found.airtime_s <= torch.where(on_air, frozen, 0.0) * slack).all()
    assert (found.airtime_s * slack >= torch.where(on_air, alone, 0.0)).all()
    assert found.finished.equal(on_air)
    # The first to end has seen nothing but the frozen SINRs.
    ends = torch.where(on_air, found.airtime_s, math.inf).amin(-1)
    soonest = torch.where(on_air, frozen, math.inf).amin(-1)
    torch.testing.assert_close(ends, soonest)
    assert (found.mean_inverse_sinr[on_air] <= slack / found.sinr[on_air]).all()


@given(rounds(), st.randoms())
def test_renumbering_the_workers_renumbers_the_upload(drawn, random):
    csi, power, bits = drawn
    order = list(range(power.shape[-1]))
    random.shuffle(order)
    found = upload(csi, power, bits).airtime_s[:, order]
    other = upload(csi[:, order][:, :, order], power[:, order], bits[order]).airtime_s
    torch.testing.assert_close(found, other, rtol=1e-9, atol=0)


@given(rounds(), st.floats(0.01, 1.2))
def test_a_deadline_cuts_what_would_have_gone_on(drawn, share):
    csi, power, bits = drawn
    free = upload(csi, power, bits)
    deadline = share * float(free.duration_s.max()) + 1e-9
    found = upload(csi, power, bits, deadline)
    torch.testing.assert_close(found.airtime_s, free.airtime_s.clamp_max(deadline))
    assert (found.sent_bits <= bits * (1 + 1e-12)).all()


def test_thresholds_from_a_time_limit_and_an_energy_budget():
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
