from __future__ import annotations

import pytest
from matplotlib.colors import to_rgb

from feduplink import FullPower
from feduplink.experiments.federated_tasks import ALL_POLICIES
from feduplink.federated import TDMA
from feduplink.registry import ACCESS_SCHEMES, POLICIES
from feduplink.reporting.style import (
    NEUTRAL,
    Look,
    feasibility_note,
    legend_columns,
    look_of,
    looks_of,
    marker_style,
)

#: One of every kind that is compared or federated, and the optimum.
FAMILIES = [
    *dict.fromkeys(name.partition(":")[0] for name in (*POLICIES.names(), *ALL_POLICIES)),
    "optimum",
]


def test_every_policy_has_a_look_of_its_own():
    looks = looks_of(FAMILIES).values()
    assert len({look.colour for look in looks}) == len(FAMILIES)
    assert len({look.marker for look in looks}) == len(FAMILIES)
    for name in POLICIES.names():
        policy = POLICIES.find(name)
        assert (look_of(name).colour, look_of(name).marker) == (policy.colour, policy.marker)


def test_a_registered_policy_is_drawn_as_it_says(monkeypatch: pytest.MonkeyPatch):
    class Mine(FullPower):
        name, colour, marker = "mine", "#123456", "1"

    class Plain(FullPower):
        name = "plain"

    class Slots(TDMA):
        name = "slots"

    monkeypatch.setattr(POLICIES, "_registered", {"mine": Mine, "plain": Plain})
    monkeypatch.setattr(ACCESS_SCHEMES, "_registered", {"slots": Slots})
    assert look_of("mine") == Look("#123456", "1")
    # Derived ones without a look of their own do not take that of the shipped class.
    shipped = {look.colour for look in looks_of(FAMILIES).values()}
    assert not {look_of("plain").colour, look_of("slots").colour} & shipped


def test_all_policies_of_a_figure_can_be_told_apart():
    looks = looks_of(ALL_POLICIES)
    assert len({(look.colour, look.line) for look in looks.values()}) == len(ALL_POLICIES)


def test_own_policies_are_apart_from_ours_and_from_each_other():
    names = ["mine", "yours", "a", "b", "wmmse", "fixed"]
    looks = looks_of([*FAMILIES, *names])
    assert len({look.colour for look in looks.values()}) == len(looks)
    assert not {looks[name].colour for name in names} & set(NEUTRAL)


def test_an_own_policy_looks_the_same_in_every_figure():
    assert looks_of(["pdg", "mine"])["mine"] == looks_of(["mine", "rand", "pdx"])["mine"]
    assert look_of("mine") == looks_of(["mine"])["mine"]


def test_more_own_policies_than_colours_still_have_looks():
    names = [f"policy-{number}" for number in range(40)]
    assert list(looks_of(names)) == names
    twenty = looks_of([*FAMILIES, *names[:20]])
    assert len({(look.colour, look.line) for look in twenty.values()}) == len(twenty)


def test_a_variant_has_the_colour_of_its_policy_or_a_tint_of_it_and_another_line():
    looks = looks_of(["pdg", "pdg:runs/a", "pdg:runs/b", "mine:a", "mine"])
    own, first, second = (looks[name] for name in ("pdg", "pdg:runs/a", "pdg:runs/b"))
    assert own.colour == first.colour == look_of("pdg").colour
    # The same hue, lighter: every channel the same share of its way towards white.
    lighter = [
        (b - a) / (1 - a) for a, b in zip(to_rgb(own.colour), to_rgb(second.colour), strict=True)
    ]
    assert lighter == pytest.approx([lighter[0]] * 3, abs=0.02)
    assert 0.2 < lighter[0] < 0.8
    assert len({own.line, first.line, second.line}) == 3
    assert looks["mine:a"].colour == looks["mine"].colour
    assert looks["pdg:runs/a"].hatch
    assert not looks["pdg"].hatch
    assert (
        marker_style(looks["pdg:runs/a"])["markersize"] < marker_style(looks["pdg"])["markersize"]
    )


def test_marks_tell_met_missed_and_unknown_apart():
    look = look_of("pdg")
    met, missed, unknown = (marker_style(look, feasible) for feasible in (True, False, None))
    assert (met["markerfacecolor"], met["fillstyle"]) == (look.colour, "full")
    assert (missed["markerfacecolor"], missed["fillstyle"]) == ("white", "full")
    assert (unknown["markerfacecolor"], unknown["markerfacecoloralt"]) == (look.colour, "white")
    assert unknown["fillstyle"] == "left"


def test_the_note_explains_the_marks_that_occur():
    assert "hollow" not in feasibility_note([True, True])
    assert "hollow" in feasibility_note([True, False])
    assert "half-filled" not in feasibility_note([True, False])
    assert "half-filled" in feasibility_note([None])


@pytest.mark.parametrize(
    ("entries", "columns"), [(0, 0), (1, 1), (9, 9), (10, 5), (14, 7), (19, 7)]
)
def test_rows_of_a_legend_are_about_equal(entries: int, columns: int):
    assert legend_columns(entries) == columns
