from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from feduplink import Constraint, InputError, Problem, Scenario
from feduplink.link import EnergyEfficiency, PacketSuccess, Rate, find_measure
from feduplink.problem import UTILITIES, ProportionalFairness, WeightedSum
from link.own_measures import AveragePower, Sinr

#: Two rounds; in the second, worker 2 is silent.
SINR = torch.tensor([[8.0, 8.0], [4.0, 0.0]], dtype=torch.float64)
POWER = torch.tensor([[0.01, 0.02], [0.005, 0.0]], dtype=torch.float64)


def limits(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_default_problem_follows_from_the_scenario():
    scenario = Scenario(workers=3, rate_min=(0.5, 0.0, 0.7), ee_min=40.0)
    problem = Problem.from_scenario(scenario)
    assert isinstance(problem.objective, PacketSuccess)
    assert isinstance(problem.utility, WeightedSum)
    rate, efficiency = problem.constraints
    assert isinstance(rate.measure, Rate)
    assert isinstance(efficiency.measure, EnergyEfficiency)
    assert problem.thresholds.tolist() == [[0.5, 0.0, 0.7], [40.0, 40.0, 40.0]]
    assert problem.scales.tolist() == [[0.5, 1.0, 0.7], [40.0, 40.0, 40.0]]
    assert problem.active.tolist() == [[True, False, True], [True, True, True]]


def test_a_scenario_determines_objective_utility_and_further_constraints():
    scenario = Scenario(
        workers=2,
        objective="rate",
        utility="proportional-fairness",
        constraints=("link.own_measures:AveragePower <= 0.002 0.004", "psr >= 0.9"),
    )
    problem = Problem.from_scenario(scenario)
    assert isinstance(problem.objective, Rate)
    assert isinstance(problem.utility, ProportionalFairness)
    assert [c.name for c in problem.constraints] == ["rate", "energy_efficiency", "power", "psr"]
    power, success = problem.constraints[2:]
    assert (power.at_most, success.at_most) == (True, False)
    assert power.limit.tolist() == [0.002, 0.004]
    assert success.limit.tolist() == [0.9, 0.9]
    assert success.measure == PacketSuccess(scenario.waterfall)
    assert problem.active.all()


@pytest.mark.parametrize(
    ("fields", "constrained"),
    [
        ({"rate_min": 0.0, "ee_min": 0.0}, False),
        ({"rate_min": 0.1, "ee_min": 0.0}, True),
        ({"rate_min": 0.0, "ee_min": (0.0, 0.0, 5.0)}, True),
        ({"rate_min": 0.0, "ee_min": 0.0, "constraints": "psr >= 0"}, True),
    ],
)
def test_a_problem_is_constrained_by_any_limit(fields: dict, constrained: bool):
    assert Problem.from_scenario(Scenario(workers=3, **fields)).constrained is constrained


def test_a_measure_limited_twice_is_refused():
    scenario = Scenario(workers=2, constraints=("rate >= 0.9",))
    with pytest.raises(InputError, match=r"^constraints: rate is limited twice; accepted: one"):
        Problem.from_scenario(scenario)


def test_a_name_that_is_not_a_measure_is_refused():
    assert find_measure("rate") is Rate
    assert find_measure("link.own_measures:Sinr") is Sinr
    with pytest.raises(InputError, match=r"^measure: fractions:Fraction is <class .*; accepted"):
        find_measure("fractions:Fraction")


def test_upper_limits_are_lower_limits_of_negated_values():
    least = Constraint.at_least(Sinr(), limits(4.0, 0.0))
    most = Constraint.below(AveragePower(), limits(0.005, 0.02))
    assert least.threshold.tolist() == [4.0, 0.0]
    assert most.threshold.tolist() == [-0.005, -0.02]
    assert (least.sign, most.sign) == (1, -1)
    torch.testing.assert_close(least.value(SINR, POWER), SINR)
    torch.testing.assert_close(most.value(SINR, POWER), -POWER)
    # E[p] = 7.5 and 10 mW: 1.5 and 0.5 times the limit.
    expected = most.mean(most.value(SINR, POWER), POWER)
    assert expected.tolist() == pytest.approx([-0.0075, -0.01])
    assert most.shortfall(expected).tolist() == pytest.approx([0.5, -0.5])


def test_silent_rounds_count_in_means_over_all_rounds_only():
    least = Constraint.at_least(Sinr(), limits(7.0, 7.0))
    most = Constraint.below(AveragePower(), limits(0.005, 0.02))
    assert least.counted(POWER).tolist() == [[True, True], [True, False]]
    assert most.counted(POWER).all()
    assert least.mean(least.value(SINR, POWER), POWER).tolist() == [6.0, 8.0]
    assert least.surplus(SINR, POWER).tolist() == [[1.0, 1.0], [-3.0, 0.0]]
    torch.testing.assert_close(most.surplus(SINR, POWER), limits(0.005, 0.02) - POWER)
    problem = Problem(Rate(), WeightedSum(torch.ones(2)), (least, most))
    torch.testing.assert_close(
        problem.mean_surplus(SINR, POWER), torch.stack((limits(-1, 0.5), limits(-0.0025, 0.01)))
    )


def test_silent_workers_and_those_without_a_limit_have_no_shortfall():
    constraint = Constraint.at_least(Sinr(), limits(4.0, 4.0), torch.tensor([True, False]))
    assert constraint.shortfall(limits(1.0, 1.0)).tolist() == [0.75, 0.0]
    assert constraint.shortfall(limits(torch.nan, 1.0)).tolist() == [0.0, 0.0]


def test_a_relative_constraint_is_scaled_by_its_limit():
    constraint = Constraint.at_least(Sinr(), limits(4.0, 0.0))
    relative = constraint.relative()
    assert relative.threshold.tolist() == [1.0, 0.0]
    assert relative.name == "sinr"
    assert relative.value(limits(8.0, 8.0), POWER[0]).tolist() == [2.0, 8.0]
    slopes = relative.measure.slopes(limits(8.0, 8.0), POWER[0])
    assert slopes.s.tolist() == pytest.approx([2.0, 8.0])
    upper = Constraint.below(AveragePower(), limits(0.005, 0.02)).relative()
    assert upper.threshold.tolist() == [-1.0, -1.0]
    assert not upper.measure.on_air_only
    assert upper.value(SINR, POWER)[0].tolist() == pytest.approx([-2.0, -1.0])


def test_a_margin_makes_limits_of_both_kinds_stricter():
    least = Constraint.at_least(Sinr(), limits(4.0, 0.0))
    most = Constraint.below(AveragePower(), limits(0.005, 0.02))
    assert least.with_margin(0.05).limit.tolist() == pytest.approx([4.2, 0.0])
    assert most.with_margin(0.05).limit.tolist() == pytest.approx([0.00475, 0.019])
    problem = Problem(Rate(), WeightedSum(torch.ones(2)), (least, most)).with_margin(0.05)
    assert problem.thresholds.flatten().tolist() == pytest.approx([4.2, 0.0, -0.00475, -0.019])


def test_with_thresholds_sets_limits_of_both_kinds():
    least = Constraint.at_least(Sinr(), limits(4.0, 0.0))
    most = Constraint.below(AveragePower(), limits(0.005, 0.02))
    problem = Problem(Rate(), WeightedSum(torch.ones(2)), (least, most))
    aims = torch.stack((limits(5.0, 1.0), limits(-0.004, -0.01)))
    aimed = problem.with_thresholds(aims)
    assert torch.equal(aimed.thresholds, aims)
    assert aimed.constraints[1].limit.tolist() == [0.004, 0.01]


def test_a_problem_without_constraints_has_empty_rows():
    problem = Problem(Rate(), WeightedSum(torch.ones(2)), ())
    assert not problem.constrained
    for rows in (problem.thresholds, problem.scales, problem.active):
        assert rows.shape == (0, 2)
    assert problem.constraint_values(SINR, POWER).shape == (0, 2, 2)
    assert problem.mean_surplus(SINR, POWER).shape == (0, 2)


def test_the_conditional_mean_has_no_gradient_in_silent_rounds():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    constraint = Constraint.at_least(Sinr(), limits(1.0, 1.0))
    mean = constraint.mean(values, torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    assert mean[0] == 1.0
    assert mean[1].isnan()
    mean.nan_to_num(0.0).sum().backward()
    assert values.grad.tolist() == [[1.0, 0.0], [0.0, 0.0]]


WEIGHTS = torch.tensor([3.0, 1.0], dtype=torch.float64)


def test_utilities_by_hand():
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
    """max_y Σ ω ln y − w·y and its argument, on a fine grid of y."""
    y = torch.linspace(1e-4, 5, 500_001, dtype=torch.float64)
    values = [w * y.log() - p * y for w, p in zip(weights.tolist(), worth.tolist(), strict=True)]
    return sum(float(v.max()) for v in values), [float(y[v.argmax()]) for v in values]


def test_the_conjugate_of_proportional_fairness_is_the_maximum_of_a_grid():
    weights, worth = torch.tensor([[0.3, 0.7], [0.5, 2.0]], dtype=torch.float64)
    best, at = grid_maxima(weights, worth)
    utility = ProportionalFairness(weights)
    assert utility.conjugate(worth) == pytest.approx(best, abs=1e-8)
    assert utility.maximiser(worth).tolist() == pytest.approx(at, abs=1e-5)


def test_the_conjugate_of_the_weighted_sum_is_zero_at_its_weights():
    """g(y) − ω·y = 0 at every y."""
    utility = WeightedSum(WEIGHTS)
    assert utility.linear
    assert utility.conjugate(WEIGHTS) == 0
    y = utility.maximiser(WEIGHTS)
    assert float(utility.value(y) - WEIGHTS @ y) == pytest.approx(0, abs=1e-12)


def test_relative_gaps_are_those_of_the_generalised_mean():
    assert WeightedSum(WEIGHTS).relative_gap(0.5, 0.6) == pytest.approx(0.2)
    assert WeightedSum(WEIGHTS).relative_gap(0.0, 0.6) == math.inf
    # With all y larger by 1 % the geometric mean is larger by 1 %.
    utility, y = ProportionalFairness(WEIGHTS), torch.tensor([0.5, 0.25], dtype=torch.float64)
    gap = utility.relative_gap(float(utility.value(y)), float(utility.value(1.01 * y)))
    assert gap == pytest.approx(0.01)
    assert utility.relative_gap(-math.inf, 0.0) == math.inf
