"""What the non-i.i.d. data look like."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import BaseModel

from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import image_task
from feduplink.experiments.table import csv_rows, csv_text
from feduplink.federated.data.partition import importance_of_noise, noise_levels, with_pixel_noise
from feduplink.federated.tasks.images import grey_levels
from feduplink.randomness import numpy_generator
from feduplink.scenario import Scenario, data_sizes
from feduplink.storage.run_directory import Claim

TITLE = "Data that differ between workers"
DATA = "mnist"
VERSION = 1
CAPTION = (
    "Above: one digit with the pixel noise of each worker, and the weight that its quality gives "
    "it. Below: labels of each worker's images for one draw of the Dirichlet partition (κ = 1)."
)

#: Columns of the CSV file: images of each digit.
_LABELS = tuple(f"label_{digit}" for digit in range(10))


class NoniidData(BaseModel):
    """One noisy digit per worker, the workers' weights, and their label counts."""

    noise: list[float]
    weights: list[float]
    digits: list[list[int]]
    labels: list[list[int]]

    def to_csv(self) -> str:
        """One row per worker."""
        rows = (
            [worker + 1, self.noise[worker], self.weights[worker], *counts]
            for worker, counts in enumerate(self.labels)
        )
        return csv_text(["worker", "noise_std", "weight", *_LABELS], rows)

    @classmethod
    def from_csv(cls, text: str) -> NoniidData:
        """What :meth:`to_csv` wrote: without the digits."""
        rows = csv_rows(text, ["noise_std", "weight", *_LABELS])
        return cls(
            noise=[float(row["noise_std"]) for row in rows],
            weights=[float(row["weight"]) for row in rows],
            digits=[],
            labels=[[int(row[label]) for label in _LABELS] for row in rows],
        )


RESULT = NoniidData


def run(context: ExperimentContext) -> NoniidData:
    """Draw the first run's data."""
    workers = Scenario().workers
    levels = noise_levels(data_sizes(workers))
    clean = image_task(context, "iid").data(numpy_generator(context.seed, "data"))
    digit = grey_levels(clean.pool.inputs[clean.shares[0][0]])
    one_each = tuple(torch.tensor([worker]) for worker in range(workers))
    rng = numpy_generator(context.seed, "data")
    noisy = with_pixel_noise(digit.expand(workers, -1), one_each, levels, rng)
    skewed = image_task(context, "dirichlet").data(numpy_generator(context.seed, "data"))
    labels = [np.bincount(skewed.pool.targets[share], minlength=10) for share in skewed.shares]
    return NoniidData(
        noise=levels.tolist(),
        weights=importance_of_noise(levels).tolist(),
        digits=noisy.tolist(),
        labels=[counts.tolist() for counts in labels],
    )


def claims(_result: NoniidData) -> list[Claim]:
    """An illustration claims nothing."""
    return []
