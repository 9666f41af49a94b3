"""A whole run of primal–dual learning under a limit of the user's own: average power, E[p] ≤ P̄."""

from __future__ import annotations

import pytest
import torch

from feduplink import (
    GraphPolicy,
    PrimalDualLearning,
    Scenario,
    Trainer,
    TrainingData,
    TrainingSettings,
    draw_csi,
)
from feduplink.policies import judge_policy


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
    data = TrainingData(training, validation)
    best = Trainer(PrimalDualLearning(policy, data, settings)).run()
    assert best.meets_constraints
    assert all(0.9 * limit < power <= limit for power in best.constraints["power"])
    verdict = judge_policy(policy, unseen, scenario)
    assert verdict.feasible is not False
    assert verdict.violation < 0.05
    assert verdict.objective == pytest.approx(best.objective, rel=0.05)
