"""Plots of federated histories."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from drawings import rendered, written
from experiments.made import federated, history
from feduplink import (
    Scenario,
)
from feduplink.experiments.noniid import NoniidErrors
from feduplink.federated import FederatedHistory
from feduplink.reporting.federated import (
    plot_arrivals,
    plot_averages,
    plot_costs,
    plot_delivery,
)
from feduplink.reporting.style import StyledFigure, save_figure
from feduplink.reporting.training import plot_convergences
from feduplink.training import Epoch

pytestmark = pytest.mark.filterwarnings("error")


def test_arrivals_are_labelled_with_means():
    drawing = rendered(plot_arrivals({"pdg": [[8, 8, 7]], "tdma": [[1, 2]]}))
    texts = written(drawing)
    assert {"7.67\npdg", "1.50\ntdma"} <= set(texts)
    assert not any("standard error" in text for text in texts)


def test_arrivals_of_several_runs_have_intervals():
    drawing = rendered(plot_arrivals({"pdg": [[8, 8], [6, 6]]}))
    assert any("standard error" in text for text in written(drawing))
    (intervals,) = drawing.axes[0].collections
    low, high = intervals.get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((6, 8))  # 7 ± √2 / √2


def delivered(**rounds: list[tuple[bool, ...]]) -> FederatedHistory:
    """A run per policy, with the workers whose model arrived in every round."""
    runs = history(dict.fromkeys(rounds, 0.1)).policies
    return FederatedHistory(
        "digits",
        "error rate",
        {name: (dataclasses.replace(runs[name][0], arrived=tuple(rounds[name])),) for name in runs},
    )


def test_delivery_is_a_share_per_worker_counted_from_1():
    made = delivered(
        max=[(True, True, False), (True, False, False), (True, True, False), (True, True, True)],
        tdma=[(True, True, True)] * 4,
    )
    (axes,) = rendered(plot_delivery(made)).axes
    numbers = {text.get_position(): text.get_text() for text in axes.texts}
    shares = [numbers[(worker, 0)] for worker in (1, 2, 3)]
    assert shares == ["100", "75", "25"]
    assert [numbers[(worker, 1)] for worker in (1, 2, 3)] == ["100"] * 3
    assert {"2.00", "3.00"} <= set(numbers.values())  # models per round
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["max", "tdma"]


def test_the_worker_with_the_least_delivery_is_framed():
    made = delivered(max=[(True, False, True)], tdma=[(True, True, True)])
    (axes,) = rendered(plot_delivery(made)).axes
    frames = {(min(line.get_xdata()), min(line.get_ydata())) for line in axes.lines}
    assert frames == {(1.5, -0.5)}  # of worker 2 in the first row, none where all are equal


def test_cells_of_many_workers_have_a_scale_instead_of_numbers():
    made = delivered(max=[(True,) * 30 + (False,)])
    drawing = rendered(plot_delivery(made))
    assert len(drawing.axes) == 2  # the cells and their scale
    assert "100" not in [text.get_text() for text in drawing.axes[0].texts]


def test_the_target_is_a_line_in_every_panel():
    made = history({"max": (0.4, 0.2, 0.1)}, {"max": (2.0, 3.0)})
    drawing = rendered(plot_costs({"digits": made}, target=0.25))
    for axes in drawing.axes:
        (line,) = [line for line in axes.lines if line.get_label() == "target 0.25"]
        assert set(line.get_ydata()) == {0.25}
    (legend,) = drawing.legends
    assert "target 0.25" in [text.get_text() for text in legend.get_texts()]


def test_curves_over_costs_are_steps_with_the_range_of_the_runs():
    first = history({"max": (0.4, 0.2)}, {"max": (2.0, 3.0)}).policies["max"][0]
    second = dataclasses.replace(first, error=(0.6, 0.3))
    made = FederatedHistory("digits", "error rate", {"max": (first, first, second)})
    drawing = rendered(plot_costs({"digits": made}))
    rounds, seconds, _ = drawing.axes
    assert seconds.lines[0].get_drawstyle() == "steps-post"
    assert rounds.lines[0].get_ydata().tolist() == [0.4, 0.2]  # the median
    (band,) = rounds.collections
    (outline,) = band.get_paths()
    assert outline.vertices[:, 1].max() == 0.6
    (legend,) = drawing.legends
    assert legend.get_title().get_text() == "median of 3 runs; shaded: least to largest"


def test_a_policy_without_cost_is_named_as_such():
    made = history({"ideal": 0.1, "max": (0.4, 0.2, 0.1)}, {"max": (2.0, 3.0)})
    (legend,) = rendered(plot_costs({"digits": made})).legends
    assert [text.get_text() for text in legend.get_texts()] == ["ideal (no cost)", "max"]


def test_coinciding_policies_have_marks_at_different_rounds():
    names = ("ideal", "pdm", "pdg", "dual", "pdx")
    made = history(dict.fromkeys(names, 0.1), rounds=50)
    drawing = rendered(plot_averages({"exact average": made}, "caption"))
    lines = [line for line in drawing.axes[0].lines if line.get_label() in names]
    firsts = [line.get_markevery()[0] for line in lines]
    assert len(lines) == len(set(firsts)) == len(names)


def test_final_errors_are_compared_with_ideal_run_by_run():
    made = history({"ideal": 0.1, "pdg": 0.1})
    ideal = made.policies["ideal"][0]
    errors = (0.2, 0.3), (0.21, 0.33)  # differences of 0.01 and 0.03
    policies = {
        name: tuple(dataclasses.replace(ideal, error=(error,) * 3) for error in finals)
        for name, finals in zip(("ideal", "pdg"), errors, strict=True)
    }
    both = FederatedHistory("digits", "error rate", policies)
    drawing = rendered(plot_averages({"exact average": both}, "caption"))
    assert "0.27  +0.02 ± 0.01" in written(drawing)


def test_the_error_axis_names_policies_beyond_it():
    made = federated(a={"ideal": 0.02, "rand": 0.9, "pdg": 0.8, "orth": math.inf})
    drawing = rendered(plot_averages(made.comparisons, "caption"))
    curves = drawing.axes[0]
    assert 0.8 < curves.get_ylim()[1] < 2
    assert curves.get_xlabel() == "rounds\nabove the axis: orth"
    assert "diverged" in written(drawing)


def test_an_error_of_zero_is_on_the_axis():
    drawing = rendered(plot_costs({"digits": history({"ideal": 0.0, "pdg": 0.2})}))
    low, high = drawing.axes[0].get_ylim()
    assert low < 0
    assert high > 0.2
    assert drawing.axes[0].get_yscale() == "symlog"


@pytest.mark.parametrize("error", [0.0, math.nan, math.inf])
def test_errors_of_zero_and_infinity_leave_the_axes_finite(error: float):
    made = federated(a={"ideal": error, "mine": error})
    for drawing in (
        rendered(plot_costs(made.comparisons)),
        rendered(plot_averages(made.comparisons, "caption")),
    ):
        assert {"ideal", "mine"} <= {line.get_label() for line in drawing.axes[0].lines}
        assert all(math.isfinite(limit) for axes in drawing.axes for limit in axes.get_ylim())


def test_a_single_run_has_no_standard_error():
    made = history({"mine": 0.2, "rand:unselected": 0.3})
    single = FederatedHistory("digits", "e", {name: r[:1] for name, r in made.policies.items()})
    drawing = rendered(plot_costs({"a": single}))
    second = rendered(plot_averages({"a": single}, "caption"))
    rendered(NoniidErrors().plot(federated(a={"ideal": 0.1}), "caption"))
    assert not any("standard error" in text for text in written(drawing))
    assert any("less that of mine" in text for text in written(second))


def test_costs_have_a_row_per_comparison_and_no_curve_without_cost():
    made = history({"ideal": (0.4, 0.2, 0.1), "max": (0.5, 0.4, 0.3)}, {"max": (2.0, 3.0)})
    drawing = rendered(plot_costs({"alike": made, "noisy": made}))
    axes = drawing.axes
    assert len(axes) == 2 * 3
    assert [axes[row].get_ylabel() for row in (0, 3)] == [
        "error rate, data alike",
        "error rate, data noisy",
    ]
    for rounds, seconds, joules in (axes[:3], axes[3:]):
        assert [line.get_label() for line in rounds.lines] == ["ideal", "max"]
        for panel, cost in ((seconds, 2.0), (joules, 3.0)):
            (line,) = panel.lines
            assert line.get_label() == "max"
            at = line.get_xdata()
            assert (at[0], at[-1]) == (pytest.approx(cost), pytest.approx(3 * cost))


def test_a_single_comparison_needs_no_label():
    drawing = rendered(plot_costs({"alike": history({"ideal": 0.1})}))
    assert drawing.axes[0].get_ylabel() == "error rate"
    assert "no curve" in written(drawing)  # of seconds and joules


CAPTION = "A caption"


REACHED = {"rate": (1.0, math.nan), "energy_efficiency": (60.0, 70.0)}


EPOCHS = [Epoch(n, 0.5, 0.5, n % 2, n == 0, REACHED, {}) for n in range(3)]


HISTORIES = {"pdg": [EPOCHS, EPOCHS], "pdm": [EPOCHS]}


#: Models that diverge, and without error.
FEDERATIONS = federated(
    exact_average={"ideal": 0.1, "rand": math.nan, "orth": 0.3},
    published_average={"ideal": 0.0, "rand": math.inf},
)


COSTS = history({"ideal": 0.1, "max": 0.2, "orth": 0.3}, {"max": (9.0, 1.0), "orth": (0.0, 2.0)})


FIGURES: dict[str, Callable[[], StyledFigure]] = {
    "convergences": lambda: plot_convergences(
        HISTORIES, {"optimum": 0.7}, Scenario(workers=2), CAPTION
    ),
    "averages": lambda: plot_averages(FEDERATIONS.comparisons, CAPTION),
    "costs": lambda: plot_costs({"alike": COSTS, "noisy": COSTS}, CAPTION),
    "arrivals": lambda: plot_arrivals({"pdg": [[1, 5], [2]], "rand:a": [[0]]}, CAPTION),
    "delivery": lambda: plot_delivery(delivered(max=[(True, False)]), CAPTION),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_saved_as_png_and_svg_with_their_caption(name: str, tmp_path: Path):
    save_figure(tmp_path / "figure.png", FIGURES[name]())
    assert {path.name for path in tmp_path.iterdir()} == {"figure.png", "figure.svg"}
    with Image.open(tmp_path / "figure.png") as image:
        assert image.info["Title"] == CAPTION
        colours = image.convert("RGB").getcolors(maxcolors=1 << 24)
        # More than shades of grey.
        assert any(max(colour) - min(colour) > 60 for _, colour in colours or [])
    assert f"<title>{CAPTION}</title>" in (tmp_path / "figure.svg").read_text()
