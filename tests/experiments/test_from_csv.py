"""What a CSV file holds is enough for the claims, and no digit of it is lost."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from feduplink import InputError
from feduplink.experiments import EXPERIMENTS, claims_from_csv, experiment_files
from feduplink.experiments.arrivals import Arrivals
from feduplink.experiments.cell_sweep import Sweep
from feduplink.experiments.compared_policies import COMPARED
from feduplink.experiments.compared_schedules import SCHEDULES
from feduplink.experiments.convergence import Convergence
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import Federations
from feduplink.experiments.judged_settings import Figures
from feduplink.experiments.noniid_data import NoniidData
from feduplink.experiments.optimality_gap import OptimalityGap
from feduplink.experiments.power_histogram import PowerHistogram
from feduplink.experiments.scale import FULL
from feduplink.federated import FederatedHistory, RunHistory
from feduplink.reporting.style import StyledFigure
from feduplink.training import Epoch

RNG = np.random.default_rng(0)
SEEDS = 3


def six(value: float) -> float:
    return float(f"{value:.6g}")


def figures() -> Figures:
    """With more digits than a CSV file has; by name, whichever there are."""
    special = {"feasible": [True, False, None][RNG.integers(3)], "shortfall_error": None}
    drawn = {name: float(RNG.random()) for name in Figures.model_fields}
    return Figures.model_validate({**drawn, **special})


def sweep(values: list[float], *, pdm_at: int | None = None) -> Sweep:
    """Of all policies; pdm at one value alone if given."""
    return Sweep(
        parameter="workers",
        values=values,
        logarithmic=False,
        policies={
            name: [
                [figures() for _ in range(SEEDS)]
                if name != "pdm" or pdm_at in (None, place)
                else []
                for place in range(len(values))
            ]
            for name in (*COMPARED, "optimum")
        },
    )


def run_history(*, ideal: bool) -> RunHistory:
    costs = (None,) * 12 if ideal else tuple(RNG.random(12).tolist())
    counts = tuple(RNG.integers(0, 9, 12).tolist())
    return RunHistory(tuple(RNG.random(12).tolist()), counts, counts, costs, costs, ())


def history() -> FederatedHistory:
    names = ("ideal", "max", "tdma", "ofdma", *COMPARED, *SCHEDULES)
    return FederatedHistory(
        "mnist",
        "error",
        {name: tuple(run_history(ideal=name == "ideal") for _ in range(SEEDS)) for name in names},
    )


def epochs(count: int) -> list[Epoch]:
    return [Epoch(n, *RNG.random(3).tolist(), None, {}, {}) for n in range(count)]


RESULTS = {
    "interference": sweep([1.0, 2.0, 4.0, 8.0]),
    "network-size": sweep([6.0, 8.0, 16.0, 24.0, 32.0], pdm_at=1),
    "csi-noise": sweep([10.0**n for n in range(7)]),
    "mnist": Federations(comparisons={"exact average": history(), "published average": history()}),
    "time-energy": Federations(
        comparisons={"alike": history(), "noisy": history(), "skewed labels": history()}
    ),
    "arrivals": Arrivals(
        arrivals={
            name: [sorted(RNG.integers(0, 9, 50).tolist()) for _ in range(SEEDS)]
            for name in ("ideal", *COMPARED)
        }
    ),
    "convergence": Convergence(
        histories={name: [epochs(5) for _ in range(SEEDS)] for name in ("pdg", "pdm")}, others={}
    ),
    "optimality-gap": OptimalityGap(
        scenarios=["b", "a"],
        sweep=sweep([0.0, 1.0]).model_copy(update={"parameter": "setting"}),
        optimum=RNG.random(2).tolist(),
        upper_bound=RNG.random(2).tolist(),
    ),
    "power-histogram": PowerHistogram.from_powers(
        8, {n: (RNG.random(80) / 100).tolist() for n in COMPARED}
    ),
    "noniid-data": NoniidData(
        noise=RNG.random(2).tolist(),
        weights=RNG.random(2).tolist(),
        digits=[],
        labels=RNG.integers(0, 99, (2, 10)).tolist(),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_csv_and_back(name: str):
    result = RESULTS[name]
    text = result.to_csv()
    again = type(result).from_csv(text)
    assert again.to_csv() == text
    judged = claims_from_csv(EXPERIMENTS[name], text)
    assert [claim.claim for claim in judged] == [
        claim.claim for claim in EXPERIMENTS[name].claims(result)
    ]


@pytest.mark.parametrize("name", RESULTS)
def test_no_cell_has_more_than_six_digits(name: str):
    _header, *rows = csv.reader(RESULTS[name].to_csv().splitlines())
    numbers = [cell for row in rows for cell in row if cell.replace(".", "").isdigit()]
    assert numbers
    assert [n for n in numbers if len(n.replace(".", "").lstrip("0")) > 6] == []


def test_a_sweep_comes_back_to_six_digits():
    wanted, again = RESULTS["network-size"], Sweep.from_csv(RESULTS["network-size"].to_csv())
    assert isinstance(wanted, Sweep)
    assert (again.parameter, again.values) == (wanted.parameter, wanted.values)
    for name, rows in wanted.policies.items():
        rounded = [
            [
                Figures.model_validate(
                    {f: six(v) if isinstance(v, float) else v for f, v in one.model_dump().items()}
                )
                for one in row
            ]
            for row in rows
        ]
        assert again.policies[name] == rounded


def test_federations_come_back_to_six_digits():
    wanted, again = RESULTS["mnist"], Federations.from_csv(RESULTS["mnist"].to_csv())
    assert isinstance(wanted, Federations)
    assert list(again.comparisons) == list(wanted.comparisons)
    before, after = (one.comparisons["published average"] for one in (wanted, again))
    assert (after.task, list(after.policies)) == (before.task, list(before.policies))
    for name, runs in before.policies.items():
        for one, other in zip(runs, after.policies[name], strict=True):
            assert other.error == tuple(map(six, one.error))
            assert other.arrivals == one.arrivals
            assert other.energy_j == tuple(v if v is None else six(v) for v in one.energy_j)


def test_a_model_that_diverged_comes_back():
    run = RunHistory((math.inf, math.nan), (1, 2), (1, 2), (None, None), (None, None), ())
    result = Federations(comparisons={"a, b": FederatedHistory("t", "error", {"rand": (run,)})})
    (again,) = Federations.from_csv(result.to_csv()).comparisons["a, b"].policies["rand"]
    assert again.error[0] == math.inf
    assert math.isnan(again.error[1])


def test_the_smallest_violation_is_one():
    history = [Epoch(0, 0.5, 1.0, 4e-9, None, {}, {})]
    result = Convergence(histories={"pdg": [history]}, others={})
    (epoch,) = Convergence.from_csv(result.to_csv()).histories["pdg"][0]
    assert not epoch.met


def test_claims_of_a_run_rest_on_its_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawing = StyledFigure(1, 1)
    drawing.subplots()
    monkeypatch.setitem(experiment_files.DRAWINGS, "interference", lambda *_: drawing)
    result, context = RESULTS["interference"], ExperimentContext(tmp_path, FULL)
    experiment = EXPERIMENTS["interference"]
    claims = experiment_files.write_experiment(
        tmp_path, "interference", experiment, result, context, 1.0
    )
    assert claims == claims_from_csv(experiment, (tmp_path / "interference.csv").read_text())


def test_an_older_file_is_refused():
    with pytest.raises(InputError, match="CSV: column 'run' is missing"):
        Arrivals.from_csv("policy,least,mean\npdg,1,2\n")
    with pytest.raises(InputError, match="CSV: has no rows"):
        Arrivals.from_csv("policy,run,rounds_with_0\n")
