from __future__ import annotations

import pytest
import torch

from feduplink import FullPower, InputError, OpenLoop, RandomPower, Scenario, link, save_policy
from feduplink.channels import noisy_csi
from feduplink.comparison import compare, comparison_notes, find_policies
from feduplink.randomness import torch_generator


def test_policies_see_the_noise_and_are_judged_on_the_true_channels(default_csi, default_scenario):
    """Noise of the size of the gains, the same for both policies."""
    scenario = default_scenario.replace(csi_noise=1e6)
    loop = OpenLoop(scenario, target=3.0, fraction=0.8)
    outcomes = compare({"a": loop, "b": loop}, default_csi, scenario, seed=3)
    seen = noisy_csi(default_csi, 1e6, torch_generator(3, "csi-noise"))
    power = loop.allocate(seen)
    assert outcomes["a"].power.equal(power)
    assert outcomes["b"].power.equal(power)
    assert not power.equal(loop.allocate(default_csi))
    # The objective by its formula, Σ ω exp(−m / SINR), on the channels without noise.
    sinr = link.sinr(default_csi.double(), power.double())
    success = (-scenario.waterfall / sinr).exp().mean(0)
    expected = float((scenario.worker_weights * success).sum())
    assert outcomes["a"].judgement.objective == pytest.approx(expected, rel=1e-9)


def test_random_powers_follow_the_seed(default_csi, default_scenario):
    def powers(name: str, seed: int) -> torch.Tensor:
        return find_policies([name], default_scenario, default_csi, seed=seed)[name].allocate(
            default_csi
        )

    for name in ("rand", "rand:unselected"):
        assert powers(name, 4).equal(powers(name, 4))
        assert not powers(name, 4).equal(powers(name, 5))
    selected, everyone = powers("rand", 4), powers("rand:unselected", 4)
    assert (everyone > 0).all()
    assert 0 < (selected > 0).sum() < selected.numel()
    assert selected[selected > 0].equal(everyone[selected > 0])


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


def test_a_policy_made_for_another_scenario_is_noted(default_csi, default_scenario):
    policies = {"here": FullPower(default_scenario), "there": FullPower(Scenario(antennas=4))}
    outcomes = compare(policies, default_csi, default_scenario)
    assert comparison_notes(outcomes) == [
        "there was made for another scenario: antennas 4 (here 10)"
    ]
    assert outcomes["there"].as_metrics()["made_for"] == {"antennas": (4, 10)}
    assert "made_for" not in outcomes["here"].as_metrics()
    # How channels would be drawn does not matter where they are recorded.
    assert not comparison_notes(compare(policies, default_csi, default_scenario, recorded=True))


def test_a_saved_policy_of_another_scenario_is_warned_of(default_csi, default_scenario, tmp_path):
    save_policy(FullPower(Scenario(objective="rate", pmax_dbw=-10)), tmp_path)
    with pytest.warns(UserWarning, match=r"pmax_dbw -10 \(here -20\), objective rate \(here psr\)"):
        find_policies([str(tmp_path)], default_scenario, default_csi)
