from __future__ import annotations

import math

import pytest

from feduplink import InputError, Scenario
from feduplink import set_units as set_units_at_the_top
from feduplink.units import (
    DisplayUnit,
    display_unit,
    displayed_power,
    parse_power_dbw,
    power_text,
    scaled_unit,
    set_units,
)


@pytest.fixture(autouse=True)
def _engineering_units_afterwards():
    yield
    set_units("engineering")


def test_bits_per_second_and_hertz_are_nats_over_ln_2():
    unit = display_unit("nats/s/Hz")
    assert unit.symbol == "bit/s/Hz"
    assert unit.factor * math.log(2) == pytest.approx(1)


def test_megabits_per_joule_need_the_bandwidth():
    # R = 1 nat/s/Hz over 180 kHz for 1 W are 180e3 / ln 2 bit per joule.
    unit = display_unit("nats/s/Hz/W", bandwidth_hz=180e3)
    assert unit.symbol == "Mbit/J"
    assert unit.factor == pytest.approx(0.18 / math.log(2))
    assert display_unit("nats/s/Hz/W").symbol == "bit/s/Hz/W"


def test_other_units_are_displayed_as_they_are():
    assert display_unit("W").text(0.0123) == "0.0123 W"
    assert display_unit("").text(0.5) == "0.5"


def test_small_times_and_energies_are_in_thousandths():
    assert scaled_unit("J", [0.017, 0.44, math.nan]).text(0.017) == "17 mJ"
    assert scaled_unit("J", [0.017, 1.2]).text(0.017) == "0.017 J"
    assert scaled_unit("s", []).symbol == "s"
    set_units("nats")
    assert scaled_unit("J", [0.017]).symbol == "J"


def test_a_range_of_powers_has_one_unit():
    assert power_text([-20.0, -23.0]) == "7 to 10 dBm"
    assert power_text((-20.0, -20.0)) == "10 dBm"


def test_a_unit_may_have_an_offset():
    assert DisplayUnit("dBm", offset=30.0).text(-20.0) == "10 dBm"


def test_units_are_set_at_the_top_level():
    set_units_at_the_top("nats")
    assert power_text(-20.0) == "-20 dBW"


def test_nats_are_the_units_of_the_paper():
    set_units("nats")
    assert display_unit("nats/s/Hz/W", bandwidth_hz=180e3).text(55) == "55 nats/s/Hz/W"
    assert (displayed_power(-20.0), power_text(-20.0)) == (-20.0, "-20 dBW")


def test_an_unknown_system_of_units_is_refused():
    with pytest.raises(InputError, match=r"units: 'nat' is unknown, did you mean nats\?"):
        set_units("nat")


@pytest.mark.parametrize(
    ("text", "power_dbw"),
    [
        ("10dBm", -20),
        ("10 mW", -20),
        ("-20dBW", -20),
        ("0.01W", -20),
        ("1e4 uW", -20),
        ("2 W", 3.01),
    ],
)
def test_powers_with_a_unit(text, power_dbw):
    assert parse_power_dbw(text) == pytest.approx(power_dbw, abs=1e-3)
    assert Scenario(pmax_dbw=text).pmax_dbw == pytest.approx(power_dbw, abs=1e-3)


def test_a_number_without_a_unit_is_in_dbw():
    assert parse_power_dbw("-20") == -20
    assert Scenario(pmax_dbw="-23").pmax_dbw == -23


def test_each_worker_may_have_its_power_in_its_unit():
    scenario = Scenario(workers=3, pmax_dbw=("10dBm", -20, "10mW"))
    assert scenario.pmax_dbw == pytest.approx((-20, -20, -20))


@pytest.mark.parametrize("text", ["0 mW", "-3W"])
def test_powers_of_zero_watts_or_less_are_refused(text):
    with pytest.raises(InputError, match="above 0 if in watts"):
        parse_power_dbw(text)


@pytest.mark.parametrize("text", ["10 dBq", "dBm", "mW10", "tenmW", "1.2.3", "nan"])
def test_other_texts_are_not_powers(text):
    with pytest.raises(InputError, match=r"pmax_dbw: .* is not a power; accepted: a finite number"):
        Scenario(pmax_dbw=text)
