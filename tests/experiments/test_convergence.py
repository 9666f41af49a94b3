from __future__ import annotations

import csv
import math

from feduplink.experiments import convergence
from feduplink.experiments.convergence import Convergence
from feduplink.training import Epoch

from .made import FAILS, HOLDS, IN_PART, verdicts

#: (objective, violation) of every epoch.
LEARNS = [(0.3, 0.0), (0.5, 0.0), (0.6, 0.1)]
FALLS = [(0.5, 0.0), (0.3, 0.0)]
MISSES = [(0.3, 0.2), (0.9, 0.1)]


REACHED = {"rate": (1.0, math.nan), "energy_efficiency": (60.0, 70.0)}


def _made(*seeds: list[tuple[float, float]]) -> Convergence:
    histories = [
        [
            Epoch(number, objective, 0.5, violation, violation <= 0.01, REACHED, {"rate_min": 1.0})
            for number, (objective, violation) in enumerate(epochs)
        ]
        for epochs in seeds
    ]
    return Convergence(histories={"pdg": histories, "pdm": histories}, others={})


def test_claims():
    assert verdicts(convergence.claims(_made(LEARNS, LEARNS))) == [HOLDS]
    assert verdicts(convergence.claims(_made(LEARNS, FALLS))) == [IN_PART]
    (claim,) = convergence.claims(_made(FALLS, MISSES))
    assert claim.verdict == FAILS
    assert claim.measured.endswith("0.300 to 0.900 at epoch 2, 10.0% short")


def test_csv_and_json_of_a_worker_that_never_sends():
    result = _made(LEARNS, FALLS)
    rows = list(csv.DictReader(result.to_csv().splitlines()))
    assert len(rows) == 2 * (3 + 2)
    assert list(rows[2].values()) == ["pdg", "0", "3", "0.6", "0.5", "0.1"]
    again = Convergence.model_validate_json(result.model_dump_json())
    assert math.isnan(again.histories["pdg"][0][0].constraints["rate"][1])
    assert again.model_dump_json() == result.model_dump_json()
