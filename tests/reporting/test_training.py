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
from feduplink.units import set_units

pytestmark = pytest.mark.filterwarnings("error")


def epoch(number: int, **constraints: tuple[float, ...]) -> Epoch:
    return Epoch(number, 0.6, 1.0, 0.0, True, constraints, {})


def epochs(workers: int, count: int = 3) -> list[Epoch]:
    rates = tuple(0.7 + 0.01 * worker for worker in range(workers))
    return [epoch(n, rate=rates, energy_efficiency=rates) for n in range(count)]


def _legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


REACHED = {"rate": (0.7,), "energy_efficiency": (60.0,)}


def _lines(axes, label: str) -> np.ndarray:
    (line,) = [line for line in axes.lines if line.get_label().startswith(label)]
    return np.asarray(line.get_ydata(), float)


def test_a_constraint_has_its_worst_worker_the_band_of_all_and_its_threshold():
    history = [
        epoch(0, rate=(0.6, 0.9, 0.8), energy_efficiency=(55.0, 60.0, 70.0)),
        epoch(1, rate=(0.8, 0.9, 0.7), energy_efficiency=(55.0, 60.0, 50.0)),
    ]
    problem = Problem.from_scenario(Scenario(workers=3))
    drawing = rendered(plot_convergence(history, problem, "mine", bandwidth_hz=180e3))
    rate, efficiency, _ = drawing.axes
    bits = 1 / np.log(2)
    np.testing.assert_allclose(_lines(rate, "worst worker"), np.array([0.6, 0.7]) * bits)
    (band,) = rate.collections
    outline = band.get_paths()[0].vertices[:, 1]
    assert (outline.min(), outline.max()) == pytest.approx((0.6 * bits, 0.9 * bits))
    assert _legend(rate) == ["worst worker (in the end: 3)", "all workers", "threshold ≥ 1.01"]
    assert rate.get_ylabel() == "mean rate, active (bit/s/Hz)"
    assert _legend(efficiency)[-1] == "threshold ≥ 14.3"
    assert efficiency.get_ylabel() == "mean EE, active (Mbit/J)"


def test_units_of_the_paper_are_shown_on_request():
    set_units("nats")
    try:
        drawing = plot_convergence(epochs(8), Problem.from_scenario(Scenario()), "mine", 180e3)
    finally:
        set_units("engineering")
    rate, efficiency, _ = rendered(drawing).axes
    assert (rate.get_ylabel(), efficiency.get_ylabel()) == (
        "mean rate, active (nats/s/Hz)",
        "mean EE, active (nats/s/Hz/W)",
    )
    assert _legend(rate)[-1] == "threshold ≥ 0.7"


def test_thresholds_that_differ_are_all_at_1():
    problem = Problem.from_scenario(Scenario(workers=2, rate_min=(0.5, 1.0)))
    history = [epoch(n, rate=(0.6, 0.9), energy_efficiency=(55.0, 60.0)) for n in range(2)]
    rate = rendered(plot_convergence(history, problem, "mine")).axes[0]
    np.testing.assert_allclose(_lines(rate, "worst worker"), 0.9)  # worker 2
    np.testing.assert_allclose(_lines(rate, "threshold"), 1.0)
    assert rate.get_ylabel() == "mean rate, active (relative to threshold)"


def test_curves_are_running_medians():
    rates = [0.8 + 0.1 * (n == 50) for n in range(200)]
    history = [epoch(n, rate=(r,), energy_efficiency=(60.0,)) for n, r in enumerate(rates)]
    drawing = rendered(plot_convergences({"pdg": [history]}, {}, Scenario(workers=1), "caption"))
    rate = drawing.axes[0]
    np.testing.assert_allclose(rate.lines[0].get_ydata(), 0.8 / np.log(2))
    assert rate.get_xlabel() == "epoch (running median of 5)"


@pytest.mark.parametrize("met", [True, False])
def test_the_chosen_epoch_and_its_constraints_are_explained(met: bool):
    history = [Epoch(n, 0.6 + 0.1 * n, 1.0, float(not met), met, REACHED, {}) for n in range(3)]
    problem = Problem.from_scenario(Scenario(workers=1))
    drawing = rendered(plot_convergence(history, problem, "mine"))
    *_, objective = drawing.axes
    chosen, *others = _legend(objective)
    assert chosen == (
        "chosen: epoch 3, objective 0.8000\n(all constraints met)"
        if met
        else "chosen: epoch 1, objective 0.6000\n(least violation)"
    )
    assert others == ["all constraints met"] * met  # no entry for a line that is not drawn
    assert len(objective.get_yticks()) >= 3


def test_an_upper_limit_has_the_largest_as_its_worst_worker():
    scenario = Scenario(workers=2, constraints="link.own_measures:AveragePower <= 0.005")
    history = [
        epoch(n, rate=(0.7, 0.8), energy_efficiency=(55.0, 60.0), power=(0.004, 0.006))
        for n in range(3)
    ]
    problem = Problem.from_scenario(scenario)
    drawing = rendered(plot_convergence(history, problem, "pdg"))
    _, _, power, _ = drawing.axes
    assert power.get_ylabel() == "mean P (W)"
    assert _legend(power)[0] == "worst worker (in the end: 2)"
    assert _legend(power)[-1] == "threshold ≤ 0.005"
    np.testing.assert_allclose(_lines(power, "worst worker"), 0.006)


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
