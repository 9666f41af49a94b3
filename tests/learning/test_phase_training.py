from __future__ import annotations

import torch

from feduplink.scheduling import PhaseNetwork, PhaseProposal, mixing_loss
from feduplink.training import PhaseCurriculum, PhaseSettings, train_phase_network


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
    settings = PhaseSettings(steps=100, batch_size=8)
    trained = train_phase_network(settings, seed=0)
    rounds = PhaseCurriculum(workers=(6,)).draw(64, torch.Generator().manual_seed(5))
    costs = []
    for network in (PhaseNetwork.initialised(0), trained):
        proposal = PhaseProposal(rounds)
        with torch.no_grad():
            proposal.propose(network.weights)
        costs.append(float(proposal.master.value.log().mean()))
    assert costs[1] < costs[0]
