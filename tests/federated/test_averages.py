from __future__ import annotations

import itertools

import pytest
import torch

from feduplink import FullPower, Scenario
from feduplink.federated import Arrivals, FederationSettings, Task, federate, find_aggregation

SIZES = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
MODELS = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]], dtype=torch.float64)
BEFORE = torch.tensor([-7.0, -8.0], dtype=torch.float64)


def average(
    arrived: list[bool], aggregation="exact", models=MODELS, sizes=SIZES, success=0.5, number=1
) -> list[float]:
    arrivals = Arrivals(
        round=number,
        sizes=sizes,
        present=torch.ones(3, dtype=torch.bool),
        arrived=torch.tensor(arrived),
        success=torch.as_tensor(success, dtype=torch.float64).expand(3),
    )
    rule = find_aggregation(aggregation)
    return rule.aggregate({"w": BEFORE}, {"w": models}, arrivals, {})["w"].tolist()


def test_weights_follow_the_sizes_exactly():
    assert average([True, True, True]) == [25 / 8, 250 / 8]
    assert average([True, False, True]) == [21 / 6, 210 / 6]


def test_equal_models_average_to_themselves():
    assert average([True] * 3, models=torch.ones(3, 2).double()) == [1.0, 1.0]


@pytest.mark.parametrize("worker", range(3))
def test_one_arrival_gives_that_model(worker: int):
    assert average([i == worker for i in range(3)]) == MODELS[worker].tolist()


@pytest.mark.parametrize("aggregation", ["exact", "published", "unbiased"])
def test_without_arrivals_the_model_stays(aggregation: str):
    assert average([False] * 3, aggregation) == BEFORE.tolist()


@pytest.mark.parametrize("aggregation", ["exact", "published", "unbiased"])
def test_a_lost_model_cannot_spoil_the_average(aggregation: str):
    broken = MODELS.clone()
    broken[1] = torch.nan
    heard = [True, False, True]
    assert average(heard, aggregation, broken) == average(heard, aggregation)


def test_published_leaves_the_last_arrival_out_of_the_sum_only():
    ones = torch.ones(3, 2).double()
    assert average([True] * 3, "published", ones, torch.tensor([1.0, 2.0, 3.0]).double()) == [
        0.5,
        0.5,
    ]
    assert average([True] * 3, "published") == [5 / 8, 50 / 8]
    assert average([True, True, False], "published") == pytest.approx([1 / 3, 10 / 3])


def test_published_multiplies_a_single_arrival_by_its_size():
    assert average([False, False, True], "published") == [20.0, 200.0]


def test_published_counts_everyone_in_the_first_round():
    assert average([False] * 3, "published", number=0) == average([True] * 3, "published")
    assert average([False] * 3, "exact", number=0) == BEFORE.tolist()


def expected_model(aggregation: str, success: list[float]) -> torch.Tensor:
    """The mean over all 2^L patterns of arrivals, each with its probability."""
    mean = torch.zeros(2, dtype=torch.float64)
    for pattern in itertools.product([False, True], repeat=3):
        chances = [q if arrived else 1 - q for q, arrived in zip(success, pattern, strict=True)]
        probability = chances[0] * chances[1] * chances[2]
        if probability:
            rates = torch.tensor(success, dtype=torch.float64)
            found = average(list(pattern), aggregation, success=rates)
            mean += probability * torch.tensor(found, dtype=torch.float64)
    return mean


def test_the_expectation_of_the_unbiased_average_is_that_of_all_senders():
    full = SIZES @ MODELS / SIZES.sum()
    success = [0.9, 0.05, 0.4]
    torch.testing.assert_close(expected_model("unbiased", success), full, rtol=1e-12, atol=0)
    # The exact average is pulled towards the worker that arrives most often.
    assert (expected_model("exact", success) - full).abs().max() > 0.1


def test_the_unbiased_average_leaves_out_who_cannot_arrive():
    senders = (SIZES[[0, 2]] @ MODELS[[0, 2]]) / SIZES[[0, 2]].sum()
    found = expected_model("unbiased", [0.9, 0.0, 0.4])
    torch.testing.assert_close(found, senders, rtol=1e-12, atol=0)


def test_nothing_lost_makes_the_unbiased_average_exact():
    assert average([True] * 3, "unbiased", success=1.0) == pytest.approx(average([True] * 3))


def test_every_average_runs_by_name(small_task: Task):
    scenario = Scenario(workers=3, pmax_dbw=-40)
    curves = {
        name: federate(
            small_task,
            {"max": FullPower(scenario)},
            scenario,
            FederationSettings(rounds=3, aggregation=name),
        ).policies["max"][0]
        for name in ("exact", "unbiased", "published")
    }
    assert len({run.arrivals for run in curves.values()}) == 1
    assert 0 < sum(curves["exact"].arrivals) < 9
