from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from feduplink.problem import UTILITIES, ProportionalFairness, WeightedSum

WEIGHTS = torch.tensor([3.0, 1.0], dtype=torch.float64)


def test_values_by_hand():
    expected = torch.tensor([0.5, 0.25])
    assert WeightedSum(WEIGHTS).value(expected).item() == pytest.approx(1.75)
    fairness = ProportionalFairness(WEIGHTS).value(expected)
    assert fairness.item() == pytest.approx(3 * math.log(0.5) + math.log(0.25))


@pytest.mark.parametrize("utility_type", UTILITIES.values())
def test_the_gradient_is_the_derivative_of_the_value(utility_type):
    utility = utility_type(WEIGHTS)
    expected = torch.tensor([0.5, 0.25], dtype=torch.float64, requires_grad=True)
    utility.value(expected).backward()
    torch.testing.assert_close(utility.gradient(expected.detach()), expected.grad)


def grid_maxima(weights: Tensor, worth: Tensor) -> tuple[float, list[float]]:
    """max_y Σ ω ln y − w·y and where it is, on a fine grid of y."""
    y = torch.linspace(1e-4, 5, 500_001, dtype=torch.float64)
    values = [w * y.log() - p * y for w, p in zip(weights.tolist(), worth.tolist(), strict=True)]
    return sum(float(v.max()) for v in values), [float(y[v.argmax()]) for v in values]


def test_the_conjugate_of_proportional_fairness():
    weights, worth = torch.tensor([[0.3, 0.7], [0.5, 2.0]], dtype=torch.float64)
    best, at = grid_maxima(weights, worth)
    utility = ProportionalFairness(weights)
    assert utility.conjugate(worth) == pytest.approx(best, abs=1e-8)
    assert utility.maximiser(worth).tolist() == pytest.approx(at, abs=1e-5)


def test_the_weighted_sum_is_worth_its_weights():
    """g(y) − ω·y is 0 at every y."""
    utility = WeightedSum(WEIGHTS)
    assert utility.linear
    assert utility.conjugate(WEIGHTS) == 0
    y = utility.maximiser(WEIGHTS)
    assert float(utility.value(y) - WEIGHTS @ y) == 0


def test_relative_gaps_are_those_of_the_mean_behind_the_utility():
    assert WeightedSum(WEIGHTS).relative_gap(0.5, 0.6) == pytest.approx(0.2)
    assert WeightedSum(WEIGHTS).relative_gap(0.0, 0.6) == math.inf
    # All y larger by 1 %: the geometric mean is, too.
    utility, y = ProportionalFairness(WEIGHTS), torch.tensor([0.5, 0.25], dtype=torch.float64)
    gap = utility.relative_gap(float(utility.value(y)), float(utility.value(1.01 * y)))
    assert gap == pytest.approx(0.01)
    assert utility.relative_gap(-math.inf, 0.0) == math.inf
