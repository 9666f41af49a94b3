"""Plots of schedules: which points deliver, and who transmits when."""

from __future__ import annotations

import math

import matplotlib.colors
import numpy as np
import pytest
import torch

from drawings import is_picture, rendered, written
from feduplink.federated import UplinkRecord
from feduplink.link import Schedule
from feduplink.reporting.schedule import plot_front, plot_timeline

pytestmark = pytest.mark.filterwarnings("error")


def rounds(time_s: float, energy_j: float, delivered: tuple[float, ...]) -> UplinkRecord:
    """Two equal rounds."""
    success = torch.tensor([delivered, delivered], dtype=torch.float64)
    return UplinkRecord(
        success=success,
        transmitting=success > 0,
        airtime_s=torch.full((2,), time_s, dtype=torch.float64),
        energy_j=torch.full((2,), energy_j, dtype=torch.float64),
        sent_bytes=success.sum(-1),
        arrived=success > 0.5,
    )


FULL, HALF = (1.0, 0.95), (1.0, 0.0)
COSTS = {
    "orth": {None: rounds(1.0, 0.05, HALF)},
    "max": {None: rounds(9.0, 0.8, FULL)},
    "schedule": {0.0: rounds(8.0, 0.7, (0.95, 0.8)), 10.0: rounds(10.0, 0.5, FULL)},
}


def _points(drawing) -> dict[float, tuple[str, float]]:
    """Face colour and area of every marker, by its time."""
    axes = drawing.axes[0]
    return {
        float(time_s): (matplotlib.colors.to_hex(face), float(area))
        for collection in axes.collections
        if len(collection.get_offsets())
        for (time_s, _), face, area in zip(
            np.ma.getdata(collection.get_offsets()),
            collection.get_facecolors(),
            collection.get_sizes(),
            strict=True,
        )
        if np.isfinite(time_s)
    }


def test_points_that_do_not_deliver_are_hollow_and_smaller():
    points = _points(rendered(plot_front(COSTS, {})))
    white = {time_s for time_s, (face, _) in points.items() if face == "#ffffff"}
    assert white == {1.0, 8.0}  # a worker's model arrives in 0 and 80 % of the rounds
    assert points[1.0][1] < points[9.0][1]


def test_a_lower_delivery_makes_points_full():
    points = _points(rendered(plot_front(COSTS, {}, delivery=(0.8,))))
    assert {time_s for time_s, (face, _) in points.items() if face == "#ffffff"} == {1.0}


def test_points_that_do_not_deliver_do_not_set_the_axes_and_are_named():
    drawing = rendered(plot_front(COSTS, {}))
    axes = drawing.axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    low, high = axes.get_xlim()
    assert 1 < low < 9 < 10 < high
    (note,) = [text for text in written(drawing) if "outside" in text]
    assert "orth (1 s, 0.05 J)" in note
    assert "hollow" in note


def test_the_legend_has_the_models_that_arrive():
    (legend,) = rendered(plot_front(COSTS, {})).legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "orth: 1.0 of 2",
        "max: 1.9 of 2",
        "schedule: 1.8 to 1.9 of 2",
    ]


def test_labels_of_the_prices_overlap_neither_each_other_nor_points():
    near = {kappa: rounds(8 + 0.01 * kappa, 0.7 - 0.001 * kappa, FULL) for kappa in (0.0, 1.0, 3.0)}
    costs = {**COSTS, "schedule": {**near, 100.0: rounds(12.0, 0.4, FULL)}}
    drawing = rendered(plot_front(costs, {}))
    axes = drawing.axes[0]
    boxes = [text.get_window_extent() for text in axes.texts if "κ" in text.get_text()]
    assert boxes
    assert "κ = 100" in written(drawing)
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:number])


def test_a_policy_without_cost_and_a_bound_are_drawn():
    costs = {"ideal": {None: rounds(math.nan, math.nan, (1.0, 1.0))}, **COSTS}
    drawing = rendered(plot_front(costs, {0.0: 7.0, 10.0: 12.0}))
    assert is_picture(drawing)
    assert any("excluded" in text for text in written(drawing))
    only = plot_front({"ideal": costs["ideal"]}, {})
    assert is_picture(only)


def test_workers_of_the_timeline_are_counted_from_1_with_powers_in_milliwatts():
    schedule = Schedule(
        durations_s=torch.tensor([2.0, 0.0, 3.0]),
        power=torch.tensor([[0.01, 0.0], [0.01, 0.01], [0.0001, 0.005]]),
    )
    drawing = rendered(plot_timeline(schedule, 0.01, kappa=3.0))
    axes = drawing.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["worker 1", "worker 2"]
    texts = written(drawing)
    assert "Who transmits when? (κ = 3 s/J)" in texts
    assert {"10", "0.1", "5"} <= set(texts)
    assert any("Pmax = 10 dBm" in text for text in texts)
    assert axes.get_xlabel() == "time, s"
    # 20 dB below Pmax is half as high as Pmax.
    heights = sorted(abs(bar.get_height()) for bars in axes.containers for bar in bars.patches)
    assert len(heights) == 3
    assert heights[0] == pytest.approx(heights[-1] / 2)
