"""Plots of sweeps."""

from __future__ import annotations

import math

import pytest

from drawings import rendered, written
from feduplink import Scenario
from feduplink.reporting.sweep import SweptCurves, SweptPoint, sweep_figure
from feduplink.workflows.sweeps import Sweep, SweptRow


def swept(option: str, measured: dict[tuple[str, object], dict[str, float]], **more) -> Sweep:
    rows = tuple(
        SweptRow((value,), seed, policy, {k: v + 0.1 * seed for k, v in measures.items()})
        for (policy, value), measures in measured.items()
        for seed in range(more.get("seeds", 1))
    )
    return Sweep("evaluate", (option,), rows, more.get("measure", "objective"), Scenario())


def markers(drawing) -> dict[tuple[float, float], tuple[str, str]]:
    """Marker and face by position."""
    points = [line for line in drawing.axes[0].lines if len(line.get_xdata()) == 1]
    return {
        (float(p.get_xdata()[0]), round(float(p.get_ydata()[0]), 6)): (
            p.get_marker(),
            p.get_markerfacecolor(),
        )
        for p in points
    }


def test_points_are_at_their_values_in_dbm_with_their_verdicts():
    result = swept(
        "pmax_dbw",
        {
            ("max", "-30"): {"objective": 0.6, "feasible": 1.0, "participation": 1.0},
            ("max", "-20"): {"objective": 0.7, "feasible": 0.0, "participation": 1.0},
            ("max", "0"): {"objective": 0.0, "feasible": 0.0, "participation": 0.0},
        },
    )
    drawing = rendered(sweep_figure(result.curves("objective")))
    marks = markers(drawing)
    assert marks[0, 0.6][0] == marks[10, 0.7][0] == "s"
    assert marks[0, 0.6][1] != "white"
    assert marks[10, 0.7][1] == "white"
    assert marks[30, 0.0][0] == "x"
    texts = written(drawing)
    assert "Pmax, dBm" in texts
    assert "How does the objective change with Pmax, and which policies are feasible?" in texts
    assert {"feasible", "infeasible", "silent", "max (full power)"} <= set(texts)


def test_lines_to_infeasible_points_are_dotted():
    points = [
        SweptPoint(0.2, 0.2, 0.2),
        SweptPoint(0.3, 0.3, 0.3),
        SweptPoint(0.4, 0.4, 0.4, False),
    ]
    curves = SweptCurves("interference", [1, 2, 4], "objective", {"": {"max": points}}, True, True)
    lines = [line for line in sweep_figure(curves).axes[0].lines if len(line.get_xdata()) == 2]
    assert [line.get_linestyle() for line in lines] == ["-", ":"]


def test_seeds_have_their_range():
    result = swept("interference", {("max", 1): {"objective": 2.0}}, seeds=3)
    (point,) = result.curves("objective").panels[""]["max"]
    assert (point.low, point.mean, point.high) == pytest.approx((2.0, 2.1, 2.2))
    drawing = rendered(sweep_figure(result.curves("objective")))
    bars = [line.get_ydata() for line in drawing.axes[0].lines if len(line.get_xdata()) == 2]
    assert [tuple(bar) for bar in bars] == [pytest.approx((2.0, 2.2))]
    assert "bar: range of the seeds" in written(drawing)


def test_measures_and_options_have_units():
    result = swept("rate_min", {("max", 0.7): {"objective": 0.5, "rate_min": 0.7}})
    table = result.table("rate_min")
    bits = 0.7 / math.log(2)
    assert (
        table.title == "mean rate of the worst worker, bit/s/Hz, against rate threshold, bit/s/Hz"
    )
    assert table.columns == ("policy", f"{bits:.4g}")
    assert list(table.rows[0]) == ["max", f"{bits:.4g}"]
    assert result.curves("rate_min").values == [pytest.approx(bits)]


def test_words_are_one_after_the_other():
    result = swept(
        "channel_model",
        {("max", "wbs"): {"objective": 0.5}, ("max", "hata-urban"): {"objective": 0.6}},
    )
    axes = rendered(sweep_figure(result.curves("objective"))).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["wbs", "hata-urban"]
    assert axes.get_xlabel() == "channel model"


def test_a_sweep_without_a_decided_verdict_says_so():
    result = swept("interference", {("max", 1): {"objective": 0.5, "shortfall": 0.0}})
    assert result.table().rows[0][-1] == "inconclusive"
