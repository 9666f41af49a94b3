from __future__ import annotations

import pytest
import torch

from feduplink import FullPower, InputError, RandomPower, evaluate, save_policy
from feduplink.comparison import compare, find_policies


def test_outcomes_are_those_of_evaluate(default_csi, default_scenario):
    scenario = default_scenario.replace(csi_noise=1.0)
    outcomes = compare({"max": FullPower(scenario)}, default_csi, scenario, seed=3)
    expected = evaluate(FullPower(scenario), default_csi, scenario, seed=3)
    assert outcomes["max"].judgement.as_metrics() == expected.as_metrics()
    assert outcomes["max"].power.shape == default_csi.shape[:-1]


def test_random_powers_follow_the_seed(default_csi, default_scenario):
    found = find_policies(["rand"], default_scenario, default_csi, seed=4)["rand"]
    expected = RandomPower(default_scenario, seed=4)
    torch.testing.assert_close(found.allocate(default_csi), expected.allocate(default_csi))


def test_a_name_given_twice_counts_once(default_csi, default_scenario):
    assert list(find_policies(["max", "max"], default_scenario, default_csi)) == ["max"]


def test_unknown_policies_are_refused(default_csi, default_scenario):
    with pytest.raises(
        InputError, match="accepted: rand, rand:unselected, orth, orth:unselected, max"
    ):
        find_policies(["moon"], default_scenario, default_csi)


@pytest.mark.parametrize("order", [("saved", "rand"), ("rand", "saved")])
def test_a_saved_policy_and_the_built_in_of_its_name_stay_apart(
    order, default_csi, default_scenario, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    save_policy(RandomPower(default_scenario, seed=7), "saved")
    found = find_policies(order, default_scenario, default_csi, seed=1)
    assert {name: policy.seed for name, policy in found.items()} == {"rand": 1, "rand:saved": 7}
