from __future__ import annotations

import pytest
import torch

from feduplink import FullPower, InputError, OpenLoop, Orthogonal, Scenario, judge
from feduplink.policies import PowerPolicy, allocate_from_noisy_csi, judge_policy


class Recorder(PowerPolicy):
    """Transmits at full power and keeps what it was shown."""

    name = "recorder"

    def powers(self, csi):
        self.seen = csi
        return csi.new_full(csi.shape[:-1], self.scenario.pmax_w)


def test_policy_sees_noise_and_the_true_channels_decide(default_csi):
    noisy = Scenario(csi_noise=1e4)
    policy = Recorder(noisy)
    verdict = judge_policy(policy, default_csi, noisy)
    assert not torch.equal(policy.seen, default_csi)
    assert verdict.objective == judge_policy(policy, default_csi, Scenario()).objective
    assert torch.equal(policy.seen, default_csi)


def test_noise_costs_a_policy_that_relies_on_the_csi(default_csi):
    # About the power that gives each worker alone an SNR of 10; noise hides who is far away.
    def objective(scenario: Scenario) -> float:
        policy = OpenLoop(scenario, target=10.0, fraction=1.0)
        return judge_policy(policy, default_csi, scenario).objective

    assert objective(Scenario(csi_noise=1e8)) < objective(Scenario()) - 0.01


def test_noise_is_the_seeds(default_csi):
    scenario = Scenario(csi_noise=1e6)
    policy = OpenLoop(scenario, target=10.0, fraction=1.0)
    first, again, other = (
        judge_policy(policy, default_csi, scenario, seed=seed).objective for seed in (1, 1, 2)
    )
    assert first == again != other


def test_evaluate_judges_what_the_policy_allocates(default_scenario, default_csi):
    policy = Orthogonal(default_scenario)
    expected = judge(default_scenario, default_csi, policy.allocate(default_csi))
    assert judge_policy(policy, default_csi, default_scenario).as_metrics() == expected.as_metrics()


@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        (torch.ones(3, 4, 4), "csi: 4 workers; accepted here: exactly 8"),
        (torch.full((3, 8, 8), torch.nan), "csi: holds NaN"),
        (torch.zeros(3, 8, 8), "csi: holds a negative or zero gain"),
        (torch.ones(8, 8), r"power: shape \(8,\)"),
    ],
)
def test_bad_channels_are_refused(default_scenario, csi, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        judge_policy(FullPower(default_scenario), csi, default_scenario)


def test_a_device_that_is_not_there_is_refused(default_csi, default_scenario):
    with pytest.raises(InputError, match="device: 'cuda:99' is not on this machine"):
        allocate_from_noisy_csi(
            FullPower(default_scenario), default_csi, default_scenario, device="cuda:99"
        )
