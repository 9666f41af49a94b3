from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from feduplink import Constraint, InputError, Judgement, Problem, Scenario, judge
from feduplink.judgement import (
    SampleMoments,
    SequentialTest,
    Shortfalls,
    mean_interval,
    planned_sizes,
)
from feduplink.link import Rate, upload
from feduplink.problem import WeightedSum
from link.own_measures import AveragePower, PowerOnAir, Sinr

TWO = Scenario(workers=2, weights=(3.0, 1.0), rate_min=(0.5, 0.6), ee_min=30.0)

#: Two channels; in the second, worker 2 is silent.
CSI = torch.tensor([[[100.0, 10.0], [5.0, 50.0]], [[200.0, 20.0], [10.0, 25.0]]])
POWER = torch.tensor([[0.01, 0.02], [0.005, 0.0]])


def test_the_judgement_of_two_workers_by_hand():
    # SINRs of worker 1: 1/1.2 and 1/1; of worker 2: 1/1.05 and silence.
    per_1 = 1 - math.exp(-0.023 * 1.2), 1 - math.exp(-0.023)
    per_2 = 1 - math.exp(-0.023 * 1.05)
    rate_1 = (math.log(1 + 1 / 1.2) + math.log(2)) / 2
    rate_2 = math.log(1 + 1 / 1.05)
    efficiency_1 = (math.log(1 + 1 / 1.2) / 0.02 + math.log(2) / 0.015) / 2
    efficiency_2 = rate_2 / 0.03

    verdict = judge(TWO, CSI, POWER)

    expected_psr = (2 - sum(per_1)) / 2, (1 - per_2) / 2  # a silent round counts as a loss
    assert verdict.objective == pytest.approx(3 * expected_psr[0] + expected_psr[1], rel=1e-6)
    assert verdict.weighted_per == pytest.approx((3 * sum(per_1) + per_2) / 7, rel=1e-6)
    assert verdict.participation == 0.75
    rate, efficiency = verdict.constraints["rate"], verdict.constraints["energy_efficiency"]
    assert rate.expected.tolist() == pytest.approx([rate_1, rate_2], rel=1e-6)
    assert efficiency.expected.tolist() == pytest.approx([efficiency_1, efficiency_2], rel=1e-6)
    assert rate.worst == pytest.approx(rate_1, rel=1e-6)
    assert efficiency.worst == pytest.approx(efficiency_2, rel=1e-6)
    metrics = verdict.as_metrics()
    assert metrics["rate_min"] == rate.worst
    assert metrics["energy_efficiency_min"] == efficiency.worst
    # Only worker 2 violates a constraint: its efficiency is 22.3 instead of 30.
    assert verdict.violation == pytest.approx((30 - efficiency_2) / 30, rel=1e-6)
    assert not verdict.feasible


def test_a_silent_worker_has_no_rate_and_violates_no_constraint():
    power = torch.tensor([[0.01, 0.0], [0.005, 0.0]])
    verdict = judge(TWO, CSI, power)
    assert verdict.constraints["rate"].expected[1].isnan()
    assert verdict.constraints["rate"].worst == pytest.approx(math.log(2), rel=1e-6)
    assert verdict.participation == 0.5
    assert verdict.violation == 0
    assert verdict.feasible is not False


def test_the_judgement_of_silence():
    verdict = judge(TWO, CSI, torch.zeros(2, 2))
    assert verdict.objective == 0
    assert verdict.participation == 0
    assert math.isnan(verdict.weighted_per)
    assert math.isnan(verdict.constraints["rate"].worst)
    metrics = verdict.as_metrics()
    assert metrics["weighted_per"] is None
    json.dumps(metrics, allow_nan=False)


@pytest.mark.parametrize("constraint", ["rate_min", "ee_min"])
@pytest.mark.parametrize(("shortfall", "feasible"), [(0.0, True), (0.009, True), (0.011, False)])
def test_feasibility_allows_one_percent_of_every_threshold(constraint, shortfall, feasible):
    rate = math.log(2)  # gain 100, power 0.01 W, nobody else
    reached = {"rate_min": rate, "ee_min": rate / 0.02}
    thresholds = {**reached, constraint: reached[constraint] / (1 - shortfall)}
    scenario = Scenario(workers=1, **thresholds)
    power = torch.full((5, 1), 0.01, dtype=torch.float64)
    verdict = judge(scenario, torch.full((5, 1, 1), 100.0), power)
    assert verdict.violation == pytest.approx(shortfall, abs=1e-9)
    assert verdict.feasible is feasible


