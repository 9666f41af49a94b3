from __future__ import annotations

import pytest
import torch

from feduplink import (
    Constraint,
    Evaluation,
    FullPower,
    InputError,
    Problem,
    RandomPower,
    Scenario,
    evaluate,
    judge,
    save_policy,
)
from feduplink.channels import make_channels
from feduplink.policies import default_policies, make_policies, make_policy
from feduplink.registry import POLICIES
from feduplink.workflows.evaluation import judge_policies
from link.own_measures import AveragePower


def test_policies_see_the_noise_and_the_true_channels_judge(default_csi, default_scenario):
    """A policy that answers to what it sees: full power where the direct gain looks large."""

    class Loud(FullPower):
        def powers(self, csi):
            gain = csi.diagonal(dim1=-2, dim2=-1)
            return torch.where(gain > gain.median(), super().powers(csi), 0.0)

    scenario = default_scenario.replace(csi_noise=1e8)
    policies = {"max": FullPower(scenario), "loud": Loud(scenario), "again": Loud(scenario)}
    outcomes = evaluate(scenario, policies, channels=default_csi, seed=3)
    full = scenario.max_power.expand(default_csi.shape[:-1])
    torch.testing.assert_close(outcomes["max"].power, full.double())
    # Psr and rate of full power, written out.
    beta = default_csi.double().clone()
    alpha = beta.diagonal(dim1=-2, dim2=-1).clone()
    beta.diagonal(dim1=-2, dim2=-1).zero_()
    sinr = alpha * 0.01 / (1 + 0.01 * beta.sum(-1))
    objective = (torch.exp(-scenario.waterfall / sinr).mean(0) * scenario.worker_weights).sum()
    assert outcomes["max"].judgement.objective == pytest.approx(float(objective))
    assert outcomes["max"].judgement.constraints["rate"].worst == pytest.approx(
        float(sinr.log1p().mean(0).min())
    )
    # All see the same noise, another seed another one, and without it other channels look large.
    assert torch.equal(outcomes["loud"].power, outcomes["again"].power)
    loud = {"loud": Loud(scenario)}
    other = evaluate(scenario, loud, channels=default_csi, seed=4)["loud"].power
    clean = evaluate(default_scenario, loud, channels=default_csi, seed=3)["loud"].power
    assert not torch.equal(outcomes["loud"].power, other)
    assert not torch.equal(outcomes["loud"].power, clean)


def test_random_powers_follow_the_seed(default_csi, default_scenario):
    def powers(name: str, seed: int) -> torch.Tensor:
        return make_policy(name, default_scenario, seed=seed).allocate(default_csi)

    for name in ("rand", "rand:unselected"):
        assert powers(name, 4).equal(powers(name, 4))
        assert not powers(name, 4).equal(powers(name, 5))


def test_a_name_given_twice_counts_once(default_scenario):
    assert list(make_policies(["max", "max"], default_scenario)) == ["max"]


def test_unknown_policies_are_refused(default_scenario):
    with pytest.raises(
        InputError,
        match=r"accepted: rand, rand:unselected, orth, .* or the directory of a training run\.$",
    ):
        make_policies(["moon"], default_scenario)


