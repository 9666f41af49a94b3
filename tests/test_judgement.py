from __future__ import annotations

import json
import math

import pytest
import torch

from feduplink import Constraint, InputError, Judgement, Problem, Scenario, judge
from feduplink.problem import WeightedSum
from link.own_measures import AveragePower, PowerOnAir, Sinr

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
    rate, efficiency = verdict.constraints["rate"], verdict.constraints["energy_efficiency"]
    assert rate.expected.tolist() == pytest.approx([rate_1, rate_2], rel=1e-6)
    assert efficiency.expected.tolist() == pytest.approx([efficiency_1, efficiency_2], rel=1e-6)
    assert rate.worst == pytest.approx(rate_1, rel=1e-6)
    assert efficiency.worst == pytest.approx(efficiency_2, rel=1e-6)
    metrics = verdict.as_metrics()
    assert metrics["rate_min"] == rate.worst
    assert metrics["energy_efficiency_min"] == efficiency.worst
    # Only worker 2 misses: its efficiency of 22.3 is short of 30.
    assert verdict.violation == pytest.approx((30 - efficiency_2) / 30, rel=1e-6)
    assert not verdict.feasible


def test_worker_that_never_transmits_has_no_rate_and_breaks_no_constraint():
    power = torch.tensor([[0.01, 0.0], [0.005, 0.0]])
    verdict = judge(power, CSI, TWO)
    assert verdict.constraints["rate"].expected[1].isnan()
    assert verdict.constraints["rate"].worst == pytest.approx(math.log(2), rel=1e-6)
    assert verdict.participation == 0.5
    assert verdict.violation == 0
    assert verdict.feasible is not False


def test_nobody_transmits():
    verdict = judge(torch.zeros(2, 2), CSI, TWO)
    assert verdict.objective == 0
    assert verdict.participation == 0
    assert math.isnan(verdict.weighted_per)
    assert math.isnan(verdict.constraints["rate"].worst)
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


def test_scenario_chooses_utility_and_objective():
    scenario = TWO.replace(utility="proportional-fairness", objective="rate")
    rates = [(math.log(1 + 1 / 1.2) + math.log(2)) / 2, math.log(1 + 1 / 1.05) / 2]
    assert judge(POWER, CSI, scenario).objective == pytest.approx(
        3 * math.log(rates[0]) + math.log(rates[1]), rel=1e-6
    )


def own_problem(*constraints: Constraint) -> Problem:
    """Most mean power, under constraints of the user's own."""
    weights = torch.ones(2, dtype=torch.float64)
    return Problem(objective=AveragePower(), utility=WeightedSum(weights), constraints=constraints)


def test_an_upper_limit_on_the_mean_over_all_rounds_by_hand():
    """Worker 1 sends 10 and 5 mW, worker 2 sends 20 mW and nothing: 7.5 and 10 mW on average."""
    limit = torch.tensor([0.0075, 0.008], dtype=torch.float64)
    verdict = judge(POWER, CSI, TWO, own_problem(Constraint.below(AveragePower(), limit)))
    assert verdict.objective == pytest.approx(0.0175)
    assert verdict.constraints["power"].expected.tolist() == pytest.approx([0.0075, 0.01])
    assert verdict.constraints["power"].worst == pytest.approx(0.01)
    assert verdict.as_metrics()["power_max"] == pytest.approx(0.01)
    assert verdict.violation == pytest.approx(0.25)  # 10 mW are 25 % above 8 mW
    silent = judge(0 * POWER, CSI, TWO, own_problem(Constraint.below(AveragePower(), limit)))
    assert silent.shortfall == pytest.approx(-1)  # all of the limit to spare
    assert silent.feasible is True


def test_a_lower_limit_on_the_mean_over_all_rounds_is_missed_by_silence():
    limit = torch.tensor([0.0, 0.0125], dtype=torch.float64)
    problem = own_problem(Constraint.at_least(AveragePower(), limit))
    assert judge(POWER, CSI, TWO, problem).violation == pytest.approx(0.2)
    verdict = judge(POWER * torch.tensor([1.0, 0.0]), CSI, TWO, problem)
    assert verdict.violation == pytest.approx(1.0)
    assert verdict.feasible is False


def test_limits_on_means_while_on_the_air_by_hand():
    """Worker 2 sends in one of two rounds: its mean power is 20 mW there and its SINR 1/1.05."""
    problem = own_problem(
        Constraint.below(PowerOnAir(), torch.tensor([0.01, 0.016], dtype=torch.float64)),
        Constraint.at_least(Sinr(), torch.tensor([1.0, 0.0], dtype=torch.float64)),
    )
    verdict = judge(POWER, CSI, TWO, problem)
    power, sinr = verdict.constraints["power_on_air"], verdict.constraints["sinr"]
    assert power.expected.tolist() == pytest.approx([0.0075, 0.02])
    assert sinr.expected.tolist() == pytest.approx([(1 / 1.2 + 1) / 2, 1 / 1.05])
    assert (power.key, sinr.key) == ("power_on_air_max", "sinr_min")
    assert verdict.violation == pytest.approx(0.25)
    sinr_only = own_problem(problem.constraints[1])
    assert judge(POWER, CSI, TWO, sinr_only).violation == pytest.approx(1 - (1 / 1.2 + 1) / 2)


def test_the_worst_worker_is_the_one_nearest_to_its_limit_or_beyond():
    silent = torch.tensor([[0.01, 0.0], [0.005, 0.0]])
    at_most = own_problem(Constraint.below(PowerOnAir(), torch.ones(2, dtype=torch.float64)))
    assert judge(POWER, CSI, TWO, at_most).constraints["power_on_air"].worst == pytest.approx(0.02)
    assert judge(silent, CSI, TWO, at_most).constraints["power_on_air"].worst == pytest.approx(
        0.0075
    )


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
