from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from feduplink import Constraint, Problem
from feduplink.judgement import Shortfalls, mean_interval
from feduplink.link import Rate
from feduplink.problem import WeightedSum
from link.own_measures import AveragePower, Sinr

THRESHOLD = torch.ones(1, 1, dtype=torch.float64)


def shortfalls(
    values: torch.Tensor, counted: torch.Tensor, thresholds: torch.Tensor = THRESHOLD
) -> Shortfalls:
    """Of values (K, N, L) that count or not, (N, L), against lower limits (K, L); 0 is none."""
    constraints = tuple(
        Constraint.at_least(measure, row, row > 0)
        for measure, row in zip((Rate(), Sinr()), thresholds, strict=False)
    )
    problem = Problem(Rate(), WeightedSum(torch.ones(thresholds.shape[-1])), constraints)
    return Shortfalls.from_samples(values, counted.bool().expand(values.shape), problem)


def verdict(samples: np.ndarray) -> bool | None:
    values = torch.from_numpy(samples)[None, :, None]
    return shortfalls(values, torch.ones(len(samples), 1)).feasible


def test_symmetric_samples_give_students_interval():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)[:, None]
    mean, low, high = mean_interval(values, torch.ones(5, 1, dtype=torch.bool), 0.9)
    expected = stats.t.interval(0.9, 4, loc=3.0, scale=stats.sem(values[:, 0].numpy()))
    assert (mean.item(), low.item(), high.item()) == pytest.approx((3.0, *expected))


def test_samples_skewed_to_the_right_reach_further_to_the_right():
    generator = np.random.default_rng(0)
    values = torch.from_numpy(generator.exponential(size=(200, 1)))
    mean, low, high = mean_interval(values, torch.ones(200, 1, dtype=torch.bool), 0.95)
    assert high - mean > 1.1 * (mean - low)


@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_intervals_of_skewed_samples_hold_as_often_as_they_say(sigma: float):
    """Log-normal samples; each of 2000 intervals is a column."""
    generator = np.random.default_rng(1)
    values = torch.from_numpy(generator.lognormal(0, sigma, (1000, 2000)))
    _, low, high = mean_interval(values, torch.ones_like(values, dtype=torch.bool), 0.95)
    truth = math.exp(sigma**2 / 2)
    assert ((low <= truth) & (truth <= high)).double().mean() >= 0.93


def test_only_transmissions_count():
    values = torch.tensor([[1.0], [100.0], [3.0], [100.0]], dtype=torch.float64)
    power = torch.tensor([[0.1], [0.0], [0.1], [0.0]])
    found = shortfalls(values[None], power, 4 * THRESHOLD)
    assert found.estimate.item() == pytest.approx(0.5)


def test_an_upper_limit_over_all_rounds_counts_silent_ones():
    """E[p] = 0.05 W under a limit of 0.1 W."""
    power = torch.tensor([[0.15], [0.0], [0.05], [0.0]], dtype=torch.float64)
    limit = torch.full((1,), 0.1, dtype=torch.float64)
    constraint = Constraint.below(AveragePower(), limit)
    problem = Problem(Rate(), WeightedSum(torch.ones(1)), (constraint,))
    found = Shortfalls.from_problem(problem, power, power)
    mean, low, high = mean_interval(power, torch.ones_like(power, dtype=torch.bool), 0.95)
    assert found.estimate.item() == pytest.approx(-0.5)
    assert found.high.item() == pytest.approx((high.item() - 0.1) / 0.1)
    assert found.low.item() == pytest.approx((low.item() - 0.1) / 0.1)
    assert mean.item() == pytest.approx(0.05)


def test_without_constraints_nothing_is_missed():
    problem = Problem(Rate(), WeightedSum(torch.ones(2)), ())
    found = Shortfalls.from_problem(problem, torch.ones(5, 2), torch.ones(5, 2))
    assert found.worst == (0.0, 0.0)
    assert found.feasible is True


def test_far_enough_from_the_threshold_a_verdict_is_given():
    generator = np.random.default_rng(2)
    noise = generator.normal(0, 0.3, 1000)
    assert verdict(1.1 + noise) is True
    assert verdict(0.9 + noise) is False
    assert verdict(0.99 + noise) is None


def test_more_samples_tell_what_few_cannot():
    generator = np.random.default_rng(3)
    noise = generator.normal(0, 0.3, 100_000)
    assert verdict(0.995 + noise[:1000]) is None
    assert verdict(0.995 + noise) is True
    assert verdict(0.97 + noise) is False


def test_within_one_per_cent_counts_as_met():
    assert verdict(np.full(5, 0.9901)) is True
    assert verdict(np.full(5, 0.9899)) is False


def test_a_single_transmission_tells_nothing():
    assert verdict(np.array([5.0])) is None
    found = shortfalls(torch.full((1, 1, 1), 5.0, dtype=torch.float64), torch.ones(1, 1), THRESHOLD)
    assert found.worst == (-4.0, math.inf)


def test_the_silent_and_the_unconstrained_miss_nothing():
    values = torch.full((2, 10, 2), 0.5, dtype=torch.float64)
    power = torch.tensor([1.0, 0.0]).expand(10, 2)
    thresholds = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    found = shortfalls(values, power, thresholds)
    assert found.feasible is True
    assert found.worst == (0.0, 0.0)


def test_more_statements_need_wider_intervals():
    generator = np.random.default_rng(4)
    one = torch.from_numpy(generator.normal(1, 0.3, (1, 500, 1)))
    power = torch.ones(500, 8)
    alone = shortfalls(one, power[:, :1], THRESHOLD)
    many = shortfalls(one.expand(2, 500, 8), power, THRESHOLD.expand(2, 8))
    ratio = many.worst[1] / alone.worst[1]
    assert ratio == pytest.approx(stats.norm.ppf(1 - 0.025 / 16) / stats.norm.ppf(0.975), rel=0.02)


@given(st.floats(0.005, 0.0099), st.integers(0, 10**6))
def test_scaling_values_and_thresholds_changes_no_verdict(shift, seed):
    values = 1 - shift + 0.2 * np.random.default_rng(seed).normal(size=300)
    scaled = shortfalls(
        torch.from_numpy(50 * values)[None, :, None], torch.ones(300, 1), 50 * THRESHOLD
    )
    assert scaled.feasible is verdict(values)
