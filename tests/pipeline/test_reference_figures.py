from __future__ import annotations

import pytest

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
from feduplink.randomness import torch_generator


@pytest.mark.slow
def test_pdg_at_the_default_setting_is_feasible_and_as_good_as_published():
    scenario = Scenario()
    data = TrainingData(
        draw_csi(scenario, 1000, torch_generator(0, "train-channels")),
        draw_csi(scenario, 1000, torch_generator(0, "validation-channels")),
    )
    policy = GraphPolicy.initialised(scenario)
    best = Trainer(PrimalDualLearning(policy, data, TrainingSettings())).run()
    assert best.meets_constraints
    test = draw_csi(scenario, 1000, torch_generator(0, "test-channels"))
    assert judge_policy(policy, test, scenario).objective >= 0.915
