from __future__ import annotations

import csv
import math
from pathlib import Path

from feduplink.experiments.convergence import Convergence, ConvergenceResult
from feduplink.training import Epoch

from .made import FAILS, HOLDS, IN_PART, assert_drawn, verdicts

#: (objective, violation) of every epoch.
LEARNS = [(0.3, 0.0), (0.5, 0.0), (0.6, 0.1)]
FALLS = [(0.5, 0.0), (0.3, 0.0)]
VIOLATES = [(0.3, 0.2), (0.9, 0.1)]
#: The last worker never transmits.
MEANS = {
    name: (value,) * 7 + (math.nan,) for name, value in (("rate", 1), ("energy_efficiency", 60))
}


def _made(*seeds: list[tuple[float, float]]) -> ConvergenceResult:
    histories = [
        [
            Epoch(number, objective, 0.5, violation, violation <= 0.01, MEANS, {"rate_min": 1.0})
            for number, (objective, violation) in enumerate(epochs)
        ]
        for epochs in seeds
    ]
    return ConvergenceResult(histories={"pdg": histories, "pdm": histories}, others={})


def test_claims():
    experiment = Convergence()
    assert verdicts(experiment.claims(_made(LEARNS, LEARNS))) == [HOLDS]
    assert verdicts(experiment.claims(_made(LEARNS, FALLS))) == [IN_PART]
    (claim,) = experiment.claims(_made(FALLS, VIOLATES))
    assert claim.verdict == FAILS
    assert claim.measured.endswith("0.300 to 0.900 at epoch 2, violation 10.0%")


def test_the_smallest_violation_is_one():
    (claim,) = Convergence().claims(_made([(0.3, 0.0), (0.5, 4e-9)]).rounded())
    assert claim.verdict == FAILS


def test_csv_and_json_of_a_worker_that_never_transmits():
    result = _made(LEARNS, FALLS)
    rows = list(csv.DictReader(result.to_csv().splitlines()))
    assert len(rows) == 2 * (3 + 2)
    assert list(rows[2].values()) == ["pdg", "0", "3", "0.6", "0.5", "0.1"]
    again = ConvergenceResult.model_validate_json(result.model_dump_json())
    assert math.isnan(again.histories["pdg"][0][0].constraints["rate"][-1])
    assert again.model_dump_json() == result.model_dump_json()


def test_the_figure(tmp_path: Path):
    assert_drawn(Convergence(), _made(LEARNS, FALLS), tmp_path)