def test_the_scenario_determines_utility_and_objective():
    scenario = TWO.replace(utility="proportional-fairness", objective="rate")
    rates = [(math.log(1 + 1 / 1.2) + math.log(2)) / 2, math.log(1 + 1 / 1.05) / 2]
    assert judge(scenario, CSI, POWER).objective == pytest.approx(
        3 * math.log(rates[0]) + math.log(rates[1]), rel=1e-6
    )


def own_problem(*constraints: Constraint) -> Problem:
    """The largest mean power under user-defined constraints."""
    weights = torch.ones(2, dtype=torch.float64)
    return Problem(objective=AveragePower(), utility=WeightedSum(weights), constraints=constraints)


def test_an_upper_limit_on_the_mean_over_all_rounds_by_hand():
    """Worker 1 sends 10 and 5 mW, worker 2 sends 20 mW and nothing: 7.5 and 10 mW on average."""
    limit = torch.tensor([0.0075, 0.008], dtype=torch.float64)
    verdict = judge(TWO, CSI, POWER, problem=own_problem(Constraint.below(AveragePower(), limit)))
    assert verdict.objective == pytest.approx(0.0175)
    assert verdict.constraints["power"].expected.tolist() == pytest.approx([0.0075, 0.01])
    assert verdict.constraints["power"].worst == pytest.approx(0.01)
    assert verdict.as_metrics()["power_max"] == pytest.approx(0.01)
    assert verdict.violation == pytest.approx(0.25)  # 10 mW are 25 % above 8 mW
    silent = judge(
        TWO, CSI, 0 * POWER, problem=own_problem(Constraint.below(AveragePower(), limit))
    )
    assert silent.shortfall == pytest.approx(-1)  # all of the limit to spare
    assert silent.verdict == "silent"
    assert silent.feasible is False


def test_silence_violates_a_lower_limit_on_the_mean_over_all_rounds():
    limit = torch.tensor([0.0, 0.0125], dtype=torch.float64)
    problem = own_problem(Constraint.at_least(AveragePower(), limit))
    assert judge(TWO, CSI, POWER, problem=problem).violation == pytest.approx(0.2)
    verdict = judge(TWO, CSI, POWER * torch.tensor([1.0, 0.0]), problem=problem)
    assert verdict.violation == pytest.approx(1.0)
    assert verdict.feasible is False


def test_limits_on_means_while_active_by_hand():
    """Worker 2 sends in one of two rounds: its mean power is 20 mW there and its SINR 1/1.05."""
    problem = own_problem(
        Constraint.below(PowerOnAir(), torch.tensor([0.01, 0.016], dtype=torch.float64)),
        Constraint.at_least(Sinr(), torch.tensor([1.0, 0.0], dtype=torch.float64)),
    )
    verdict = judge(TWO, CSI, POWER, problem=problem)
    power, sinr = verdict.constraints["power_on_air"], verdict.constraints["sinr"]
    assert power.expected.tolist() == pytest.approx([0.0075, 0.02])
    assert sinr.expected.tolist() == pytest.approx([(1 / 1.2 + 1) / 2, 1 / 1.05])
    assert (power.key, sinr.key) == ("power_on_air_max", "sinr_min")
    assert verdict.violation == pytest.approx(0.25)
    sinr_only = own_problem(problem.constraints[1])
    assert judge(TWO, CSI, POWER, problem=sinr_only).violation == pytest.approx(
        1 - (1 / 1.2 + 1) / 2
    )


def test_the_worst_worker_is_nearest_to_its_limit_or_furthest_beyond():
    silent = torch.tensor([[0.01, 0.0], [0.005, 0.0]])
    at_most = own_problem(Constraint.below(PowerOnAir(), torch.ones(2, dtype=torch.float64)))
    assert judge(TWO, CSI, POWER, problem=at_most).constraints[
        "power_on_air"
    ].worst == pytest.approx(0.02)
    assert judge(TWO, CSI, silent, problem=at_most).constraints[
        "power_on_air"
    ].worst == pytest.approx(0.0075)


