from __future__ import annotations

import math
import re
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from conftest import Register
from feduplink import FullPower
from feduplink.experiments.federated_tasks import ALL_POLICIES
from feduplink.policies import TDMA
from feduplink.registry import POLICIES
from feduplink.reporting.style import (
    DARK_INK,
    DARK_MUTED,
    DARK_PAPER,
    MUTED,
    Look,
    StyledFigure,
    contrast,
    feasibility_note,
    figure,
    legend_columns,
    look_of,
    looks_of,
    marker_style,
    policy_title,
    save_figure,
    set_objective_scale,
)

SVG = "{http://www.w3.org/2000/svg}"

#: One policy of every kind that is compared or federated, and the optimum.
SCHEDULES = ("schedule", "learned-schedule", "fixed-power")
FAMILIES = [
    *dict.fromkeys(name.partition(":")[0] for name in (*POLICIES.names(), *ALL_POLICIES)),
    "optimum",
]


def test_every_policy_has_its_own_colour_and_marker():
    """But for the schedules, which share the pentagon, as does the optimum."""
    looks = looks_of(FAMILIES)
    assert len({look.colour for look in looks.values()}) == len(FAMILIES)
    others = [name for name in FAMILIES if name not in (*SCHEDULES, "optimum")]
    assert len({looks[name].marker for name in others}) == len(others)
    assert {looks[name].marker for name in SCHEDULES} == {"p"}
    for name in POLICIES.names():
        policy = POLICIES.find(name)
        assert (look_of(name).colour, look_of(name).marker) == (policy.colour, policy.marker)


def test_a_registered_policy_has_its_own_look(register: Register):
    class Mine(FullPower):
        name, colour, marker = "mine", "#123456", "1"

    class Plain(FullPower):
        name = "plain"

    class Slots(TDMA):
        name = "slots"

    register(POLICIES, "mine", Mine)
    register(POLICIES, "plain", Plain)
    register(POLICIES, "slots", Slots)
    assert look_of("mine") == Look("#123456", "1")
    # Derived classes without a look do not inherit that of the shipped class.
    shipped = {look.colour for look in looks_of(FAMILIES).values()}
    assert not {look_of("plain").colour, look_of("slots").colour} & shipped


def test_all_policies_of_a_figure_are_distinguishable():
    looks = looks_of(ALL_POLICIES)
    assert len({(look.colour, look.line) for look in looks.values()}) == len(ALL_POLICIES)


def test_user_defined_policies_have_distinct_colours():
    names = ["mine", "yours", "a", "b", "wmmse", "fixed"]
    looks = looks_of([*FAMILIES, *names])
    assert len({look.colour for look in looks.values()}) == len(looks)


def test_a_user_defined_policy_looks_the_same_in_every_figure():
    assert looks_of(["pdg", "mine"])["mine"] == looks_of(["mine", "rand", "pdx"])["mine"]
    assert look_of("mine") == looks_of(["mine"])["mine"]


def test_more_policies_than_colours_have_distinct_looks():
    names = [f"policy-{number}" for number in range(40)]
    assert list(looks_of(names)) == names
    twenty = looks_of([*FAMILIES, *names[:20]])
    assert len({(look.colour, look.line) for look in twenty.values()}) == len(twenty)


def test_a_variant_has_the_colour_or_a_tint_of_its_policy_and_another_line():
    looks = looks_of(["pdg", "pdg:runs/a", "pdg:runs/b", "mine:a", "mine"])
    own, first, second = (looks[name] for name in ("pdg", "pdg:runs/a", "pdg:runs/b"))
    assert own.colour == first.colour == look_of("pdg").colour
    # Another lightness: every channel moves by the same share, here towards white.
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


def test_marks_of_feasible_infeasible_and_inconclusive_differ():
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


def test_drawing_and_saving_leave_the_settings_of_matplotlib_unchanged(tmp_path: Path):
    before = dict(matplotlib.rcParams)
    save_figure(tmp_path / "a.png", line())
    assert dict(matplotlib.rcParams) == before


def test_the_style_of_a_figure_does_not_depend_on_that_of_the_caller(tmp_path: Path):
    save_figure(tmp_path / "a.png", line())
    with matplotlib.rc_context({"font.size": 20, "svg.fonttype": "none", "savefig.dpi": 30}):
        drawing = line()
        save_figure(tmp_path / "b.png", drawing)
    for suffix in (".png", ".svg"):
        first, second = (tmp_path / "a").with_suffix(suffix), (tmp_path / "b").with_suffix(suffix)
        assert first.read_bytes() == second.read_bytes()


def test_a_figure_that_cannot_be_drawn_leaves_no_file(tmp_path: Path):
    drawing = line()
    drawing.text(0.5, 0.5, "$\\no such command$")
    with pytest.raises(ValueError, match="no such command"):
        save_figure(tmp_path / "a.png", drawing)
    assert list(tmp_path.iterdir()) == []


