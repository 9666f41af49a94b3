from __future__ import annotations

import pytest
import torch

from feduplink import Scenario
from feduplink.scheduling import PhaseNetwork, PhaseProposal, mixing_loss
from feduplink.settings import PhaseSettings
from feduplink.training import PhaseCurriculum, ScheduleLearning, Trainer
from recorder import Stop, StopAt


def test_phases_in_use_have_slopes_and_no_reduced_cost():
    """The loss of a mixture is 0 by complementary slackness; what counts is its slope."""
    rounds = PhaseCurriculum(workers=(4,)).draw(16, torch.Generator().manual_seed(1))
    network = PhaseNetwork.initialised(0)
    proposal = PhaseProposal(rounds)
    loss = mixing_loss(proposal, proposal.propose(network.weights), unused=0.0)
    loss.backward()
    assert abs(loss.item()) < 1e-3
    slopes = [weight.grad for weight in network.parameters() if weight.grad is not None]
    assert any(bool((slope != 0).any()) for slope in slopes)
    assert all(bool(slope.isfinite().all()) for slope in slopes)


def test_training_lowers_the_cost():
    network = PhaseNetwork.initialised(0)
    Trainer(ScheduleLearning(network, Scenario(), PhaseSettings(steps=100, batch_size=8))).run()
    rounds = PhaseCurriculum(workers=(6,)).draw(64, torch.Generator().manual_seed(5))
    costs = []
    for candidate in (PhaseNetwork.initialised(0), network):
        proposal = PhaseProposal(rounds)
        with torch.no_grad():
            proposal.propose(candidate.weights)
        costs.append(float(proposal.master.value.log().mean()))
    assert costs[1] < costs[0]


def test_interrupted_and_resumed_run_equals_an_uninterrupted_one(tmp_path):
    checkpoint, curriculum = tmp_path / "checkpoint.safetensors", PhaseCurriculum(workers=(3, 4))
    whole, parts, resumed = (
        Trainer(
            ScheduleLearning(
                PhaseNetwork.initialised(seed),
                Scenario(),
                PhaseSettings(steps=150, batch_size=2),
                curriculum=curriculum,
            )
        )
        for seed in (0, 0, 1)
    )
    whole.run()
    with pytest.raises(Stop):
        parts.run([StopAt(100, "steps")], checkpoint)
    resumed.resume(checkpoint)
    resumed.run()
    for one, other in zip(
        resumed.trained().network.parameters(), whole.trained().network.parameters(), strict=True
    ):
        assert torch.equal(one, other)
