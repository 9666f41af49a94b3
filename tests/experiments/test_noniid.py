from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from feduplink.experiments.context import ExperimentContext
from feduplink.experiments.federated_tasks import FederatedResult, load_images
from feduplink.experiments.noniid import NoniidData, NoniidDataResult, NoniidErrors
from feduplink.federated.data.partition import weighed_by_noise
from feduplink.federated.tasks.images import grey_levels
from feduplink.randomness import numpy_generator
from feduplink.scenario import Scenario

from .made import FAILS, HOLDS, IN_PART, assert_drawn, federated, history, verdicts


def _errors(ideal: float, pdg: float, pdm: float, rand: float, orth: float) -> dict[str, float]:
    """With both readings of the baselines alike."""
    baselines = {"rand": rand, "rand:unselected": rand, "orth": orth, "orth:unselected": orth}
    return {"ideal": ideal, "pdg": pdg, "pdm": pdm, **baselines}


GAUSSIAN = _errors(0.143, 0.161, 0.195, 0.216, 0.252)
DIRICHLET = _errors(0.153, 0.184, 0.281, 0.304, 0.317)
LAST = {**dict.fromkeys(GAUSSIAN, 0.01), "pdg": 0.9}


def _verdicts(*errors: dict[str, float]) -> list[str]:
    labels = [
        f"{kind}, {average} average"
        for kind in ("gaussian", "dirichlet")
        for average in ("exact", "published")
    ]
    comparisons = {
        label: history(e, task="mnist", rounds=100) for label, e in zip(labels, errors, strict=True)
    }
    claims = NoniidErrors().claims(FederatedResult(comparisons=comparisons))
    assert len(claims) == 2 * (2 * 2 * 3 + 1)
    return verdicts(
        [
            claim
            for claim in claims
            if "lower final error" in claim.claim or "reproduced" in claim.claim
        ]
    )


def test_claims():
    """For each kind: the order under either average in both readings, then the paper's values."""
    assert _verdicts(GAUSSIAN, GAUSSIAN, DIRICHLET, DIRICHLET) == [HOLDS] * 10
    assert _verdicts(LAST, GAUSSIAN, DIRICHLET, LAST) == [
        *(FAILS, FAILS, HOLDS, HOLDS, HOLDS),
        *(HOLDS, HOLDS, FAILS, FAILS, FAILS),
    ]
    near = {**GAUSSIAN, "pdg": 0.2}
    assert _verdicts(near, near, DIRICHLET, DIRICHLET)[:5] == [IN_PART] * 4 + [HOLDS]


def test_one_digit_with_every_workers_noise(context: ExperimentContext):
    data = NoniidData().run(context)
    run = load_images(context, "iid").data(numpy_generator(context.seed, "data"))
    digit = grey_levels(run.pool.inputs[run.shares[0][0]])
    grey = digit.float().numpy()
    # Black pixels lose the negative half of the noise.
    black = grey == 0
    for noisy, level in zip(data.digits, data.noise, strict=True):
        noise = np.array(noisy)[black]
        assert (noise == 0).mean() == pytest.approx(0.5, abs=0.1)
        assert noise.mean() == pytest.approx(level / np.sqrt(2 * np.pi), rel=0.25)
    assert sum(data.noise) == pytest.approx(500)


def test_weights_are_those_of_the_scenario(context: ExperimentContext):
    weights = torch.tensor(NoniidData().run(context).weights).double()
    expected = weighed_by_noise(Scenario()).worker_weights
    torch.testing.assert_close(weights / weights.sum(), expected / expected.sum())


def test_labels_are_counted_by_worker(context: ExperimentContext):
    data = NoniidData().run(context)
    skewed = load_images(context, "dirichlet").data(numpy_generator(context.seed, "data"))
    assert [sum(counts) for counts in data.labels] == skewed.sizes.tolist()
    rows = list(csv.DictReader(data.to_csv().splitlines()))
    assert [row["worker"] for row in rows] == [str(n) for n in range(1, 9)]
    assert [int(rows[3][f"label_{digit}"]) for digit in range(10)] == data.labels[3]
    assert NoniidData().claims(data) == []


def test_the_figure_of_the_data(tmp_path: Path):
    data = NoniidDataResult(
        noise=[10.0, 60.0],
        weights=[7.4, 0.2],
        digits=[list(range(16)), [255] * 16],
        labels=[[5] * 10, [0] * 9 + [40]],
    )
    assert_drawn(NoniidData(), data, tmp_path)


@pytest.mark.filterwarnings("error")
def test_the_figure_of_the_errors_with_an_odd_number_of_panels(tmp_path: Path):
    result = federated(a={"ideal": 0.0, "rand": 0.9}, b={"ideal": 0.1}, c={"pdg": 0.2})
    assert_drawn(NoniidErrors(), result, tmp_path)