def line() -> StyledFigure:
    with figure(4, 3, "A line") as drawing:
        drawing.subplots().plot([0, 1], [0, 1])
    return drawing


def test_equal_figures_are_equal_files(tmp_path: Path):
    save_figure(tmp_path / "a.png", line())
    save_figure(tmp_path / "b.png", line())
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a.svg", "b.png", "b.svg"}
    for suffix in (".png", ".svg"):
        first, second = (tmp_path / "a").with_suffix(suffix), (tmp_path / "b").with_suffix(suffix)
        assert first.read_bytes() == second.read_bytes()


def test_figures_contain_their_caption_and_no_date(tmp_path: Path):
    save_figure(tmp_path / "a.png", line())
    with Image.open(tmp_path / "a.png") as image:
        assert image.info["Title"] == "A line"
    text = (tmp_path / "a.svg").read_text()
    assert "<title>A line</title>" in text
    assert "<dc:date>" not in text
    assert "<path" in text


def test_text_in_svg_is_text_in_a_font_that_every_reader_has(tmp_path: Path):
    with figure(4, 3, "A line") as drawing:
        drawing.subplots().set_xlabel("Pmax, dBm")
    save_figure(tmp_path / "a.png", drawing)
    texts = [
        element
        for element in ElementTree.parse(tmp_path / "a.svg").iter(f"{SVG}text")
        if element.text == "Pmax, dBm"
    ]
    assert len(texts) == 1
    assert "sans-serif" in texts[0].attrib["style"]


def test_a_drawing_has_the_colours_of_dark_paper_too(tmp_path: Path):
    save_figure(tmp_path / "a.png", line())
    sheets = [e.text or "" for e in ElementTree.parse(tmp_path / "a.svg").iter(f"{SVG}style")]
    assert any("prefers-color-scheme: dark" in sheet and DARK_PAPER in sheet for sheet in sheets)


def _dark_paper_of_the_page() -> str:
    page = (files("feduplink.reporting") / "page.html").read_text()
    dark = page[page.index("prefers-color-scheme: dark") :]
    return re.search(r"--paper: (#\w{6})", dark)[1]


def test_contrast_is_that_of_the_wcag():
    assert contrast("white", "black") == 21
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.005)  # of the WCAG's examples
    assert contrast("#123456", "#123456") == 1


@pytest.mark.parametrize("paper", ["#ffffff", DARK_PAPER])
def test_lines_of_all_policies_stand_out_from_the_paper(paper: str):
    variants = [f"{name}:{number}" for name in FAMILIES for number in range(3)]
    own = [f"policy-{number}" for number in range(24)]
    looks = looks_of([*FAMILIES, *variants, *own])
    faint = {name: contrast(look.colour, paper) for name, look in looks.items()}
    assert {name: ratio for name, ratio in faint.items() if ratio < 3} == {}


def test_text_stands_out_from_the_paper():
    assert _dark_paper_of_the_page() == DARK_PAPER
    assert min(contrast(ink, "white") for ink in ("black", MUTED)) >= 4.5
    assert min(contrast(ink, DARK_PAPER) for ink in (DARK_INK, DARK_MUTED)) >= 4.5


def test_a_policy_goes_by_its_name_and_its_alias():
    assert policy_title("max") == "max (full power)"
    assert policy_title("pdx") == "pdx"
    assert policy_title("rand:unselected") == "rand:unselected"


def _position(axes, value: float) -> float:
    """The position of a value as a share of the width."""
    return (axes.transData + axes.transAxes.inverted()).transform((value, 0))[0]


def test_the_objective_axis_separates_good_objectives():
    axes = Figure().subplots()
    values = [0.2259, 0.7062, 0.941, 0.9706, 0.9761]
    assert set_objective_scale(axes, "x", values)
    places = [_position(axes, value) for value in values]
    assert places == sorted(places)
    assert places[0] > 0
    assert places[-1] < 1
    assert places[-1] - places[-2] > 0.04  # 0.007 of a linear axis
    ticks = axes.get_xticks()
    assert len(ticks) >= 4
    assert all(0 <= _position(axes, tick) <= 1 for tick in ticks)


def test_the_objective_axis_is_logarithmic_in_the_distance_to_one():
    axes = Figure().subplots()
    set_objective_scale(axes, "x", [0.0, 0.9, 0.99])
    first, second, third = (_position(axes, value) for value in (0.0, 0.9, 0.99))
    assert second - first == pytest.approx(third - second)


@pytest.mark.parametrize(
    "values", [[], [math.nan], [0.5], [-0.1, 0.9], [0.9, 1.3], [0.1, 0.3], [0.9, 0.9]]
)
def test_objectives_outside_the_unit_interval_keep_a_linear_axis(values: list[float]):
    axes = Figure().subplots()
    assert not set_objective_scale(axes, "x", values)
    assert axes.get_xscale() == "linear"
