from __future__ import annotations

import pytest
import torch

from feduplink import DualPolicy, InputError, Problem, Scenario, draw_csi
from feduplink.channels import draw_training_csi
from feduplink.lagrangian import ChannelBatch, DualPoint, Multipliers
from feduplink.optimum import solve_dual
from feduplink.policies import judge_policy, make_policy


def _with(scenario: Scenario, constraints: torch.Tensor) -> DualPolicy:
    multipliers = Multipliers(constraints.double(), scenario.worker_weights)
    return DualPolicy(scenario, DualPoint(multipliers, Problem.from_scenario(scenario).thresholds))


def _policy(scenario: Scenario) -> DualPolicy:
    return _with(scenario, torch.full((2, scenario.workers), 1e-4))


def test_maximises_the_lagrangian(generator: torch.Generator):
    """No powers of a fine grid are better, silence and full power among them."""
    scenario = Scenario(workers=2, interference=4.0)
    csi = draw_csi(scenario, 6, generator).double()
    policy = _with(scenario, torch.tensor([[0.1, 0.0], [0.0, 2e-3]]))
    prices = policy.prices(csi)
    steps = torch.cat((torch.zeros(1), torch.logspace(-7, -2, 200))).double()
    grid = torch.cartesian_prod(steps, steps)
    power = policy.allocate(csi)
    for channel, chosen in zip(csi, power, strict=True):
        batch = ChannelBatch.from_scenario(scenario, channel.expand(len(grid), 2, 2))
        best = batch.value(grid, prices).max()
        value = ChannelBatch.from_scenario(scenario, channel[None]).value(chosen[None], prices)
        assert value.item() >= best.item() - 1e-6
    assert ((power > 0) & (power < 0.99 * scenario.pmax_w)).any()  # not all at an end


def test_a_channel_does_not_care_for_its_batch(
    default_scenario: Scenario, default_csi: torch.Tensor
):
    policy = _policy(default_scenario)
    csi = default_csi.double()
    prices = policy.prices(csi)
    together = ChannelBatch.from_scenario(default_scenario, csi[:8]).value(
        policy.allocate(csi)[:8], prices
    )
    alone = torch.cat([policy.allocate(csi[k : k + 1]) for k in range(8)])
    value = ChannelBatch.from_scenario(default_scenario, csi[:8]).value(alone, prices)
    torch.testing.assert_close(value, together, atol=1e-5, rtol=1e-5)


def test_takes_only_its_own_workers(default_csi: torch.Tensor):
    with pytest.raises(InputError, match="8 workers; accepted here: exactly 4"):
        _policy(Scenario(workers=4)).allocate(default_csi)


def test_learned_multipliers_hold_on_unseen_channels():
    scenario = Scenario(workers=3, interference=4)
    training = draw_csi(scenario, 1500, torch.Generator().manual_seed(5))
    unseen = draw_csi(scenario, 1500, torch.Generator().manual_seed(6))
    policy = DualPolicy.learned(scenario, training)
    assert (policy.point.multipliers.constraints > 0).any()
    verdict = judge_policy(policy, unseen, scenario)
    assert verdict.violation < 0.03  # two standard errors of 1500 channels
    own = solve_dual(scenario, unseen)
    assert abs(own.dual_value - verdict.objective) < 0.005


def test_a_seed_draws_the_channels_that_multipliers_are_learned_on():
    scenario = Scenario(workers=1, rate_min=2.0, ee_min=110)
    drawn, other = (DualPolicy.make(scenario, seed=seed).point for seed in (0, 1))
    again = DualPolicy.learned(scenario, draw_training_csi(scenario, 20_000, seed=0)).point
    assert torch.equal(drawn.thresholds, again.thresholds)
    assert not torch.equal(drawn.thresholds, other.thresholds)
    assert (drawn.thresholds > Problem.from_scenario(scenario).thresholds).all()


def test_thresholds_get_a_margin_for_unseen_channels():
    scenario = Scenario(workers=2, rate_min=2.0, ee_min=110)
    training = draw_csi(scenario, 30, torch.Generator().manual_seed(7))
    thresholds = Problem.from_scenario(scenario).thresholds
    recorded = make_policy("dual", scenario, channels=training)
    assert (recorded.point.thresholds > thresholds).all()
    assert judge_policy(recorded, training, scenario).violation == 0