@pytest.mark.parametrize("order", [("saved", "rand"), ("rand", "saved")])
def test_a_saved_policy_and_the_built_in_of_its_name_stay_apart(
    order, default_scenario, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    save_policy(RandomPower(default_scenario, seed=7), "saved")
    found = make_policies(order, default_scenario, seed=1)
    assert {name: policy.seed for name, policy in found.items()} == {"rand": 1, "rand:saved": 7}


def test_a_policy_made_for_another_scenario_is_noted(default_csi, default_scenario):
    policies = {"here": FullPower(default_scenario), "there": FullPower(Scenario(antennas=4))}
    judged = judge_policies(policies, default_csi, default_scenario)
    outcomes = Evaluation(default_scenario, judged)
    assert outcomes.remarks() == ["there was made for another scenario: antennas 4 (here 10)"]
    assert outcomes["there"].as_metrics()["made_for"] == {"antennas": (4, 10)}
    assert "made_for" not in outcomes["here"].as_metrics()
    # How channels would be drawn does not matter where they are recorded.
    (remark,) = evaluate(default_scenario, policies, channels=default_csi).remarks()
    assert remark.startswith("100 channels of 8 workers, H[n, i, j]")


def test_a_saved_policy_of_another_scenario_is_warned_of(default_scenario, tmp_path):
    save_policy(FullPower(Scenario(objective="rate", pmax_dbw=-10)), tmp_path)
    with pytest.warns(UserWarning, match=r"Pmax 20 dBm \(here 10 dBm\), objective rate \(here"):
        make_policies([str(tmp_path)], default_scenario)


class Quiet(FullPower):
    """Nobody transmits."""

    name = "quiet"

    def powers(self, csi):
        return 0 * super().powers(csi)


@pytest.mark.parametrize(("registered", "asked"), [(True, "silence"), (False, f"{__name__}:Quiet")])
def test_a_policy_of_ones_own_is_found_by_its_registered_name_or_its_module(
    registered, asked, default_csi, default_scenario, register
):
    """It goes by the name it was registered under, else by its own."""
    if registered:
        register(POLICIES, "silence", Quiet)
    found = make_policies(["max", asked], default_scenario)
    assert list(found) == ["max", "silence" if registered else "quiet"]
    outcomes = evaluate(default_scenario, found, channels=default_csi)
    assert [outcome.judgement.participation for outcome in outcomes.values()] == [1, 0]


def test_what_is_no_policy_is_refused(default_scenario):
    with pytest.raises(InputError, match=r"^policy: <class .*Fraction'> is not a policy; acc"):
        make_policies(["fractions:Fraction"], default_scenario)


def test_what_has_to_be_learned_says_how(default_scenario):
    with pytest.raises(InputError, match=r"^policies: pdg is not trained; .* give DIR"):
        make_policies(["pdg"], default_scenario)


def test_policies_are_compared_by_default_if_they_say_so(register):
    """And not if only the policy that they are derived from says so."""
    assert default_policies() == ("rand", "orth", "max", "openloop")

    class Eager(Quiet):
        by_default = True

    register(POLICIES, "quiet", Quiet)
    register(POLICIES, "eager", Eager)
    assert default_policies() == ("rand", "orth", "max", "openloop", "eager")


def test_variants_are_classes_of_their_own(default_scenario):
    names = ["rand", "rand:unselected", "orth", "orth:unselected"]
    found = make_policies(names, default_scenario)
    assert [policy.name for policy in found.values()] == list(found) == names
    assert len({type(policy) for policy in found.values()}) == 4


def test_a_problem_of_ones_own_judges_all(default_csi, default_scenario):
    limit = torch.full((8,), 0.005, dtype=torch.float64)
    usual = Problem.from_scenario(default_scenario)
    problem = Problem(usual.objective, usual.utility, (Constraint.below(AveragePower(), limit),))
    policies = {"max": FullPower(default_scenario), "quiet": Quiet(default_scenario)}
    outcomes = Evaluation(
        default_scenario, judge_policies(policies, default_csi, default_scenario, problem)
    )
    assert outcomes["max"].judgement.violation == pytest.approx(1)  # 10 mW, twice the limit
    assert outcomes["quiet"].verdict == "silent"
    assert outcomes["quiet"].judgement.feasible is False
    assert outcomes["max"].as_metrics()["power_max"] == pytest.approx(0.01)


def test_undecided_verdicts_draw_further_channels():
    """Objective and powers stay those of the test channels."""
    scenario = Scenario(workers=3, interference=4)
    policies = ["orth", "max"]
    fixed = evaluate(scenario, policies, channels_per_split=1000)
    found = evaluate(scenario, policies)
    assert fixed["max"].verdict == "inconclusive"
    assert found["max"].verdict != "inconclusive"
    assert found["max"].verdict_channels > 1000
    assert (found["orth"].verdict_channels, found["orth"].verdict) == (1000, "feasible")
    for name, outcome in fixed.items():
        assert outcome.verdict_channels == 1000
        assert torch.equal(outcome.power, found[name].power)
        for measure in ("objective", "weighted_per", "participation"):
            assert getattr(outcome, measure) == getattr(found[name], measure)
    assert found.metrics()["policies"]["max"]["verdict_channels"] > 1000


def test_a_given_number_of_channels_is_that_of_the_verdicts(default_csi):
    scenario = Scenario(workers=2)
    outcome = evaluate(scenario, ["max"], channels_per_split=200)["max"]
    csi = make_channels(scenario, 200).test
    expected = judge(scenario, csi, FullPower(scenario).allocate(csi).double())
    assert outcome.judgement.as_metrics() == expected.as_metrics()
    assert evaluate(Scenario(), ["max"], channels=default_csi)["max"].verdict_channels == 100


def test_an_expensive_policy_is_judged_on_fewer_channels():
    class Slow(FullPower):
        name = "slow"
        max_verdict_channels = 1000

    scenario = Scenario(workers=2)
    outcome = evaluate(scenario, {"slow": Slow(scenario)})["slow"]
    fixed = evaluate(scenario, ["max"], channels_per_split=1000)["max"]
    assert outcome.verdict_channels == 1000
    assert (outcome.verdict, outcome.margin_ci) == (fixed.verdict, fixed.margin_ci)


def test_a_silent_policy_draws_no_further_channels_and_is_not_feasible():
    scenario = Scenario(workers=2)
    outcome = evaluate(scenario, {"quiet": Quiet(scenario)})["quiet"]
    assert (outcome.verdict, outcome.verdict_channels) == ("silent", 1000)
    assert outcome.as_metrics()["feasible"] is False


def test_further_channels_have_noise_of_their_own():
    """Two evaluations of the same seed agree, also with noisy CSI."""
    scenario = Scenario(workers=2, csi_noise=4.0)
    first, again = (evaluate(scenario, ["openloop"]) for _ in range(2))
    assert first.metrics() == again.metrics()
