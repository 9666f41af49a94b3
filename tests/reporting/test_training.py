"""Plots of training runs."""

from __future__ import annotations

import numpy as np
import pytest

from drawings import is_picture, rendered
from feduplink import Problem, Scenario, make_channels, make_trainer
from feduplink.reporting.training import (
    plot_convergence,
    plot_convergences,
    plot_network_training,
)
from feduplink.training import Epoch, NetworkEpoch

pytestmark = pytest.mark.filterwarnings("error")


def epoch(number: int, **constraints: tuple[float, ...]) -> Epoch:
    return Epoch(number, 0.6, 1.0, 0.0, True, constraints, {})


def epochs(workers: int, count: int = 3) -> list[Epoch]:
    rates = tuple(0.7 + 0.01 * worker for worker in range(workers))
    return [epoch(n, rate=rates, energy_efficiency=rates) for n in range(count)]


def _legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_workers_and_thresholds_are_labelled():
    drawing = rendered(plot_convergence(epochs(8), Problem.from_scenario(Scenario()), "mine"))
    rate = drawing.axes[0]
    assert _legend(rate) == [*(f"worker {number}" for number in range(1, 9)), "≥ 0.7"]
    looks = {(line.get_color(), line.get_linestyle()) for line in rate.lines}
    assert len(looks) == 9  # eight workers and the threshold


def test_many_workers_have_distinct_lines_without_labels():
    problem = Problem.from_scenario(Scenario(workers=20))
    drawing = rendered(plot_convergence(epochs(20), problem, "pdg"))
    rate = drawing.axes[0]
    assert _legend(rate) == ["≥ 0.7"]
    assert len({(line.get_color(), line.get_linestyle()) for line in rate.lines}) == 21


def test_curves_are_running_medians():
    rates = [0.8 + 0.1 * (n == 50) for n in range(200)]
    history = [epoch(n, rate=(r,), energy_efficiency=(60.0,)) for n, r in enumerate(rates)]
    drawing = rendered(plot_convergences({"pdg": [history]}, {}, Scenario(workers=1), "caption"))
    rate = drawing.axes[0]
    np.testing.assert_allclose(rate.lines[0].get_ydata(), 0.8)
    assert rate.get_xlabel() == "epoch (running median of 5)"


def test_a_user_defined_upper_limit_has_its_panel():
    scenario = Scenario(workers=2, constraints="link.own_measures:AveragePower <= 0.005")
    history = [
        epoch(n, rate=(0.7, 0.8), energy_efficiency=(55.0, 60.0), power=(0.004, 0.006))
        for n in range(3)
    ]
    problem = Problem.from_scenario(scenario)
    drawing = rendered(plot_convergence(history, problem, "pdg"))
    rate, _, power, _ = drawing.axes
    assert rate.get_ylabel() == "mean rate on the air (nats/s/Hz)"
    assert power.get_ylabel() == "mean P (W)"
    assert _legend(power) == ["worker 1", "worker 2", "≤ 0.005"]


@pytest.mark.parametrize("rate_min", [0.7, (0.7, 0.6, 0.5)])
def test_the_plot_of_a_training_is_a_picture(default_csi, rate_min):
    scenario = Scenario(workers=3, rate_min=rate_min)
    channels = make_channels(scenario, default_csi[:60, :3, :3])
    trainer = make_trainer("pdg", scenario, channels, epochs=3)
    trainer.run()
    problem = Problem.from_scenario(scenario)
    assert is_picture(plot_convergence(trainer.history, problem, "pdg"))


def test_the_training_of_a_network_is_plotted_by_step():
    history = [NetworkEpoch(n, 100 * (n + 1), {"Lagrangian": float(n)}) for n in range(3)]
    (axes,) = rendered(plot_network_training(history, "pdx")).axes
    (line,) = axes.lines
    assert line.get_xdata().tolist() == [100, 200, 300]
    assert line.get_ydata().tolist() == [0.0, 1.0, 2.0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "Lagrangian")
