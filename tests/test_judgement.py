from __future__ import annotations

import json
import math

import pytest
import torch

from feduplink import InputError, Problem, Scenario, judge
from feduplink.problem import Constraint, ProportionalFairness, WeightedSum, transmitting_mean

TWO = Scenario(workers=2, weights=(3.0, 1.0), rate_min=(0.5, 0.6), ee_min=30.0)

#: Two channels; in the second, worker 2 is silent.
CSI = torch.tensor([[[100.0, 10.0], [5.0, 50.0]], [[200.0, 20.0], [10.0, 25.0]]])
POWER = torch.tensor([[0.01, 0.02], [0.005, 0.0]])


def test_every_figure_of_two_workers_by_hand():
    # SINRs: worker 1 is heard at 1/1.2 and 1/1, worker 2 at 1/1.05 and not at all.
    per_1 = 1 - math.exp(-0.023 * 1.2), 1 - math.exp(-0.023)
    per_2 = 1 - math.exp(-0.023 * 1.05)
    rate_1 = (math.log(1 + 1 / 1.2) + math.log(2)) / 2
    rate_2 = math.log(1 + 1 / 1.05)
    efficiency_1 = (math.log(1 + 1 / 1.2) / 0.02 + math.log(2) / 0.015) / 2
    efficiency_2 = rate_2 / 0.03

    verdict = judge(POWER, CSI, TWO)

    expected_psr = (2 - sum(per_1)) / 2, (1 - per_2) / 2  # a silent round counts as a loss
    assert verdict.objective == pytest.approx(3 * expected_psr[0] + expected_psr[1], rel=1e-6)
    assert verdict.weighted_per == pytest.approx((3 * sum(per_1) + per_2) / 7, rel=1e-6)
    assert verdict.participation == 0.75
    assert verdict.worker_rate.tolist() == pytest.approx([rate_1, rate_2], rel=1e-6)
    assert verdict.worker_energy_efficiency.tolist() == pytest.approx(
        [efficiency_1, efficiency_2], rel=1e-6
    )
    assert verdict.rate_min == pytest.approx(rate_1, rel=1e-6)
    assert verdict.energy_efficiency_min == pytest.approx(efficiency_2, rel=1e-6)
    # Only worker 2 misses: its efficiency of 22.3 is short of 30.
    assert verdict.violation == pytest.approx((30 - efficiency_2) / 30, rel=1e-6)
    assert not verdict.feasible


def test_worker_that_never_transmits_has_no_rate_and_breaks_no_constraint():
    power = torch.tensor([[0.01, 0.0], [0.005, 0.0]])
    verdict = judge(power, CSI, TWO)
    assert verdict.worker_rate[1].isnan()
    assert verdict.rate_min == pytest.approx(math.log(2), rel=1e-6)
    assert verdict.participation == 0.5
    assert verdict.violation == 0
    assert verdict.feasible is not False


def test_nobody_transmits():
    verdict = judge(torch.zeros(2, 2), CSI, TWO)
    assert verdict.objective == 0
    assert verdict.participation == 0
    assert math.isnan(verdict.weighted_per)
    assert math.isnan(verdict.rate_min)
    metrics = verdict.as_metrics()
    assert metrics["weighted_per"] is None
    json.dumps(metrics, allow_nan=False)


@pytest.mark.parametrize("constraint", ["rate_min", "ee_min"])
@pytest.mark.parametrize(("shortfall", "feasible"), [(0.0, True), (0.009, True), (0.011, False)])
def test_feasible_is_within_one_percent_of_every_threshold(constraint, shortfall, feasible):
    rate = math.log(2)  # gain 100, power 0.01 W, nobody else
    reached = {"rate_min": rate, "ee_min": rate / 0.02}
    thresholds = {**reached, constraint: reached[constraint] / (1 - shortfall)}
    scenario = Scenario(workers=1, **thresholds)
    power = torch.full((5, 1), 0.01, dtype=torch.float64)
    verdict = judge(power, torch.full((5, 1, 1), 100.0), scenario)
    assert verdict.violation == pytest.approx(shortfall, abs=1e-9)
    assert verdict.feasible is feasible


