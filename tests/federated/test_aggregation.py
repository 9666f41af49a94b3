from __future__ import annotations

import pytest
import torch

from feduplink.federated.aggregation import coefficients, combine_

SIZES = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
MODELS = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
BEFORE = torch.tensor([-7.0, -8.0])


def average(arrived: list[bool], aggregation="exact", models=MODELS, sizes=SIZES):
    factors = coefficients(sizes, torch.tensor(arrived), aggregation)
    model = {"w": BEFORE[None].clone()}
    combine_(model, factors[None], {"w": models[None]})
    return model["w"][0].tolist()


def test_weights_follow_the_sizes_exactly():
    assert average([True, True, True]) == [25 / 8, 250 / 8]
    assert average([True, False, True]) == [21 / 6, 210 / 6]


def test_equal_models_average_to_themselves():
    assert average([True, True, True], models=torch.ones(3, 2)) == [1.0, 1.0]


@pytest.mark.parametrize("worker", range(3))
def test_one_arrival_gives_that_model(worker: int):
    assert average([i == worker for i in range(3)]) == MODELS[worker].tolist()


@pytest.mark.parametrize("aggregation", ["exact", "published"])
def test_without_arrivals_the_model_stays(aggregation: str):
    assert average([False] * 3, aggregation) == BEFORE.tolist()


def test_a_lost_model_cannot_spoil_the_average():
    broken = MODELS.clone()
    broken[1] = torch.nan
    assert average([True, False, True], models=broken) == [21 / 6, 210 / 6]


def test_published_leaves_the_last_arrival_out_of_the_sum_only():
    ones = torch.ones(3, 2)
    assert average([True] * 3, "published", ones, torch.tensor([1.0, 2.0, 3.0])) == [0.5, 0.5]
    assert average([True] * 3, "published") == [5 / 8, 50 / 8]
    assert average([True, True, False], "published") == pytest.approx([1 / 3, 10 / 3])


def test_published_multiplies_a_single_arrival_by_its_size():
    assert average([False, False, True], "published") == [20.0, 200.0]


def test_lanes_are_averaged_one_by_one():
    arrived = torch.tensor([[True, True, True], [False, True, False], [False, False, False]])
    weights = coefficients(SIZES.expand(3, -1), arrived, "exact")
    models = {"w": BEFORE.repeat(3, 1), "b": BEFORE[:1].repeat(3, 1)}
    local = MODELS.expand(3, -1, -1)
    combine_(models, weights, {"w": local, "b": local[..., :1]})
    assert models["w"].tolist() == [[25 / 8, 250 / 8], [2.0, 20.0], [-7.0, -8.0]]
    assert models["b"].tolist() == [[25 / 8], [2.0], [-7.0]]
