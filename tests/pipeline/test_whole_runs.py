"""Whole runs of primal–dual learning against an answer known from elsewhere.

Two workers on one channel, constant powers: two numbers to learn, and a smooth problem whose
optimum and multipliers scipy and the Karush–Kuhn–Tucker conditions give.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from feduplink import (
    GraphPolicy,
    PrimalDualLearning,
    Problem,
    Scenario,
    Trainer,
    TrainingSettings,
    draw_csi,
    link,
)
from feduplink.policies import NeuralPolicy, judge_policy
from feduplink.randomness import torch_generator
from feduplink.training import primal_dual_step
from splits import split_channels

SCENARIO = Scenario(
    workers=2, weights="ones", pmax_dbw=-15, waterfall=0.5, rate_min=0.5, ee_min=(60, 47)
)
CSI = torch.tensor([[[800.0, 60.0], [30.0, 280.0]]], dtype=torch.float64)


class ConstantPower(NeuralPolicy):
    name = "constant"

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.logits = nn.Parameter(torch.zeros(scenario.workers, dtype=torch.float64))

    def powers(self, csi: Tensor) -> Tensor:
        return (self.scenario.max_power * torch.sigmoid(self.logits)).expand(len(csi), -1)


def objective(power: Tensor) -> Tensor:
    return link.packet_success_rate(link.sinr(CSI[0], power), SCENARIO.waterfall).sum()


def surplus(power: Tensor) -> Tensor:
    """Rates, then efficiencies, relative to their thresholds; ≥ 0 where met, (4,)."""
    rate = link.rate(link.sinr(CSI[0], power))
    efficiency = rate / (power + SCENARIO.static_power_w)
    return torch.cat((rate / SCENARIO.rate_thresholds, efficiency / SCENARIO.ee_thresholds)) - 1


@pytest.fixture(scope="module")
def optimum() -> Tensor:
    def in_watts(scaled: np.ndarray) -> Tensor:
        return torch.from_numpy(scaled) * SCENARIO.max_power

    solution = minimize(
        lambda scaled: -objective(in_watts(scaled)).item(),
        x0=np.array([0.5, 0.5]),
        bounds=[(1e-3, 1.0)] * 2,
        constraints={"type": "ineq", "fun": lambda scaled: surplus(in_watts(scaled)).numpy()},
        options={"ftol": 1e-12},
    )
    assert solution.success
    power = in_watts(solution.x)
    # One efficiency binds, everything else has slack: a constraint shapes the answer.
    assert (surplus(power) < 1e-6).tolist() == [False, False, False, True]
    assert (power < 0.95 * SCENARIO.max_power).all()
    return power


def test_training_lands_on_the_constrained_optimum(optimum):
    settings = TrainingSettings(
        epochs=500, patience=500, learning_rate=0.05, primal_dual_step=0.05, margin=0.0
    )
    policy = ConstantPower(SCENARIO)
    best = Trainer(PrimalDualLearning(policy, split_channels(CSI, CSI), settings)).run()
    assert best.violation == 0
    assert best.objective == pytest.approx(objective(optimum).item(), abs=2e-3)
    torch.testing.assert_close(policy.allocate(CSI)[0], optimum, rtol=0.05, atol=0)


def test_variables_circle_the_saddle_point(optimum):
    """Averaged over whole turns, y and λ_y being an oscillator of period 2π/γ steps."""
    step = 0.05
    turn = round(2 * math.pi / step)
    policy = ConstantPower(SCENARIO)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    problem = Problem.from_scenario(SCENARIO)
    relative = replace(problem, constraints=tuple(c.relative() for c in problem.constraints))
    settings = TrainingSettings(primal_dual_step=step)
    state, powers, states = None, [], []
    for _ in range(10 * turn):
        state = primal_dual_step(policy, optimizer, relative, CSI, state, settings)
        powers.append(policy(CSI)[0].detach())
        states.append(state)

    def mean(values: list[Tensor]) -> Tensor:
        return torch.stack(values[-5 * turn :]).mean(0)

    # Stationarity: the gradient of the objective is balanced by the binding constraint's.
    jacobian = torch.autograd.functional.jacobian
    ascent, descent = jacobian(objective, optimum), jacobian(surplus, optimum)[3]
    multiplier = -(ascent @ descent) / (descent @ descent)
    torch.testing.assert_close(mean(powers), optimum, rtol=0.03, atol=0)
    torch.testing.assert_close(
        mean([s.objective_multiplier for s in states]),
        torch.ones(2, dtype=torch.float64),  # ∇g: the weights
        rtol=0.01,
        atol=0,
    )
    torch.testing.assert_close(
        mean([s.constraint_multiplier for s in states]).flatten(),
        torch.stack([torch.zeros_like(multiplier)] * 3 + [multiplier]),
        rtol=0.1,
        atol=0.01,
    )


# A whole run of primal–dual learning under a limit of the user's own: average power, E[p] ≤ P̄.


def test_pdg_lowers_its_average_power_to_the_limit():
    """From 4.8 mW on average to 2 mW, also on channels that it has not seen."""
    limit = 0.002
    scenario = Scenario(
        workers=3,
        objective="rate",
        rate_min=0,
        ee_min=0,
        constraints=f"link.own_measures:AveragePower <= {limit}",
    )
    training, validation, unseen = draw_csi(scenario, 600, torch.Generator().manual_seed(0)).chunk(
        3
    )
    settings = TrainingSettings(
        epochs=100, patience=100, batch_size=50, learning_rate=2e-3, primal_dual_step=5e-3
    )
    policy = GraphPolicy.initialised(scenario)
    assert (policy.allocate(validation).mean(0) > 2 * limit).all()
    data = split_channels(training, validation)
    best = Trainer(PrimalDualLearning(policy, data, settings)).run()
    assert best.meets_constraints
    assert all(0.9 * limit < power <= limit for power in best.constraints["power"])
    verdict = judge_policy(policy, unseen, scenario)
    assert verdict.feasible is not False
    assert verdict.violation < 0.05
    assert verdict.objective == pytest.approx(best.objective, rel=0.05)


@pytest.mark.slow
def test_pdg_at_the_default_setting_is_feasible_and_as_good_as_published():
    scenario = Scenario()
    data = split_channels(
        draw_csi(scenario, 1000, torch_generator(0, "train-channels")),
        draw_csi(scenario, 1000, torch_generator(0, "validation-channels")),
    )
    policy = GraphPolicy.initialised(scenario)
    best = Trainer(PrimalDualLearning(policy, data, TrainingSettings())).run()
    assert best.meets_constraints
    test = draw_csi(scenario, 1000, torch_generator(0, "test-channels"))
    assert judge_policy(policy, test, scenario).objective >= 0.915
