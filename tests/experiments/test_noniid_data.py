from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

from feduplink.experiments import noniid_data
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import image_task
from feduplink.federated.data.partition import weighed_by_noise
from feduplink.federated.tasks.images import grey_levels
from feduplink.randomness import numpy_generator
from feduplink.scenario import Scenario


def test_one_digit_with_every_workers_noise(context: ExperimentContext):
    data = noniid_data.run(context)
    run = image_task(context, "iid").data(numpy_generator(context.seed, "data"))
    digit = grey_levels(run.pool.inputs[run.shares[0][0]])
    grey = digit.float().numpy()
    # Where neither end of the scale cuts the noise off, there is some everywhere, of its level.
    black = grey == 0
    for noisy, level in zip(data.digits, data.noise, strict=True):
        noise = np.array(noisy)[black]
        assert (noise == 0).mean() == pytest.approx(0.5, abs=0.1)
        assert noise.mean() == pytest.approx(level / np.sqrt(2 * np.pi), rel=0.25)
    assert sum(data.noise) == pytest.approx(500)


def test_weights_are_those_of_the_scenario(context: ExperimentContext):
    weights = torch.tensor(noniid_data.run(context).weights).double()
    expected = weighed_by_noise(Scenario()).worker_weights
    torch.testing.assert_close(weights / weights.sum(), expected / expected.sum())


def test_labels_are_counted_by_worker(context: ExperimentContext):
    data = noniid_data.run(context)
    skewed = image_task(context, "dirichlet").data(numpy_generator(context.seed, "data"))
    assert [sum(counts) for counts in data.labels] == skewed.sizes.tolist()
    rows = list(csv.DictReader(data.to_csv().splitlines()))
    assert [row["worker"] for row in rows] == [str(n) for n in range(1, 9)]
    assert [int(rows[3][f"label_{digit}"]) for digit in range(10)] == data.labels[3]
    assert noniid_data.claims(data) == []
