from __future__ import annotations

import pytest
import torch

from feduplink import Problem, Scenario, link
from feduplink.problem import Constraint, ProportionalFairness, WeightedSum
from feduplink.training import Expectations, PrimalDualState
from link.own_measures import AveragePower

SCENARIO = Scenario(workers=2, weights=(0.75, 0.25), rate_min=(0.5, 0.6), ee_min=(30.0, 40.0))
PROBLEM = Problem.from_scenario(SCENARIO)
CSI = torch.tensor([[[100.0, 10.0], [5.0, 50.0]], [[200.0, 20.0], [10.0, 25.0]]])


def expectations(objective: list[float], constraints: list[list[float]]) -> Expectations:
    return Expectations(
        torch.tensor(objective, dtype=torch.float64), torch.tensor(constraints, dtype=torch.float64)
    )


def test_expectations_are_means_over_the_batch_and_over_the_rounds_on_the_air():
    power = torch.tensor([[0.01, 0.02], [0.005, 0.0]])
    expected = Expectations.estimate(PROBLEM, CSI, power)
    sinr = link.sinr(CSI, power)
    rate = torch.log(1 + sinr)
    psr = torch.exp(-0.023 / sinr)
    torch.testing.assert_close(expected.objective, psr.mean(0))
    torch.testing.assert_close(
        expected.constraints,
        torch.stack(
            (
                torch.stack((rate[:, 0].mean(), rate[0, 1])),
                torch.stack(((rate / (power + 0.01))[:, 0].mean(), rate[0, 1] / 0.03)),
            )
        ),
    )


def test_starts_at_what_is_achieved_and_what_is_required():
    first = expectations([0.6, 0.9], [[9.0, 9.0], [99.0, 99.0]])
    state = PrimalDualState.start(PROBLEM, first)
    assert state.achieved.tolist() == [0.6, 0.9]
    assert state.required.tolist() == [[0.5, 0.6], [30.0, 40.0]]
    assert state.objective_multiplier.tolist() == [0, 0]
    assert state.constraint_multiplier.tolist() == [[0, 0], [0, 0]]


def test_two_updates_by_hand():
    """y += γ(∇g − λy); c = max(c − γ λ, c0); λ = max(λ − γ(E − x), 0), with γ = 0.1."""
    start = PrimalDualState.start(PROBLEM, expectations([0.6, 0.9], [[0, 0], [0, 0]]))

    first = start.updated(PROBLEM, expectations([0.6, 0.8], [[0.4, 0.7], [35.0, 10.0]]), 0.1)
    # y: 0.6 + 0.1·0.75, 0.9 + 0.1·0.25; λy: 0.1·(0.675 − 0.6), 0.1·(0.925 − 0.8).
    assert first.achieved.tolist() == pytest.approx([0.675, 0.925])
    assert first.objective_multiplier.tolist() == pytest.approx([0.0075, 0.0125])
    # Only the first rate (0.4 under 0.5) and the second efficiency (10 under 40) are short.
    assert first.required.tolist() == [[0.5, 0.6], [30.0, 40.0]]
    assert first.constraint_multiplier.flatten().tolist() == pytest.approx([0.01, 0, 0, 3.0])

    second = first.updated(PROBLEM, expectations([0.7, 0.8], [[0.45, 0.7], [35.0, 90.0]]), 0.1)
    achieved = 0.675 + 0.1 * (0.75 - 0.0075), 0.925 + 0.1 * (0.25 - 0.0125)
    assert second.achieved.tolist() == pytest.approx(achieved)
    assert second.objective_multiplier.tolist() == pytest.approx(
        [0.0075 - 0.1 * (0.7 - achieved[0]), 0.0125 - 0.1 * (0.8 - achieved[1])]
    )
    # 0.01 − 0.1·(0.45 − 0.5); 3 − 0.1·(90 − 40) stops at zero.
    assert second.constraint_multiplier.flatten().tolist() == pytest.approx([0.015, 0, 0, 0])


def test_required_comes_down_to_the_thresholds_and_no_further():
    high = PrimalDualState(
        achieved=torch.zeros(2),
        required=torch.tensor([[0.8, 0.61], [30.0, 40.0]]),
        objective_multiplier=torch.zeros(2),
        constraint_multiplier=torch.ones(2, 2),
    )
    after = high.updated(PROBLEM, expectations([0, 0], [[1, 1], [50, 50]]), 0.1)
    assert after.required.flatten().tolist() == pytest.approx([0.7, 0.6, 30.0, 40.0])


def test_utility_drives_what_counts_as_achieved():
    expected = expectations([0.5, 0.2], [[1, 1], [50, 50]])
    for utility, gradient in ((WeightedSum, [0.75, 0.25]), (ProportionalFairness, [1.5, 1.25])):
        problem = Problem(PROBLEM.objective, utility(SCENARIO.worker_weights), PROBLEM.constraints)
        after = PrimalDualState.start(problem, expected).updated(problem, expected, 0.1)
        assert after.achieved.tolist() == pytest.approx(
            [0.5 + 0.1 * gradient[0], 0.2 + 0.1 * gradient[1]]
        )


def test_lagrangian_by_hand_without_silent_workers():
    state = PrimalDualState(
        achieved=torch.zeros(2),
        required=torch.zeros(2, 2),
        objective_multiplier=torch.tensor([2.0, 3.0]),
        constraint_multiplier=torch.tensor([[4.0, 5.0], [6.0, 7.0]]),
    )
    expected = expectations([0.5, 0.0], [[0.7, torch.nan], [50.0, torch.nan]])
    assert state.lagrangian(expected).item() == pytest.approx(2 * 0.5 + 4 * 0.7 + 6 * 50)
    after = state.updated(PROBLEM, expected, 0.1)
    assert after.constraint_multiplier[:, 1].tolist() == [5.0, 7.0]


def test_gradient_is_finite_when_a_worker_is_silent_throughout_the_batch():
    power = torch.tensor([[0.01, 0.0], [0.01, 0.0]], requires_grad=True)
    expected = Expectations.estimate(PROBLEM, CSI, power)
    state = PrimalDualState(torch.zeros(2), torch.zeros(2, 2), torch.ones(2), torch.ones(2, 2))
    state.lagrangian(expected).backward()
    assert power.grad.isfinite().all()
    assert (power.grad[:, 0] != 0).all()


def test_an_upper_limit_over_all_rounds_by_hand():
    """E[p] of 7.5 and 10 mW against 5 and 12 mW: the first worker pays, by γ (7.5 − 5) mW."""
    limit = torch.tensor([0.005, 0.012], dtype=torch.float64)
    problem = Problem(
        PROBLEM.objective, PROBLEM.utility, (Constraint.below(AveragePower(), limit),)
    )
    power = torch.tensor([[0.01, 0.02], [0.005, 0.0]], dtype=torch.float64, requires_grad=True)
    expected = Expectations.estimate(problem, CSI.double(), power)
    assert expected.constraints.flatten().tolist() == pytest.approx([-0.0075, -0.01])
    state = PrimalDualState.start(problem, expected)
    assert state.required.flatten().tolist() == [-0.005, -0.012]
    after = state.updated(problem, expected, 0.1)
    assert after.constraint_multiplier.flatten().tolist() == pytest.approx([0.1 * 0.0025, 0.0])
    # And the Lagrangian falls with its power, in silent rounds too.
    (after.constraint_multiplier * expected.constraints).sum().backward()
    assert power.grad.flatten().tolist() == pytest.approx([-0.000125, 0.0, -0.000125, 0.0])
