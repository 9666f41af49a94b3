"""Task ``airquality``: regression of an ozone sensor on eight other sensor readings."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated.data.datasets import require
from feduplink.federated.data.partition import fitted_sizes, held_out_and_shares
from feduplink.federated.models.stacked import Perceptron
from feduplink.federated.tasks.task import Examples, FederatedData, LocalWork, Task
from feduplink.scenario import data_sizes
from feduplink.storage.files import reading

FEATURES = (
    "PT08.S1(CO)",
    "PT08.S2(NMHC)",
    "PT08.S3(NOx)",
    "PT08.S4(NO2)",
    "C6H6(GT)",
    "T",
    "RH",
    "AH",
)
TARGET = "PT08.S5(O3)"
MISSING = -200.0
#: Largest target after scaling, and unit of the error.
LARGEST_TARGET = 10.0
TEST_ROWS = 100
HIDDEN_UNITS = 50
WORK = LocalWork(batch_size=8, batches=None, learning_rate=8e-4, clip_norm=1.0)
#: Maximum size of a file in bytes, 20 times that of the table.
_MAX_BYTES = 1 << 24


def airquality(*, workers: int, directory: Path | None = None) -> Task:
    """Make the air-quality task of the paper, with 20 to 200 rows per worker and 100 test rows.

    Args:
        workers: number of workers L.
        directory: directory of the data sets; None uses that of ``FEDUPLINK_DATA``.

    Raises:
        InputError: if the data set ``airquality`` is missing or damaged.
    """
    root = require("airquality", directory)
    features, target = read_readings(root / "airquality" / "AirQualityUCI.csv")
    if len(target) <= TEST_ROWS:
        raise InputError(
            f"data: {root} has {len(target)} complete readings; accepted: more than {TEST_ROWS}."
        )
    target = target * (LARGEST_TARGET / target.max())
    sizes = fitted_sizes(data_sizes(workers) // 5, len(target) - TEST_ROWS)

    def draw(rng: np.random.Generator) -> FederatedData:
        test, shares = held_out_and_shares(len(target), TEST_ROWS, sizes, rng)
        held = features[torch.cat(shares)]
        inputs = ((features - held.mean(0)) / held.std(0)).float()
        targets = target[:, None].float()
        pool = Examples(inputs, targets)
        return FederatedData(pool, shares, pool.take(test))

    return Task(
        name="airquality",
        model=lambda: Perceptron(len(FEATURES), HIDDEN_UNITS, 1),
        data=draw,
        loss=_squared_error,
        metric=scaled_rmse,
        work=WORK,
        rounds=50,
        metric_name="scaled RMSE",
    )


def scaled_rmse(prediction: Tensor, target: Tensor) -> Tensor:
    """Root-mean-square error relative to the largest target, of values (N, 1); a scalar."""
    return (prediction - target).square().mean().sqrt() / LARGEST_TARGET


def _squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).square().mean(-1)


def read_readings(path: Path) -> tuple[Tensor, Tensor]:
    """Read the rows of the table in which all nine readings are present.

    Args:
        path: the table ``AirQualityUCI.csv``.

    Returns:
        Features, (N, 8) float64, and target, (N,) float64.

    Raises:
        InputError: if the file is missing or is not that table.
    """
    with reading(path, "data", "not the UCI Air Quality table", _MAX_BYTES):
        with path.open(newline="", encoding="utf-8") as file:
            rows = [
                [float(row[column].replace(",", ".")) for column in (*FEATURES, TARGET)]
                for row in csv.DictReader(file, delimiter=";")
                if row["Date"]
            ]
        table = torch.tensor(rows, dtype=torch.float64)
        complete = table[(table != MISSING).all(1)]
        if not (bool(complete.isfinite().all()) and bool((complete[:, -1] > 0).any())):
            raise ValueError("its numbers are not readings")
        return complete[:, :-1], complete[:, -1]
