"""Plots of the search for the optimum."""

from __future__ import annotations

import math

import pytest

from drawings import is_picture, rendered, written
from feduplink import Optimum
from feduplink.optimum import find_optimum
from feduplink.reporting.optimum import plot_duality


@pytest.fixture(scope="module")
def optimum(default_csi, default_scenario) -> Optimum:
    return find_optimum(default_scenario, default_csi[:8], max_boxes=5000, record=True)


def test_values_are_distances_to_the_optimum_inside_the_frame(optimum):
    axes = rendered(plot_duality(optimum)).axes[0]
    dual = axes.lines[0].get_ydata()
    steps = optimum.solution.steps
    assert dual == pytest.approx([step.dual - optimum.objective for step in steps])
    low, high = axes.get_ylim()
    drawn = [value for line in axes.lines for value in line.get_ydata() if math.isfinite(value)]
    assert low < min(drawn) <= max(drawn) < high


def test_the_bound_is_labelled_with_its_distance(optimum):
    drawing = rendered(plot_duality(optimum))
    texts = written(drawing)
    assert "Did the search converge, and how far is the certified bound?" in texts
    assert f"certified upper bound, {optimum.gap:.2g} above the optimum found" in texts
    assert is_picture(drawing)


def test_values_of_a_rate_are_in_bits(default_csi, default_scenario):
    scenario = default_scenario.replace(objective="rate", rate_min=0.0, ee_min=0.0)
    found = find_optimum(scenario, default_csi[:3], max_boxes=100, record=True)
    axes = plot_duality(found).axes[0]
    assert axes.get_ylabel() == "value − objective of the optimum, bit/s/Hz"
    expected = [(s.dual - found.objective) / math.log(2) for s in found.solution.steps]
    assert axes.lines[0].get_ydata() == pytest.approx(expected)
