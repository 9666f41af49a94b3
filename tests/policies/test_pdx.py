from __future__ import annotations

from pathlib import Path

import pytest
import torch

from feduplink import DualPolicy, InputError, Problem, Scenario, draw_csi, load_policy
from feduplink.channels import draw_training_csi, make_channels
from feduplink.lagrangian import ChannelBatch, DualPoint, Multipliers, maximise
from feduplink.link import sinr
from feduplink.optimum import calibrate_multipliers, solve_dual
from feduplink.policies import (
    CHANNELS,
    UnrolledPolicy,
    judge_policy,
    make_policy,
    pdx,
    shipped_network,
    shipped_pdx,
)


def shipped(scenario: Scenario, rate_price: float = 1e-3, ee_price: float = 5e-5) -> UnrolledPolicy:
    price = torch.tensor([[rate_price], [ee_price]], dtype=torch.float64)
    multipliers = Multipliers(price.expand(2, scenario.workers), scenario.worker_weights)
    thresholds = Problem.from_scenario(scenario).thresholds
    return UnrolledPolicy(scenario, shipped_network(), DualPoint(multipliers, thresholds))


def test_shipped_policy_is_for_the_default_scenario_and_small():
    policy = shipped_pdx()
    assert policy.scenario == Scenario()
    assert sum(t.nbytes for t in policy.tensors().values()) < 2e6


def test_is_near_the_maximum_of_the_lagrangian_where_silence_pays():
    scenario = Scenario(interference=8, rate_min=0.25, ee_min=20)
    policy = shipped(scenario, 0.03, 4e-4)
    csi = draw_csi(scenario, 200, torch.Generator().manual_seed(3)).double()
    batch, prices = ChannelBatch.from_scenario(scenario, csi), policy.prices(csi)
    best = maximise(batch, prices)
    power = policy.allocate(csi)
    assert batch.value(power, prices).mean() > batch.value(best, prices).mean() - 0.005
    assert (best > 0).double().mean() < 0.96
    assert abs((power > 0).double().mean() - (best > 0).double().mean()) < 0.05


def test_unsupported_measures_are_refused_in_one_sentence():
    scenario = Scenario(workers=3, constraints="link.own_measures:AveragePower <= 0.001")
    csi = draw_csi(scenario, 10, torch.Generator().manual_seed(1))
    with pytest.raises(InputError, match=r"^pdx: the measure power was given; accepted: packet"):
        shipped_pdx(scenario, csi)


def test_other_numbers_of_workers_get_mean_multipliers():
    """Two workers of one price each in a scenario of two; three cost the mean of them."""
    scenario = Scenario(workers=2, rate_min=(0.2, 0.4), ee_min=0.0)
    multipliers = Multipliers(
        torch.tensor([[1e-3, 3e-3], [0.0, 0.0]]).double(), torch.tensor([0.25, 0.75]).double()
    )
    point = DualPoint(multipliers, Problem.from_scenario(scenario).thresholds)
    policy = UnrolledPolicy(scenario, shipped_network(), point)
    prices = policy.prices(torch.ones(1, 3, 3))
    torch.testing.assert_close(prices.success, torch.full((3,), 0.5).double())
    torch.testing.assert_close(prices.rate, torch.full((3,), 2e-3).double())
    torch.testing.assert_close(prices.activation_cost, torch.full((3,), 2e-3 * 0.3).double())


def test_the_shipped_network_meets_the_constraints_of_a_scenario_near_its_optimum():
    """Multipliers from some channels, judged on others."""
    scenario = Scenario(workers=5, rate_min=0.9, ee_min=70)
    tuning, unseen = draw_csi(scenario, 4000, torch.Generator().manual_seed(1)).chunk(2)
    verdict = judge_policy(shipped_pdx(scenario, tuning, margin=0.0), unseen, scenario)
    assert verdict.feasible is not False
    assert verdict.violation < 0.05  # both samples tell a mean to within 2 %
    assert verdict.objective > solve_dual(scenario, unseen).dual_value - 0.01