@pytest.mark.parametrize(
    ("power", "csi", "sentence"),
    [
        (POWER[:1], CSI, r"^power: shape \(1, 2\)"),
        (POWER[0], CSI[0], r"^power: shape \(2,\)"),
        (POWER[:0], CSI[:0], r"^power: shape \(0, 2\); .*N >= 1"),
        (POWER * torch.nan, CSI, r"^power: .*NaN"),
        (-POWER, CSI, r"^power: .*negative"),
        (POWER, CSI * torch.nan, r"^csi: contains NaN"),
        (POWER, -CSI, r"^csi: contains a negative or zero gain"),
        (POWER, CSI[:, :1], r"^csi: shape \(2, 1, 2\) is not square"),
        (torch.ones(2, 3), torch.ones(2, 3, 3), r"^csi: 3 workers; accepted here: exactly 2"),
    ],
)
def test_invalid_powers_and_channels_are_refused(power, csi, sentence):
    with pytest.raises(InputError, match=sentence):
        judge(TWO, csi, power)


@pytest.mark.parametrize(
    ("feasible", "participation", "verdict"),
    [
        (True, 0.5, "feasible"),
        (False, 0.5, "infeasible"),
        (None, 0.5, "inconclusive"),
        (True, 0.0, "silent"),
    ],
)
def test_the_verdict_is_a_word(feasible, participation, verdict):
    judgement = Judgement(0.5, 0.1, participation, {}, feasible, -0.2, 0.1)
    assert judgement.verdict == verdict
    assert (judgement.margin, judgement.margin_ci) == (0.2, 0.1)


THRESHOLD = torch.ones(1, 1, dtype=torch.float64)


def shortfalls(
    values: torch.Tensor, counted: torch.Tensor, thresholds: torch.Tensor = THRESHOLD
) -> Shortfalls:
    """Shortfalls of values (K, N, L), counted or not (N, L), under lower limits (K, L); 0: none."""
    constraints = tuple(
        Constraint.at_least(measure, row, row > 0)
        for measure, row in zip((Rate(), Sinr()), thresholds, strict=False)
    )
    problem = Problem(Rate(), WeightedSum(torch.ones(thresholds.shape[-1])), constraints)
    return Shortfalls.from_samples(values, counted.bool().expand(values.shape), problem)


def verdict(samples: np.ndarray) -> bool | None:
    values = torch.from_numpy(samples)[None, :, None]
    return shortfalls(values, torch.ones(len(samples), 1)).feasible


def test_symmetric_samples_have_the_student_interval():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)[:, None]
    mean, low, high = mean_interval(values, torch.ones(5, 1, dtype=torch.bool), 0.9)
    expected = stats.t.interval(0.9, 4, loc=3.0, scale=stats.sem(values[:, 0].numpy()))
    assert (mean.item(), low.item(), high.item()) == pytest.approx((3.0, *expected))


def test_intervals_of_right_skewed_samples_are_longer_to_the_right():
    generator = np.random.default_rng(0)
    values = torch.from_numpy(generator.exponential(size=(200, 1)))
    mean, low, high = mean_interval(values, torch.ones(200, 1, dtype=torch.bool), 0.95)
    assert high - mean > 1.1 * (mean - low)


@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_intervals_of_skewed_samples_have_their_coverage(sigma: float):
    """Log-normal samples; each of 2000 intervals is a column."""
    generator = np.random.default_rng(1)
    values = torch.from_numpy(generator.lognormal(0, sigma, (1000, 2000)))
    _, low, high = mean_interval(values, torch.ones_like(values, dtype=torch.bool), 0.95)
    truth = math.exp(sigma**2 / 2)
    assert ((low <= truth) & (truth <= high)).double().mean() >= 0.93


