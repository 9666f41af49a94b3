from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from torch import Tensor

from feduplink import link

CSI = torch.tensor([[100.0, 10.0], [5.0, 50.0]], dtype=torch.float64)
POWER = torch.tensor([0.01, 0.02], dtype=torch.float64)
WATERFALL = 0.023
MODEL_BITS = 1e6
BANDWIDTH_HZ = 180e3

positive = st.floats(1e-6, 1e6)
powers = st.just(0.0) | st.floats(1e-10, 10)  # less than 1e-10 W is silence
matrices = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(positive, min_size=n, max_size=n), min_size=n, max_size=n),
        st.lists(powers, min_size=n, max_size=n),
    ).map(lambda pair: tuple(torch.tensor(x, dtype=torch.float64) for x in pair))
)


def total_energy(csi: Tensor, power: Tensor) -> Tensor:
    airtime_s = link.airtime(link.sinr(csi, power), MODEL_BITS, BANDWIDTH_HZ)
    return link.energy(power, airtime_s, MODEL_BITS, 0.01, 1e-9)


#: All quantities of a link as functions of the CSI and the powers.
QUANTITIES = {
    "sinr": link.sinr,
    "rate": lambda csi, p: link.rate(link.sinr(csi, p)),
    "psr": lambda csi, p: link.packet_success_rate(link.sinr(csi, p), WATERFALL),
    "per": lambda csi, p: link.packet_error_rate(link.sinr(csi, p), WATERFALL),
    "efficiency": lambda csi, p: link.efficiency_of_rate(
        link.rate(link.sinr(csi, p)), p, 0.01, 1.5
    ),
    "airtime": lambda csi, p: link.airtime(link.sinr(csi, p), MODEL_BITS, BANDWIDTH_HZ),
    "energy": total_energy,
}
each_quantity = pytest.mark.parametrize("quantity", QUANTITIES.values(), ids=QUANTITIES)


def test_two_workers_by_hand():
    sinr = link.sinr(CSI, POWER)
    first, second = 1 / 1.2, 1 / 1.05  # 100·0.01 / (1 + 10·0.02) and 50·0.02 / (1 + 5·0.01)
    rates = math.log(1 + first), math.log(1 + second)
    airtimes = [1e6 / (180e3 * math.log2(1 + s)) for s in (first, second)]

    def close(actual: Tensor, *expected: float) -> bool:
        return actual.tolist() == pytest.approx(expected, rel=1e-12)

    assert close(sinr, first, second)
    assert close(link.rate(sinr), *rates)
    assert close(
        link.packet_success_rate(sinr, 0.023), math.exp(-0.023 * 1.2), math.exp(-0.023 * 1.05)
    )
    assert close(link.packet_error_rate(sinr, 0.023), 1 - math.exp(-0.0276), 1 - math.exp(-0.02415))
    assert close(
        link.efficiency_of_rate(link.rate(sinr), POWER, 0.01, 2.0), rates[0] / 0.03, rates[1] / 0.05
    )
    assert close(link.airtime(sinr, 1e6, 180e3), *airtimes)
    assert close(
        link.energy(POWER, link.airtime(sinr, 1e6, 180e3), 1e6, 0.01, 1e-9),
        1e-3 + 0.02 * airtimes[0],
        1e-3 + 0.03 * airtimes[1],
    )


def test_a_silent_worker_delivers_nothing_and_causes_no_interference():
    power = torch.tensor([0.0, 0.02], dtype=torch.float64)
    sinr = link.sinr(CSI, power)
    airtime_s = link.airtime(sinr, MODEL_BITS, BANDWIDTH_HZ)

    assert sinr.tolist() == [0.0, 1.0]
    assert link.packet_success_rate(sinr, WATERFALL)[0] == 0
    assert link.packet_error_rate(sinr, WATERFALL)[0] == 1
    assert airtime_s[0] == math.inf
    assert link.energy(power, airtime_s, MODEL_BITS, 0.01, 1e-9)[0] == pytest.approx(1e-3)


def test_weak_interference_survives_float32_beside_a_strong_direct_gain():
    csi = torch.tensor([[1e9, 0.5], [0.5, 1e9]])
    assert link.sinr(csi, torch.ones(2))[0].item() == pytest.approx(1e9 / 1.5, rel=1e-6)


