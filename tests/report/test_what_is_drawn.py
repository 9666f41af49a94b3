"""What a reader of a figure relies on: what is written in it, and what is there to be seen."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from experiments.made import federated, history, outcome, sweep
from feduplink import FullPower, Orthogonal, Problem, Scenario, evaluate
from feduplink.experiments.noniid import NoniidErrors
from feduplink.experiments.parameter_sweeps import plot_sweep
from feduplink.federated import FederatedHistory
from feduplink.optimum import find_optimum
from feduplink.reporting.comparison import plot_comparison, plot_power_histogram
from feduplink.reporting.federated import plot_arrivals, plot_averages, plot_costs
from feduplink.reporting.training import plot_convergence, plot_convergences
from feduplink.training import Epoch

from .conftest import rendered, written

pytestmark = pytest.mark.filterwarnings("error")

PMAX_W = Scenario().pmax_w


def _epoch(number: int, **constraints: tuple[float, ...]) -> Epoch:
    return Epoch(number, 0.6, 1.0, 0.0, True, constraints, {})


def _epochs(workers: int, count: int = 3) -> list[Epoch]:
    rates = tuple(0.7 + 0.01 * worker for worker in range(workers))
    return [_epoch(n, rate=rates, energy_efficiency=rates) for n in range(count)]


def test_powers_in_milliwatts_with_the_shares_of_silence_and_full_power():
    power = torch.tensor([[0.0, PMAX_W], [0.51 * PMAX_W, PMAX_W]])
    drawing = rendered(plot_power_histogram({"mine": power}, Scenario()))
    texts = written(drawing)
    assert "mine: silent 25 %, at Pmax 50 %" in texts
    assert any("mW" in text and "Pmax = 10 mW" in text for text in texts)
    linear = drawing.axes[0]
    bars = {round(bar.get_x(), 6): bar.get_height() for bar in linear.patches if bar.get_height()}
    assert bars == {5.0: 0.25, 9.75: 0.5}  # mW; nothing for the silent worker


def test_a_bar_that_hides_the_others_is_cut_and_its_share_written():
    power = torch.full((100, 1), PMAX_W)
    power[:9, 0] = torch.linspace(0.1, 0.5, 9) * PMAX_W
    drawing = rendered(plot_power_histogram({"pdx": power}, Scenario()))
    assert "91 %" in written(drawing)
    assert drawing.axes[0].get_ylim()[1] < 0.1


def test_arrivals_have_means():
    drawing = rendered(plot_arrivals({"pdg": [[8, 8, 7]], "tdma": [[1, 2]]}))
    texts = written(drawing)
    assert {"7.67", "1.50"} <= set(texts)
    assert not any("standard error" in text for text in texts)


def test_arrivals_of_several_runs_have_intervals():
    drawing = rendered(plot_arrivals({"pdg": [[8, 8], [6, 6]]}))
    assert any("standard error" in text for text in written(drawing))
    (interval,) = drawing.axes[0].collections
    low, high = interval.get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((6, 8))  # 7 ± √2 / √2


def test_policies_that_coincide_have_marks_at_different_rounds():
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
    assert "0.2700  +0.020 ± 0.010" in written(drawing)


def test_the_axis_begins_with_the_first_errors_and_says_who_leaves_it():
    made = federated(a={"ideal": 0.001, "rand": 0.9, "pdg": 0.8, "orth": math.inf})
    drawing = rendered(plot_averages(made.comparisons, "caption"))
    curves = drawing.axes[0]
    assert 0.8 < curves.get_ylim()[1] < 2
    (note,) = [text for text in written(drawing) if text.startswith("mean above the axis")]
    assert "orth from round 1" in note
    assert "rand" not in note
    assert "diverged" in written(drawing)


def test_an_error_of_zero_is_on_the_axis():
    drawing = rendered(plot_costs({"digits": history({"ideal": 0.0, "pdg": 0.2})}))
    low, high = drawing.axes[0].get_ylim()
    assert low < 0
    assert high > 0.2
    assert drawing.axes[0].get_yscale() == "symlog"


@pytest.mark.parametrize("error", [0.0, math.nan, math.inf])
def test_a_federation_without_a_usable_error(error: float):
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


def test_workers_and_thresholds_are_named():
    drawing = rendered(plot_convergence(_epochs(8), Problem.from_scenario(Scenario()), "mine"))
    rate = drawing.axes[0]
    names = [text.get_text() for text in rate.texts]
    assert {*map(str, range(1, 9)), "≥ 0.7"} == set(names)
    looks = {(line.get_color(), line.get_linestyle()) for line in rate.lines}
    assert len(looks) == 9  # eight workers and the threshold


def test_many_workers_have_looks_but_no_names():
    problem = Problem.from_scenario(Scenario(workers=20))
    drawing = rendered(plot_convergence(_epochs(20), problem, "pdg"))
    rate = drawing.axes[0]
    assert [text.get_text() for text in rate.texts] == ["≥ 0.7"]
    assert len({(line.get_color(), line.get_linestyle()) for line in rate.lines}) == 21


def test_noise_from_epoch_to_epoch_is_smoothed():
    rates = [0.8 + 0.1 * (n == 50) for n in range(200)]
    history = [_epoch(n, rate=(r,), energy_efficiency=(60.0,)) for n, r in enumerate(rates)]
    drawing = rendered(plot_convergences({"pdg": [history]}, {}, Scenario(workers=1), "caption"))
    rate = drawing.axes[0]
    np.testing.assert_allclose(rate.lines[0].get_ydata(), 0.8)
    assert rate.get_xlabel() == "epoch (running median of 5)"


def test_objectives_are_written_and_ratios_off_the_axis_explained(default_csi, default_scenario):
    outcome = evaluate(
        default_scenario, {"orth": Orthogonal(default_scenario)}, channels=default_csi
    )
    made = outcome["orth"].judgement
    judgements = {
        "orth": made,
        "openloop": dataclasses.replace(made, objective=0.9706, feasible=False),
        "pdx": dataclasses.replace(made, objective=0.9761),
    }
    drawing = rendered(plot_comparison(judgements))
    texts = written(drawing)
    assert {"0.9706", "0.9761"} <= set(texts)
    assert any("→" in text for text in texts)
    assert any("arrow: beyond the axis" in text and "hollow" in text for text in texts)


def test_every_constraint_has_a_panel_with_its_limit(default_csi):
    """Full power is 10 mW on average, twice what it may be."""
    scenario = Scenario(constraints="link.own_measures:AveragePower <= 0.005")
    outcomes = evaluate(scenario, {"max": FullPower(scenario)}, channels=default_csi)
    drawing = rendered(plot_comparison({"max": outcomes["max"].judgement}))
    labels = [axes.get_xlabel() for axes in drawing.axes]
    assert labels[2:] == [
        "worst worker's\nrate / threshold",
        "worst worker's\nEE / threshold",
        "worst worker's\nP / limit",
    ]
    assert "2.0 →" in written(drawing)


def test_an_upper_limit_of_ones_own_is_drawn_as_such():
    scenario = Scenario(workers=2, constraints="link.own_measures:AveragePower <= 0.005")
    history = [
        _epoch(n, rate=(0.7, 0.8), energy_efficiency=(55.0, 60.0), power=(0.004, 0.006))
        for n in range(3)
    ]
    problem = Problem.from_scenario(scenario)
    drawing = rendered(plot_convergence(history, problem, "pdg"))
    rate, _, power, _ = drawing.axes
    assert rate.get_ylabel() == "mean rate on the air (nats/s/Hz)"
    assert power.get_ylabel() == "mean P (W)"
    assert {text.get_text() for text in power.texts} == {"1", "2", "≤ 0.005"}


def test_marks_of_equal_policies_stand_side_by_side():
    made = sweep(pdg=[(0.6, 0.2), (0.5, 0.3)], pdx=[(0.6, 0.2), (0.5, 0.3)])
    drawing = rendered(plot_sweep(made))
    per = drawing.axes[0]
    marks = [line for line in per.lines if len(line.get_xdata()) == 1]
    places = [line.get_transform().transform(line.get_xydata()[0]) for line in marks]
    assert len(marks) == 4
    assert len({round(x) for x, _ in places}) == 4
    low, high = per.get_ylim()
    assert low < 0.2
    assert high > 0.3


def test_marks_of_a_sweep_tell_met_missed_and_open_over_the_seeds():
    made = sweep(pdg=[(0.6, 0.2)] * 3)
    for place, verdicts in enumerate([(True, True), (True, False), (True, None)]):
        made.policies["pdg"][place] = [outcome(0.6, 0.2, feasible=one) for one in verdicts]
    drawing = rendered(plot_sweep(made))
    marks = [line for line in drawing.axes[0].lines if len(line.get_xdata()) == 1]
    colour = marks[0].get_color()
    assert [(mark.get_markerfacecolor(), mark.get_fillstyle()) for mark in marks] == [
        (colour, "full"),
        ("white", "full"),
        (colour, "left"),
    ]
    (note,) = [text for text in written(drawing) if "side by side" in text]
    assert "hollow" in note
    assert "half-filled" in note


def test_the_optimum_meets_the_constraints_of_its_channels(default_csi, default_scenario):
    """As its table says, although so few channels cannot tell whether a policy does."""
    csi = default_csi[:20]
    outcomes = evaluate(default_scenario, {"max": FullPower(default_scenario)}, channels=csi)
    optimum = find_optimum(default_scenario, csi, max_boxes=0)
    assert optimum.solution.judgement.feasible is None
    drawing = rendered(plot_comparison(outcomes.judgements, optimum))
    mark = drawing.axes[0].lines[-1]
    assert mark.get_fillstyle() == "full"
    assert mark.get_markerfacecolor() != "white"


def test_costs_have_a_row_per_comparison_and_no_curve_where_nothing_costs():
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


def test_a_sweep_of_one_value():
    drawing = rendered(plot_sweep(sweep(pdg=[(0.6, None)], mine=[(0.0, 0.3)])))
    heights = [float(y) for line in drawing.axes[0].lines for y in line.get_ydata()]
    assert {height for height in heights if math.isfinite(height)} == {0.3}  # pdg has none
