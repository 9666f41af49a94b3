from __future__ import annotations

import pytest
import torch

from feduplink import DualPolicy, InputError, Scenario, draw_csi, evaluate
from feduplink.lagrangian import Cell, Multipliers
from feduplink.optimum import learn_dual_policy, solve_dual


def _policy(scenario: Scenario) -> DualPolicy:
    constraints = torch.full((2, scenario.workers), 1e-4, dtype=torch.float64)
    return DualPolicy(scenario, Multipliers(constraints, scenario.worker_weights))


def test_maximises_the_lagrangian(generator: torch.Generator):
    """No powers of a fine grid are better, silence and full power among them."""
    scenario = Scenario(workers=2, interference=4.0)
    csi = draw_csi(scenario, 6, generator).double()
    policy = DualPolicy(
        scenario,
        Multipliers(torch.tensor([[0.1, 0.0], [0.0, 2e-3]]).double(), scenario.worker_weights),
    )
    prices = policy.multipliers.prices(scenario)
    steps = torch.cat((torch.zeros(1), torch.logspace(-7, -2, 200))).double()
    grid = torch.cartesian_prod(steps, steps)
    power = policy.allocate(csi)
    for channel, chosen in zip(csi, power, strict=True):
        batch = Cell.of(scenario, channel.expand(len(grid), 2, 2))
        best = batch.value(grid, prices).max()
        value = Cell.of(scenario, channel[None]).value(chosen[None], prices)
        assert value.item() >= best.item() - 1e-6
    assert ((power > 0) & (power < 0.99 * scenario.pmax_w)).any()  # not all at an end


def test_a_channel_does_not_care_for_its_batch(
    default_scenario: Scenario, default_csi: torch.Tensor
):
    policy = _policy(default_scenario)
    prices = policy.multipliers.prices(default_scenario)
    csi = default_csi.double()
    together = Cell.of(default_scenario, csi[:8]).value(policy.allocate(csi)[:8], prices)
    alone = torch.cat([policy.allocate(csi[k : k + 1]) for k in range(8)])
    value = Cell.of(default_scenario, csi[:8]).value(alone, prices)
    torch.testing.assert_close(value, together, atol=1e-5, rtol=1e-5)


def test_takes_only_its_own_workers(default_csi: torch.Tensor):
    with pytest.raises(InputError, match="8 workers; accepted here: exactly 4"):
        _policy(Scenario(workers=4)).allocate(default_csi)


def test_learned_multipliers_hold_on_unseen_channels():
    scenario = Scenario(workers=3, interference=4)
    training = draw_csi(scenario, 1500, torch.Generator().manual_seed(5))
    unseen = draw_csi(scenario, 1500, torch.Generator().manual_seed(6))
    policy = learn_dual_policy(scenario, training)
    assert (policy.multipliers.constraints > 0).any()
    verdict = evaluate(policy, unseen, scenario)
    assert verdict.violation < 0.03  # two standard errors of 1500 channels
    own = solve_dual(scenario, unseen)
    assert abs(own.dual_value - verdict.objective) < 0.005