@pytest.mark.parametrize("sinr", [1e5, 1e7])
def test_tiny_error_rate_keeps_its_digits_in_float32(sinr: float):
    per = link.packet_error_rate(torch.tensor(sinr), WATERFALL)
    assert per.item() == pytest.approx(WATERFALL / sinr, rel=1e-5)


@each_quantity
def test_gradients_match_finite_differences(quantity):
    csi, power = CSI.clone().requires_grad_(), POWER.clone().requires_grad_()
    assert torch.autograd.gradcheck(quantity, (csi, power))


@each_quantity
def test_gradients_are_finite_where_a_power_is_zero(quantity):
    csi = CSI.clone().requires_grad_()
    power = torch.tensor([0.0, 0.02], dtype=torch.float64, requires_grad=True)
    value = quantity(csi, power)
    value[value.isfinite()].sum().backward()
    assert csi.grad.isfinite().all()
    assert power.grad.isfinite().all()


@pytest.mark.parametrize("sinr", [0.0, 1e-38, 1e-21, 1e-6])
def test_an_inaudible_worker_has_zero_success_and_gradient(sinr: float):
    heard = torch.tensor(sinr, requires_grad=True)
    success = link.packet_success_rate(heard, WATERFALL)
    (success + link.packet_error_rate(heard, WATERFALL)).backward()
    assert success == 0
    assert heard.grad == 0


@each_quantity
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_dtype(quantity, dtype):
    assert quantity(CSI.to(dtype), POWER.to(dtype)).dtype == dtype


@each_quantity
def test_batches_over_leading_dimensions(quantity, generator):
    csi = torch.rand(4, 3, 5, 5, generator=generator, dtype=torch.float64)
    power = torch.rand(4, 3, 5, generator=generator, dtype=torch.float64)
    batched = quantity(csi, power)
    assert batched.shape == (4, 3, 5)
    torch.testing.assert_close(batched[2, 1], quantity(csi[2, 1], power[2, 1]))


@given(matrices)
def test_success_and_error_are_complementary_probabilities(drawn):
    sinr = link.sinr(*drawn)
    success = link.packet_success_rate(sinr, WATERFALL)
    assert ((success >= 0) & (success <= 1)).all()
    torch.testing.assert_close(
        success + link.packet_error_rate(sinr, WATERFALL), torch.ones_like(sinr)
    )


@given(matrices, st.floats(1e-3, 1e3))
def test_scaling_gains_up_and_powers_down_changes_no_sinr(drawn, factor):
    csi, power = drawn
    torch.testing.assert_close(link.sinr(csi * factor, power / factor), link.sinr(csi, power))


@given(matrices, st.floats(1.01, 1e3))
def test_more_power_for_all_never_lowers_an_sinr_but_less_than_proportionally(drawn, factor):
    csi, power = drawn
    before, after = link.sinr(csi, power), link.sinr(csi, factor * power)
    slack = 1 + 1e-12
    assert (after * slack >= before).all()
    assert (after <= factor * before * slack).all()


@given(matrices, st.randoms())
def test_permuting_workers_permutes_the_sinr(drawn, random):
    csi, power = drawn
    order = list(range(len(power)))
    random.shuffle(order)
    torch.testing.assert_close(
        link.sinr(csi[order][:, order], power[order]), link.sinr(csi, power)[order]
    )


@pytest.mark.parametrize("gain", [0.0, 1e-12, 1e-5, 1e-3, 1.0, 1e3, 1e9])
def test_the_most_efficient_power_is_the_best_of_a_grid(gain: float):
    static, inefficiency = 0.02, 1.5

    def efficiency(power: float) -> float:
        return math.log1p(gain * power) / (inefficiency * power + static)

    peak = float(
        link.most_efficient_power(
            torch.tensor(gain, dtype=torch.float64),
            torch.tensor(static, dtype=torch.float64),
            inefficiency,
        )
    )
    assert peak > 0
    assert gain == 0 or math.isfinite(peak)
    found = minimize_scalar(lambda x: -efficiency(math.exp(x)), bounds=(-30, 30), method="bounded")
    if gain > 0:
        assert efficiency(peak) >= -found.fun * (1 - 1e-12)