def test_multipliers_are_zero_without_constraints():
    scenario = Scenario(workers=3, rate_min=0.0, ee_min=0.0)
    policy = shipped_pdx(scenario, draw_csi(scenario, 100, torch.Generator().manual_seed(1)))
    assert torch.equal(policy.point.multipliers.constraints, torch.zeros(2, 3).double())


def test_the_margin_aims_above_the_thresholds():
    """Channels not tuned on: without a margin they miss a constraint, with it they meet all."""
    scenario = Scenario(workers=3, interference=4)
    tuning = draw_csi(scenario, 500, torch.Generator().manual_seed(2))
    unseen = draw_csi(scenario, 2000, torch.Generator().manual_seed(6))
    exact, above = (shipped_pdx(scenario, tuning, margin=margin) for margin in (0.0, 2.0))
    assert torch.equal(exact.point.thresholds[0], scenario.rate_thresholds)
    assert (above.point.thresholds[0] > scenario.rate_thresholds).all()
    missed, met = (judge_policy(policy, unseen, scenario) for policy in (exact, above))
    assert missed.violation > 0
    assert met.violation == 0
    assert met.objective < missed.objective


def test_pdx_of_a_scenario_does_not_depend_on_the_seed():
    scenario = Scenario(workers=1, csi_noise=4.0)
    one, other = (make_policy("pdx", scenario, seed=seed).tensors() for seed in (1, 2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_pdx_of_the_default_scenario_is_the_shipped_one():
    """Whoever asks for it, and bit for bit: nothing is calibrated again."""
    shipped = load_policy(Path(pdx.__file__).with_name("pdx.safetensors"))
    drawn = make_channels(Scenario(), 5)
    for found in (shipped_pdx(), make_policy("pdx", Scenario(), channels=drawn)):
        assert found.scenario == shipped.scenario
        assert all(torch.equal(t, shipped.tensors()[name]) for name, t in found.tensors().items())


@pytest.mark.slow
def test_shipped_multipliers_equal_calibrated_ones():
    scenario, shipped = Scenario(), shipped_pdx().point
    csi = draw_training_csi(scenario, CHANNELS)
    found = calibrate_multipliers(
        scenario, csi, shipped_network(), problem=Problem.from_scenario(scenario)
    )
    for name, tensor in vars(found.multipliers).items():
        expected = getattr(shipped.multipliers, name)
        torch.testing.assert_close(tensor, expected, rtol=1e-3, atol=1e-9)
    torch.testing.assert_close(found.thresholds, shipped.thresholds, rtol=1e-5, atol=0)


def test_multipliers_are_zero_without_thresholds():
    scenario = Scenario(workers=4, rate_min=0.0, ee_min=0.0)
    csi = draw_csi(scenario, 50, torch.Generator().manual_seed(1))
    for policy in (DualPolicy.learned(scenario, csi), shipped_pdx(scenario, csi)):
        assert torch.equal(policy.point.thresholds, policy.problem.thresholds)
        assert not policy.point.multipliers.constraints.any()


def test_fairness_gives_weak_workers_more_weight():
    """Its weights are variables: at the optimum those of the gradient at what is achieved."""
    scenario = Scenario(
        workers=3, utility="proportional-fairness", weights="ones", rate_min=0.0, ee_min=0.0
    )
    csi = draw_csi(scenario, 3000, torch.Generator().manual_seed(1))
    csi = csi * torch.tensor([1.0, 1.0, 0.05])[:, None]  # the third is far away
    policy = shipped_pdx(scenario, csi)
    power = policy.allocate(csi)
    achieved = policy.problem.objective.value(sinr(csi, power), power).mean(0).double()
    wanted = policy.problem.utility.gradient(achieved)
    found = policy.point.multipliers.objective_weight
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0)
    assert found[2] > found[0]
