"""Every experiment from end to end, at a scale of seconds."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from feduplink import InputError
from feduplink.experiments import EXPERIMENTS, ExperimentResult
from feduplink.experiments.context import ExperimentContext

from .tiny import small_experiment

ROUNDS = 3
#: Policies that are compared; the paper's with ideal, in both readings of its baselines; all that
#: are federated: the former with ideal, tdma, ofdma and max; and schedules.
COMPARED, PAPERS, ALL, SCHEDULES = 9, 7, 13, 6
#: What other data than digits are learned with to tell what it costs: policies and schedules.
ON_OTHER_DATA = 5 + 3
#: Rows of the CSV file.
ROWS = {
    "convergence": 2 * 2,
    "interference": (COMPARED + 1) * 2,  # and the optimum
    "pmax": (COMPARED + 1) * 2,
    "network-size": 8 + 7,  # without the readings; pdm at 8 workers only
    "csi-noise": (COMPARED + 2) * 2,  # and pdx:unaware
    "power-histogram": COMPARED,
    "arrivals": COMPARED + 1,
    "airquality": (COMPARED + 1 + PAPERS) * 2 * ROUNDS,
    "imdb": (PAPERS + 1 + 5) * ROUNDS,
    "mnist": (COMPARED + 1 + PAPERS) * 2 * ROUNDS,
    "noniid-data": 8,
    "noniid": 2 * (COMPARED + 1 + PAPERS) * ROUNDS,
    "optimality-gap": 2 * (COMPARED + 1),
    "time-energy": (ALL + SCHEDULES) * (2 + 1 + 1) * ROUNDS,
    "time-energy-airquality": ON_OTHER_DATA * 2 * ROUNDS,
    "time-energy-imdb": ON_OTHER_DATA * ROUNDS,
    "aggregation": 2 * PAPERS * 2 * ROUNDS,
}
#: The paper's values are asked only of full runs.
CLAIMS = {
    "convergence": 1,
    "interference": 2 + 2 * 2 + 1,
    "pmax": 2 + 2 * 2 + 1 + 1,
    "network-size": 2,
    "csi-noise": 2 + 2,
    "power-histogram": 2,
    "arrivals": 2 * 2,
    "airquality": 2 * 2 * 3,
    "imdb": (2 + 1) * 3,  # the published average in one reading
    "mnist": 2 * 2 * 3,
    "noniid-data": 0,
    "noniid": 2 * 2 * 2 * 3,
    "optimality-gap": 3,
    "time-energy": 3 + 3 * 4,
    "time-energy-airquality": 4,
    "time-energy-imdb": 4,
    "aggregation": 1,
}
#: Whose code is that of other figures, with other values.
LIKE_ANOTHER = ("pmax", "noniid", "mnist", "time-energy-imdb")
NEED_DATA = ("airquality", "imdb", "time-energy-airquality", "time-energy-imdb")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in LIKE_ANOTHER else []) for n in EXPERIMENTS],
)
def test_an_experiment_runs_is_judged_saved_and_loaded(
    name: str, context: ExperimentContext, tmp_path: Path, request: pytest.FixtureRequest
):
    if name in NEED_DATA:
        context = dataclasses.replace(context, data=request.getfixturevalue("real_data"))
    experiment = small_experiment(name)
    assert experiment.name == name
    result = experiment.run(context).rounded()
    assert isinstance(result, experiment.result_type)
    claims = experiment.claims(result)
    assert len(claims) == CLAIMS[name]

    experiment.save(result, tmp_path)
    again = experiment.load(tmp_path)
    assert again.model_dump_json() == result.model_dump_json()
    assert again.to_csv() == result.to_csv()
    assert experiment.claims(again) == claims

    with (tmp_path / f"{name}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert len(rows) == ROWS[name]
    assert all(len(row) == len(header) for row in rows)
    assert (tmp_path / f"{name}.svg").exists()
    with Image.open(tmp_path / f"{name}.png") as image:
        assert image.width > 500


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_declares_its_attributes(name: str):
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert experiment.title
    assert experiment.caption
    assert experiment.version >= 1
    assert experiment.data in (None, "mnist", "airquality", "imdb")
    assert issubclass(experiment.result_type, ExperimentResult)


@pytest.mark.parametrize("name", NEED_DATA)
def test_an_experiment_without_its_data_is_refused(name: str, context: ExperimentContext):
    with pytest.raises(InputError, match=f"'{EXPERIMENTS[name].data}' is not in"):
        EXPERIMENTS[name].run(context)


def test_an_unknown_name_is_no_experiment():
    with pytest.raises(KeyError):
        EXPERIMENTS["figure-7"]


class Measured(ExperimentResult):
    values: list[float | None]
    count: int = 3

    def rows(self) -> Iterator[dict[str, object]]:
        for value in self.values:
            yield {"count": self.count, "value, 1": value}


def test_csv_has_six_digits_and_empty_cells():
    result = Measured(values=[2 / 3, None, math.inf, 12345678.0])
    assert result.to_csv() == 'count,"value, 1"\n3,0.666667\n3,\n3,inf\n3,1.23457e+07\n'


def test_a_rounded_result_has_the_same_csv_and_six_digits():
    result = Measured(values=[2 / 3, None, -math.inf, 1.23456789e-7, 2.0])
    rounded = result.rounded()
    assert rounded.values == [0.666667, None, -math.inf, 1.23457e-07, 2.0]
    assert rounded.to_csv() == result.to_csv()
    assert rounded.rounded() == rounded
    undefined = Measured(values=[math.nan]).rounded().values[0]
    assert undefined is not None
    assert math.isnan(undefined)