def test_only_rounds_with_a_transmission_count():
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
    counted = torch.ones_like(power, dtype=torch.bool)
    found = Shortfalls.from_samples(problem.constraint_values(power, power), counted[None], problem)
    mean, low, high = mean_interval(power, torch.ones_like(power, dtype=torch.bool), 0.95)
    assert found.estimate.item() == pytest.approx(-0.5)
    assert found.high.item() == pytest.approx((high.item() - 0.1) / 0.1)
    assert found.low.item() == pytest.approx((low.item() - 0.1) / 0.1)
    assert mean.item() == pytest.approx(0.05)


def test_without_constraints_powers_are_feasible():
    problem = Problem(Rate(), WeightedSum(torch.ones(2)), ())
    state = upload(torch.ones(5, 2, 2), torch.ones(5, 2), Scenario(workers=2))
    found = Shortfalls.from_problem(problem, state)
    assert found.worst == (0.0, 0.0)
    assert found.feasible is True


def test_means_far_from_the_threshold_are_conclusive():
    generator = np.random.default_rng(2)
    noise = generator.normal(0, 0.3, 1000)
    assert verdict(1.1 + noise) is True
    assert verdict(0.9 + noise) is False
    assert verdict(0.99 + noise) is None


def test_more_samples_make_a_verdict_conclusive():
    generator = np.random.default_rng(3)
    noise = generator.normal(0, 0.3, 100_000)
    assert verdict(0.995 + noise[:1000]) is None
    assert verdict(0.995 + noise) is True
    assert verdict(0.97 + noise) is False


def test_a_shortfall_under_one_percent_is_feasible():
    assert verdict(np.full(5, 0.9901)) is True
    assert verdict(np.full(5, 0.9899)) is False


def test_a_single_transmission_is_inconclusive():
    assert verdict(np.array([5.0])) is None
    found = shortfalls(torch.full((1, 1, 1), 5.0, dtype=torch.float64), torch.ones(1, 1), THRESHOLD)
    assert found.worst == (-4.0, math.inf)


def test_silent_and_unconstrained_workers_violate_nothing():
    values = torch.full((2, 10, 2), 0.5, dtype=torch.float64)
    power = torch.tensor([1.0, 0.0]).expand(10, 2)
    thresholds = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    found = shortfalls(values, power, thresholds)
    assert found.feasible is True
    assert found.worst == (0.0, 0.0)


def test_more_constraints_have_wider_simultaneous_intervals():
    generator = np.random.default_rng(4)
    one = torch.from_numpy(generator.normal(1, 0.3, (1, 500, 1)))
    power = torch.ones(500, 8)
    alone = shortfalls(one, power[:, :1], THRESHOLD)
    many = shortfalls(one.expand(2, 500, 8), power, THRESHOLD.expand(2, 8))
    ratio = many.worst[1] / alone.worst[1]
    assert ratio == pytest.approx(stats.norm.ppf(1 - 0.025 / 16) / stats.norm.ppf(0.975), rel=0.02)


@given(st.floats(0.005, 0.0099), st.integers(0, 10**6))
def test_scaling_values_and_thresholds_leaves_the_verdict_unchanged(shift, seed):
    values = 1 - shift + 0.2 * np.random.default_rng(seed).normal(size=300)
    scaled = shortfalls(
        torch.from_numpy(50 * values)[None, :, None], torch.ones(300, 1), 50 * THRESHOLD
    )
    assert scaled.feasible is verdict(values)


