from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from feduplink import link
from feduplink.link import power_alone

CSI = torch.tensor([[[200.0, 50.0], [25.0, 100.0]]], dtype=torch.float64)
BOTH = torch.tensor([[True, True]])
PMAX = torch.tensor(0.01, dtype=torch.float64)
STATIC = torch.tensor(0.02, dtype=torch.float64)
BITS, BANDWIDTH = 1000.0, 1e5


def seconds(snr: float, bandwidth: float = BANDWIDTH) -> float:
    return BITS / (bandwidth * math.log2(1 + snr))


def test_one_after_the_other_by_hand():
    found = link.tdma(CSI, BOTH, BITS, BANDWIDTH, PMAX, STATIC)
    assert found.airtime_s[0].tolist() == pytest.approx([seconds(2.0), seconds(1.0)])
    assert found.duration_s.item() == pytest.approx(seconds(2.0) + seconds(1.0))
    assert found.sinr[0].tolist() == pytest.approx([2.0, 1.0])
    energy = link.energy(found.power, found.airtime_s, BITS, STATIC)
    assert energy.sum().item() == pytest.approx(0.03 * (seconds(2.0) + seconds(1.0)))


def test_an_equal_part_of_the_band_each_by_hand():
    found = link.ofdma(CSI, BOTH, BITS, BANDWIDTH, PMAX, STATIC)
    halves = [seconds(4.0, BANDWIDTH / 2), seconds(2.0, BANDWIDTH / 2)]
    assert found.airtime_s[0].tolist() == pytest.approx(halves)
    assert found.duration_s.item() == pytest.approx(max(halves))
    assert found.sinr[0].tolist() == pytest.approx([4.0, 2.0])


@pytest.mark.parametrize("access", [link.tdma, link.ofdma])
def test_a_lone_worker_has_the_whole_band(access):
    found = access(CSI, torch.tensor([[False, True]]), BITS, BANDWIDTH, PMAX, STATIC)
    assert found.airtime_s[0].tolist() == pytest.approx([0.0, seconds(1.0)])
    assert found.power.tolist() == [[0.0, 0.01]]
    assert found.finished.tolist() == [[False, True]]


def test_at_the_deadline_of_tdma_the_next_in_turn_do_not_begin():
    deadline = 0.5 * seconds(2.0)
    found = link.tdma(CSI, BOTH, BITS, BANDWIDTH, PMAX, STATIC, deadline_s=deadline)
    assert found.airtime_s[0].tolist() == pytest.approx([deadline, 0.0])
    assert found.sent_bits[0].tolist() == pytest.approx([BITS / 2, 0.0])
    assert not found.finished.any()


def test_at_the_deadline_of_ofdma_the_slow_stop():
    fast, slow = seconds(4.0, BANDWIDTH / 2), seconds(2.0, BANDWIDTH / 2)
    deadline = (fast + slow) / 2
    found = link.ofdma(CSI, BOTH, BITS, BANDWIDTH, PMAX, STATIC, deadline_s=deadline)
    assert found.finished.tolist() == [[True, False]]
    assert found.duration_s.item() == pytest.approx(deadline)


@given(st.floats(1, 6), st.floats(-1, 4), st.floats(-3, -1))
def test_the_power_alone_minimises_time_and_energy(log_gain, log_kappa, log_static):
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


def test_without_a_price_on_energy_everybody_sends_at_full_power():
    own = torch.tensor([0.01, 0.003], dtype=torch.float64)
    assert power_alone(torch.ones(4, 2).double(), own, STATIC, 0.0).equal(own.expand(4, 2))
