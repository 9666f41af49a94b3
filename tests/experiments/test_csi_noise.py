from __future__ import annotations

import torch

from feduplink import Scenario, draw_csi
from feduplink.channels import make_channels
from feduplink.evaluation import judge_policy
from feduplink.experiments import csi_noise
from feduplink.experiments.compared_policies import policy_for
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.judged_settings import judged_setting

from .made import FAILS, HOLDS, IN_PART, sweep, verdicts

NOISES = 7
STEADY = {
    name: [(0.3, 0.5)] * NOISES for name in ("rand", "orth", "rand_unselected", "orth_unselected")
}


def _worse(first: float, step: float) -> list[tuple[float, float]]:
    return [(0.9 - 0.1 * place, first + step * place) for place in range(NOISES)]


def test_claims_that_hold():
    result = sweep(**STEADY, pdm=_worse(0.2, 0.02), pdg=_worse(0.1, 0.02), pdx=_worse(0.1, 0))
    assert verdicts(csi_noise.claims(result)) == [HOLDS] * 4


def test_claims_that_do_not():
    """pdg gets better with the noise, and orth feels it, in one of its readings."""
    shaken = {**STEADY, "orth": [(0.3, 0.5)] * 6 + [(0.35, 0.5)]}
    result = sweep(**shaken, pdm=_worse(0.1, 0.01), pdg=_worse(0.3, -0.01), pdx=_worse(0.1, 0))
    assert verdicts(csi_noise.claims(result)) == [FAILS, IN_PART, IN_PART, HOLDS]


def test_all_see_the_noise_and_the_optimum_does_not(context: ExperimentContext, few_settings: None):
    """The noise of the smallest variance is lost in gains of thousands."""
    result = csi_noise.run(context)
    clean = judged_setting(context, Scenario(), 0).policies
    assert result.values == [1.0, 1e4]
    assert result.policies["optimum"] == [[clean["optimum"]]] * 2
    faint, strong = result.means("pdx", "objective")
    assert abs(faint - clean["pdx"].objective) < 0.02
    assert strong < faint
    told = csi_noise._knowing_noise(policy_for(context, "pdx", Scenario(), 0), 1e4)
    test = make_channels(Scenario(), context.scale.channels, seed=0).test
    assert strong == judge_policy(told, test, told.scenario).objective


def test_pdx_is_told_the_variance(context: ExperimentContext):
    policy = policy_for(context, "pdx", Scenario(), 0)
    told = csi_noise._knowing_noise(policy, 1e5)
    assert told.scenario.csi_noise == 1e5
    csi = draw_csi(Scenario(), 4, torch.Generator().manual_seed(0))
    assert not torch.equal(told.allocate(csi), policy.allocate(csi))
