from __future__ import annotations

import json

import pytest

from feduplink.learning import Epoch, best_epoch


def epoch(number: int, objective: float, violation: float) -> Epoch:
    return Epoch(
        number=number,
        objective=objective,
        participation=1.0,
        violation=violation,
        feasible=violation <= 0.01,
        worker_rate=(0.7, float("inf")),
        worker_energy_efficiency=(55.0, 60.0),
    )


@pytest.mark.parametrize(
    ("history", "best"),
    [
        # The highest objective among the epochs that meet every constraint ...
        ([(0.8, 0.0), (0.9, 0.0), (0.85, 0.0)], 1),
        # ... however good one is that does not, even within the judge's tolerance ...
        ([(0.8, 0.0), (0.99, 0.005), (0.999, 0.5)], 0),
        # ... the least violation if none does ...
        ([(0.9, 0.3), (0.1, 0.1), (0.8, 0.2)], 1),
        # ... and the first of equals.
        ([(0.7, 0.1), (0.9, 0.0), (0.9, 0.0)], 1),
    ],
)
def test_best_epoch(history, best):
    epochs = [epoch(n, *figures) for n, figures in enumerate(history)]
    assert best_epoch(epochs).number == best


def test_json_round_trip():
    original = epoch(3, 0.9, 0.0)
    assert Epoch.from_json(json.loads(json.dumps(original.to_json()))) == original
