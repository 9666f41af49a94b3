from __future__ import annotations

import pytest
import torch

from feduplink import (
    GraphPolicy,
    InputError,
    PerceptronPolicy,
    Scenario,
    Training,
    TrainingData,
    draw_csi,
)
from feduplink.policies import GRAPH_HIDDEN, NeuralPolicy
from feduplink.problem import Problem
from feduplink.training import Preset, preset_names, primal_dual_step, training_settings

SCENARIO = Scenario(workers=3)
PAPER = Preset.for_policy(GraphPolicy, "paper")


class OwnPolicy(NeuralPolicy):
    name = "own"
    learning_rate = 0.0625

    def powers(self, csi):
        return csi.diagonal(dim1=-2, dim2=-1)


def test_ours_comes_first_and_trains_at_the_policys_own_rate():
    assert preset_names() == ("ours", "paper")
    for kind in (PerceptronPolicy, GraphPolicy, OwnPolicy):
        ours, paper = Preset.for_policy(kind), Preset.for_policy(kind, "paper")
        assert ours.settings.learning_rate == kind.learning_rate
        assert paper.settings.learning_rate == 1e-3
        assert type(ours.architecture) is type(paper.architecture) is kind.architecture_type
        assert (ours.architecture.silence_w, paper.architecture.silence_w) == (1e-10, 1e-20)


def test_explicit_values_override_those_of_the_preset_and_are_checked():
    settings = training_settings(PerceptronPolicy, "paper", margin=0.1)
    assert (settings.margin, settings.primal_dual_step) == (0.1, 1e-4)
    with pytest.raises(InputError, match=r"^margin: .*less than or equal to 1"):
        training_settings(PerceptronPolicy, "paper", margin=2)


def test_pdg_of_the_paper_is_its_equation():
    """Z ← φ(Ĥ Z Θ) from Z = Pmax 1, with Ĥ = D^(−1/2) H D^(−1/2) and D = diag(H 1)."""
    policy = GraphPolicy.initialised(SCENARIO, 0, PAPER.architecture).double()
    assert [tuple(weights.shape) for weights in policy.parameters()] == [
        (fan_in, fan_out)
        for fan_in, fan_out in zip((1, *GRAPH_HIDDEN), (*GRAPH_HIDDEN, 1), strict=True)
    ]
    csi = draw_csi(SCENARIO, 5, torch.Generator().manual_seed(0)).double()
    for h, power in zip(csi, policy.powers(csi), strict=True):
        scale = torch.diag((h @ torch.ones(3).double()) ** -0.5)
        z = torch.full((3, 1), SCENARIO.pmax_w, dtype=torch.float64)
        *hidden, last = policy.parameters()
        for theta in hidden:
            z = torch.nn.functional.elu(scale @ h @ scale @ z @ theta)
        expected = SCENARIO.pmax_w * torch.sigmoid(scale @ h @ scale @ z @ last)
        torch.testing.assert_close(power, expected[:, 0])


def test_first_update_of_the_paper_by_hand():
    """Raw units, no margin, r and e from the first batch: only y and its multiplier move."""
    policy = GraphPolicy.initialised(SCENARIO, 0, PAPER.architecture)
    csi = draw_csi(SCENARIO, 20, torch.Generator().manual_seed(0))
    training = Training(policy, TrainingData(csi, csi), PAPER.settings)
    rate, efficiency = training._training_problem.constraints
    assert rate.threshold.tolist() == [0.7] * 3
    assert efficiency.threshold.tolist() == [55.0] * 3

    optimizer = torch.optim.SGD(policy.parameters(), lr=0.0)
    problem = Problem.from_scenario(SCENARIO)
    after = primal_dual_step(policy, optimizer, problem, csi, None, PAPER.settings)
    power = policy.allocate(csi)
    reached = (csi.diagonal(dim1=-2, dim2=-1) * power) / (
        1 + (csi * (1 - torch.eye(3)) @ power[..., None])[..., 0]
    )
    rates = reached.log1p()
    torch.testing.assert_close(after.required[0], rates.mean(0).clamp_min(0.7), rtol=1e-4, atol=0)
    efficiencies = (rates / (power + 0.01)).mean(0)
    torch.testing.assert_close(after.required[1], efficiencies.clamp_min(55), rtol=1e-4, atol=0)
    start = torch.exp(-0.023 / reached).mean(0)
    gain = after.achieved - start
    torch.testing.assert_close(gain, 1e-4 * SCENARIO.worker_weights.float(), rtol=0, atol=1e-6)


def test_a_power_between_the_two_silences_is_sent_only_by_the_paper():
    for name, sent in (("paper", True), ("ours", False)):
        architecture = Preset.for_policy(PerceptronPolicy, name).architecture
        policy = PerceptronPolicy.initialised(SCENARIO, 0, architecture)
        with torch.no_grad():
            policy.layers[-1].weight.zero_()
            policy.layers[-1].bias.fill_(-25.0)  # 0.01 W · e^-25 = 1.4e-13 W
        for power in (policy.allocate(torch.ones(1, 3, 3)), policy(torch.ones(1, 3, 3))):
            assert bool((power > 0).all()) is sent