@pytest.mark.parametrize("counts", [(5, 7, 300), (1, 2), (0, 4), (0, 0, 3), (1, 1)])
def test_merged_moments_are_those_of_all_samples(counts):
    generator = np.random.default_rng(5)
    values = torch.from_numpy(generator.exponential(size=(2, sum(counts), 3)))
    included = torch.from_numpy(generator.random(values.shape) < 0.7)
    parts = zip(values.split(counts, 1), included.split(counts, 1), strict=True)
    merged, *others = (SampleMoments.from_samples(*part) for part in parts)
    for moments in others:
        merged = merged.merged(moments)
    pooled = SampleMoments.from_samples(values, included)
    for found, expected in zip(vars(merged).values(), vars(pooled).values(), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_planned_sizes_double_up_to_the_largest():
    assert planned_sizes(1000) == (1000, 2000, 4000, 8000, 16000, 32000, 50000)
    assert planned_sizes(1000, 4000) == (1000, 2000, 4000)
    assert planned_sizes(1000, 1000) == planned_sizes(1000, 10) == (1000,)


def sequential(values: torch.Tensor, sizes: tuple[int, ...]) -> SequentialTest:
    """The test of one worker's samples (N,) with mean at least 1, until it is finished."""
    constraint = Constraint.at_least(Rate(), torch.ones(1, dtype=torch.float64))
    problem = Problem(Rate(), WeightedSum(torch.ones(1)), (constraint,))
    test = SequentialTest(Scenario(workers=1), problem, sizes)
    samples = values[None, :, None]
    while not test.is_finished:
        size = next(size for size in sizes if size > test.channels)
        added = samples[:, test.channels : size]
        test.add_samples(added, torch.ones_like(added, dtype=torch.bool))
    return test


def test_one_planned_size_is_the_test_of_a_fixed_number_of_channels():
    values = torch.from_numpy(np.random.default_rng(6).normal(1, 0.3, 500))
    found = sequential(values, (500,)).shortfalls
    fixed = shortfalls(values[None, :, None], torch.ones(500, 1))
    for name, expected in vars(fixed).items():
        assert torch.equal(getattr(found, name), expected)


def test_a_judgement_on_the_test_channels_alone_keeps_its_verdict():
    csi = torch.rand(200, 2, 2, generator=torch.Generator().manual_seed(0)) + 100 * torch.eye(2)
    power = torch.full((200, 2), 0.01)
    judged = judge(TWO, csi, power)
    test = SequentialTest(TWO, None, (200,))
    test.add(csi, power)
    concluded = test.conclude(judged)
    assert concluded.as_metrics() == judged.as_metrics()
    assert concluded.violation == judged.violation


def test_a_sequential_test_stops_as_soon_as_it_is_decided():
    noise = torch.from_numpy(np.random.default_rng(7).normal(0, 0.3, 50_000))
    far, near, at = (sequential(mean + noise, planned_sizes(1000)) for mean in (1.5, 1.02, 0.99))
    assert (far.channels, far.shortfalls.feasible) == (1000, True)
    assert 1000 < near.channels < 50_000
    assert near.shortfalls.feasible is True
    assert (at.channels, at.shortfalls.feasible) == (50_000, None)
    assert far.remaining == at.remaining == 0


@pytest.mark.parametrize("skewed", [False, True])
def test_repeated_analyses_rarely_reject_a_mean_at_the_tolerance(skewed: bool):
    """Seven analyses that each may err in 5 % of the cases would reject more often."""
    generator = np.random.default_rng(8)
    sizes, wrong = planned_sizes(50, 3200), Counter[bool | None]()
    for _ in range(400):
        unit = generator.exponential(size=3200) if skewed else generator.normal(1, 1, 3200)
        wrong[sequential(torch.from_numpy(0.9901 * unit), sizes).shortfalls.feasible] += 1
    assert wrong[False] <= 0.06 * 400


def test_a_violated_mean_is_rarely_feasible():
    generator = np.random.default_rng(9)
    sizes, verdicts = planned_sizes(50, 3200), Counter[bool | None]()
    for _ in range(400):
        unit = generator.exponential(size=3200)
        verdicts[sequential(torch.from_numpy(0.95 * unit), sizes).shortfalls.feasible] += 1
    assert verdicts[True] <= 0.06 * 400


def test_further_channels_change_the_verdict_and_not_the_objective():
    """The rate is 2 % under its threshold on the test channels, and above it on the others."""
    scenario = Scenario(workers=1, rate_min=math.log(2), ee_min=0)
    csi, power = torch.full((10, 1, 1), 96.0), torch.full((10, 1), 0.01)
    judged = judge(scenario, csi, power)
    test = SequentialTest(scenario, None, (10, 100))
    test.add(csi, power)
    test.add(torch.full((90, 1, 1), 110.0), torch.full((90, 1), 0.01))
    concluded = test.conclude(judged)
    assert concluded.objective == judged.objective
    assert concluded.violation == judged.violation == pytest.approx(0.0291, abs=1e-4)
    assert concluded.margin > 0
    assert concluded.constraints["rate"].worst > math.log(2)
    assert (judged.verdict_channels, concluded.verdict_channels) == (10, 100)
