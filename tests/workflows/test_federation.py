from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from federated.test_history import FAST, HISTORY, IDEAL, SLOW, run
from feduplink import FederatedComparison, Scenario
from feduplink.federated import FederatedHistory, RunHistory
from feduplink.federated.history import Cost
from feduplink.reporting.federated import plot_error


def curve(runs: list[RunHistory], cost: Cost) -> tuple[np.ndarray, np.ndarray] | None:
    """Abscissae and mean errors of the line of these runs, if there is one."""
    history = FederatedHistory("task", "error", {"p": tuple(runs)})
    lines = plot_error(history, cost, Figure().subplots()).get_lines()
    return (lines[0].get_xdata(), lines[0].get_ydata()) if lines else None


def steps_of_slow(at: np.ndarray) -> np.ndarray:
    return np.select([at < 30 - 1e-9, at < 60 - 1e-9, at < 100 - 1e-9], [0.6, 0.5, 0.4], 0.3)


def test_a_run_that_has_ended_keeps_its_last_error():
    at, error = curve([FAST, SLOW], "airtime_s")
    assert (at[0], at[-1]) == (pytest.approx(10), pytest.approx(100))
    np.testing.assert_allclose(error, (0.2 + steps_of_slow(at)) / 2)


def test_curves_are_steps():
    at, error = curve([SLOW, SLOW], "airtime_s")
    assert (at[0], at[-1]) == (pytest.approx(10), pytest.approx(100))
    np.testing.assert_allclose(error, steps_of_slow(at))


def test_a_silent_first_round_costs_nothing_and_does_not_hide_the_rest():
    at, error = curve([run([0.6, 0.5, 0.4], [0.0, 2.0, 6.0])], "airtime_s")
    assert (at[0], at[-1]) == (pytest.approx(2), pytest.approx(8))
    assert (error[0], error[-1]) == (pytest.approx(0.5), pytest.approx(0.4))
    assert curve([run([0.6, 0.6], [0.0, 0.0])], "airtime_s") is None


def test_two_policies_of_a_kind_have_lines_of_their_own():
    policies = {"pdg": (FAST,), "pdg:runs/b": (SLOW,), "max": (SLOW,)}
    axes = plot_error(FederatedHistory("task", "error", policies), "rounds", Figure().subplots())
    looks = [(line.get_color(), line.get_linestyle()) for line in axes.get_lines()]
    assert len(set(looks)) == 3
    assert looks[0][0] == looks[1][0]


def test_what_has_no_cost_has_no_curve():
    assert curve([IDEAL], "energy_j") is None
    at, error = curve([IDEAL, IDEAL], "rounds")
    assert at.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(error, IDEAL.error)


def test_everything_is_written(tmp_path: Path):
    FederatedComparison(HISTORY, Scenario(), 0.3, {"seed": 4}, ()).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "arrivals.png",
        "arrivals.svg",
        "error.png",
        "error.svg",
        "federated.md",
        "metrics.json",
        "result.safetensors",
    }
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["seed"] == 4
    assert metrics["target_error"] == 0.3
    assert metrics["policies"]["p"]["median_airtime_s_to_target"] == 51.5
    assert metrics["policies"]["p"]["runs"][0]["arrivals"] == [2, 2, 2, 2]


def test_the_table_has_a_row_per_policy():
    lines = HISTORY.table(0.3).markdown().splitlines()
    assert lines[-2].startswith("| p | 0.3888 | 2.00 | 7.00 | 0.550 |")
    assert lines[-1].split("|")[4:6] == [" - ", " - "]