def test_utilities_by_hand():
    weights = torch.tensor([3.0, 1.0])
    expected = torch.tensor([0.5, 0.25])
    assert WeightedSum(weights).value(expected).item() == pytest.approx(1.75)
    fairness = ProportionalFairness(weights).value(expected)
    assert fairness.item() == pytest.approx(3 * math.log(0.5) + math.log(0.25))


@pytest.mark.parametrize("utility_type", [WeightedSum, ProportionalFairness])
def test_utility_gradient_is_the_derivative_of_its_value(utility_type):
    utility = utility_type(torch.tensor([3.0, 1.0], dtype=torch.float64))
    expected = torch.tensor([0.5, 0.25], dtype=torch.float64, requires_grad=True)
    utility.value(expected).backward()
    torch.testing.assert_close(utility.gradient(expected.detach()), expected.grad)


def test_scenario_chooses_utility_and_objective():
    scenario = TWO.replace(utility="proportional-fairness", objective="rate")
    rates = [(math.log(1 + 1 / 1.2) + math.log(2)) / 2, math.log(1 + 1 / 1.05) / 2]
    assert judge(POWER, CSI, scenario).objective == pytest.approx(
        3 * math.log(rates[0]) + math.log(rates[1]), rel=1e-6
    )


def test_problem_of_the_users_own():
    """Least mean power, worker 1 asked for a mean SINR of 1 while it transmits."""
    problem = Problem(
        objective=lambda _sinr, power: -power,
        utility=WeightedSum(torch.tensor([1.0, 1.0])),
        constraints=(Constraint("sinr", lambda sinr, _power: sinr, torch.tensor([1.0, 0.0])),),
    )
    verdict = judge(POWER, CSI, TWO, problem)
    assert verdict.objective == pytest.approx(-0.0175)
    assert verdict.violation == pytest.approx(1 - (1 / 1.2 + 1) / 2)


def test_relative_constraint_asks_the_same_of_every_unit():
    constraint = Constraint("c", lambda sinr, _power: sinr, torch.tensor([4.0, 0.0]))
    relative = constraint.relative()
    assert relative.threshold.tolist() == [1.0, 0.0]
    assert relative.with_margin(0.05).threshold.tolist() == pytest.approx([1.05, 0.0])
    assert constraint.with_margin(0.05).threshold.tolist() == pytest.approx([4.2, 0.0])
    assert relative.measure(torch.tensor([8.0, 8.0]), POWER[0]).tolist() == [2.0, 8.0]


def test_conditional_mean_passes_no_gradient_to_silent_rounds():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    mean = transmitting_mean(values, torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    assert mean[0] == 1.0
    assert mean[1].isnan()
    mean.nan_to_num(0.0).sum().backward()
    assert values.grad.tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("power", "csi", "sentence"),
    [
        (POWER[:1], CSI, r"^power: shape \(1, 2\)"),
        (POWER[0], CSI[0], r"^power: shape \(2,\)"),
        (POWER[:0], CSI[:0], r"^power: shape \(0, 2\); .*N >= 1"),
        (POWER * torch.nan, CSI, r"^power: .*NaN"),
        (-POWER, CSI, r"^power: .*negative"),
        (POWER, CSI * torch.nan, r"^csi: holds NaN"),
        (POWER, -CSI, r"^csi: holds a negative or zero gain"),
        (POWER, CSI[:, :1], r"^csi: shape \(2, 1, 2\) is not square"),
        (torch.ones(2, 3), torch.ones(2, 3, 3), r"^csi: 3 workers; accepted here: exactly 2"),
    ],
)
def test_bad_powers_and_channels_are_refused(power, csi, sentence):
    with pytest.raises(InputError, match=sentence):
        judge(power, csi, TWO)


@pytest.mark.parametrize(
    ("thresholds", "constrained"),
    [
        ({"rate_min": 0.0, "ee_min": 0.0}, False),
        ({"rate_min": 0.1, "ee_min": 0.0}, True),
        ({"rate_min": 0.0, "ee_min": (0.0, 0.0, 5.0)}, True),
    ],
)
def test_a_problem_is_constrained_by_any_threshold(thresholds: dict, constrained: bool):
    assert Problem.from_scenario(Scenario(workers=3, **thresholds)).constrained is constrained
