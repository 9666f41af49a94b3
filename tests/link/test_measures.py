from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from feduplink import Scenario
from feduplink.link import EnergyEfficiency, PacketSuccess, Rate, SeparableMeasure, Slopes
from feduplink.registry import MEASURES

from .own_measures import AveragePower, Sinr

PARTS = ("s", "ss", "t", "st", "tt")

logarithms = st.lists(
    st.tuples(st.floats(-5, 6), st.floats(-8, 1)), min_size=1, max_size=6
)  # of SINR and power


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@given(
    points=logarithms,
    waterfall=st.floats(0.01, 3),
    static=st.floats(1e-4, 1),
    inefficiency=st.floats(0.1, 10),
)
def test_closed_form_slopes_agree_with_automatic_differentiation(
    points, waterfall, static, inefficiency
):
    sinr, power = (10 ** column(*values) for values in zip(*points, strict=True))
    measures = (PacketSuccess(waterfall), Rate(), EnergyEfficiency(column(static), inefficiency))
    for measure in measures:
        closed, automatic = (
            measure.slopes(sinr, power),
            SeparableMeasure.slopes(measure, sinr, power),
        )
        size = float(measure.value(sinr, power).max())
        for part in PARTS:
            torch.testing.assert_close(
                getattr(closed, part), getattr(automatic, part), rtol=1e-8, atol=1e-11 * size
            )


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        # p = e^t, and SINR = e^s: every derivative is the value itself.
        (AveragePower(), {"t": 1, "tt": 1}),
        (Sinr(), {"s": 1, "ss": 1}),
    ],
)
def test_slopes_of_a_user_defined_measure(measure: SeparableMeasure, expected: dict[str, int]):
    sinr, power = column(0.5, 2.0), column(0.01, 0.1)
    value, slopes = measure.value(sinr, power), measure.slopes(sinr, power)
    for part in PARTS:
        torch.testing.assert_close(getattr(slopes, part), expected.get(part, 0) * value)
        assert not getattr(slopes, part).requires_grad


def test_slopes_add_and_scale():
    sinr, power, price = column(0.5, 2.0), column(0.01, 0.1), column(3.0, 0.0)
    both = Rate().slopes(sinr, power) + price * AveragePower().slopes(sinr, power)
    assert isinstance(both, Slopes)
    torch.testing.assert_close(both.s, sinr / (1 + sinr))
    torch.testing.assert_close(both.t, price * power)


@pytest.mark.parametrize("name", ["psr", "rate", "energy_efficiency"])
@pytest.mark.parametrize("gain", [1.0, 1e3, 1e6])
def test_most_alone_is_the_largest_value_over_all_powers(name: str, gain: float):
    scenario = Scenario(workers=2, pmax_dbw=(-20, 0), static_power_w=(0.01, 0.002))
    measure = MEASURES.find(name).from_scenario(scenario)
    gains = column(gain, gain)
    most = measure.most_alone(gains, scenario.max_power)
    power = scenario.max_power * torch.logspace(-8, 0, 100_001, dtype=torch.float64)[:, None]
    best = measure.value(gains * power, power).amax(0)
    torch.testing.assert_close(most, best, rtol=1e-7, atol=0)
    assert (most >= best * (1 - 1e-12)).all()


def test_most_alone_is_unknown_for_a_user_defined_measure():
    assert AveragePower().most_alone(column(1.0), column(0.01)) is None


def test_labels_of_measures():
    assert [kind.name for kind in map(MEASURES.find, MEASURES.names())] == list(MEASURES.names())
    assert EnergyEfficiency.from_scenario(Scenario()).label == "EE"
    assert Rate().label == "rate"
    assert AveragePower().label == "P"


def test_measures_take_their_constants_from_the_scenario():
    scenario = Scenario(waterfall=0.3, static_power_w=0.02, amplifier_inefficiency=2.0)
    sinr, power = column(0.5), column(0.01)
    success = PacketSuccess.from_scenario(scenario).value(sinr, power)
    efficiency = EnergyEfficiency.from_scenario(scenario).value(sinr, power)
    torch.testing.assert_close(success, torch.exp(column(-0.6)))
    torch.testing.assert_close(efficiency, torch.log(column(1.5)) / 0.04)
