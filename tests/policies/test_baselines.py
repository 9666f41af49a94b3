"""``rand``, ``orth``, ``max`` and ``openloop``."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from scipy.optimize import brentq

from feduplink import (
    FullPower,
    InputError,
    OpenLoop,
    Orthogonal,
    Policy,
    RandomPower,
    Scenario,
    draw_csi,
)
from feduplink.channels import make_channels
from feduplink.policies import (
    UnselectedOrthogonal,
    UnselectedRandomPower,
    default_policies,
    judge_policy,
    largest_efficient_power,
    select,
)
from feduplink.randomness import torch_generator


def mean_objective(make) -> float:
    """Over four seeds, on 1000 channels of the default scenario each."""
    scenario = Scenario()

    def objective(seed: int) -> float:
        csi = draw_csi(scenario, 1000, torch_generator(seed, "test-channels"))
        return judge_policy(make(scenario, seed), csi, scenario).objective

    return statistics.mean(objective(seed) for seed in range(4))


@pytest.mark.parametrize(
    ("make", "objective"),
    [
        (lambda scenario, _: FullPower(scenario), 0.710),
        (lambda scenario, seed: UnselectedRandomPower(scenario, seed=seed), 0.689),
        (lambda scenario, seed: RandomPower(scenario, seed=seed), 0.238),
        (lambda scenario, _: Orthogonal(scenario), 0.209),
    ],
    ids=["max", "rand-unselected", "rand", "orth"],
)
def test_baselines_reach_their_reference_values(make, objective):
    assert mean_objective(make) == pytest.approx(objective, abs=0.015)


def efficiency(power: float, gain: float, static: float, inefficiency: float) -> float:
    return math.log(1 + gain * power) / (inefficiency * power + static)


@pytest.mark.parametrize("inefficiency", [1.0, 2.5])
@pytest.mark.parametrize("gain", [1e3, 1e5, 1e7])
def test_efficiency_equals_its_threshold_at_the_largest_efficient_power(gain, inefficiency):
    gain_and_threshold = torch.tensor([[gain], [55.0]], dtype=torch.float64)
    power = largest_efficient_power(
        *gain_and_threshold, torch.tensor(0.01, dtype=torch.float64), inefficiency
    ).item()
    root = brentq(lambda p: efficiency(p, gain, 0.01, inefficiency) - 55, 0.01 / inefficiency, 1)
    assert power == pytest.approx(root, rel=1e-9)
    assert efficiency(1.001 * power, gain, 0.01, inefficiency) < 55


def test_largest_efficient_power_is_zero_on_a_poor_link():
    gain = 150.0
    best = max(efficiency(p * 1e-5, gain, 0.01, 1.0) for p in range(1, 10_000))
    assert best < 55
    assert (
        largest_efficient_power(
            torch.tensor([gain]), torch.tensor([55.0]), torch.tensor(0.01, dtype=torch.float64), 1.0
        )
        == 0
    )


def test_orth_transmits_at_pmax_without_an_efficiency_threshold():
    policy = Orthogonal(Scenario(ee_min=0.0, rate_min=0.0))
    assert (policy.allocate(torch.ones(8, 8)) == torch.tensor(0.01)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lone_worker_at_its_largest_efficient_power_is_selected(dtype):
    """The efficiency there equals the threshold but for rounding, which must not silence it."""
    gains = torch.logspace(2.6, 7, 500, dtype=dtype).view(-1, 1, 1)
    power = Orthogonal(Scenario(workers=1, pmax_dbw=0)).allocate(gains)
    assert (power > 0).all()


def test_selection_does_not_reconsider_workers():
    """Both miss the rate while both are on the air; each alone would meet it."""
    scenario = Scenario(workers=2, rate_min=0.7, ee_min=0.0)
    csi = torch.tensor([[[200.0, 200.0], [200.0, 200.0]]])
    power = torch.full((1, 2), 0.01)
    assert select(power, csi, scenario).tolist() == [[0.0, 0.0]]


def test_selection_uses_the_thresholds_of_each_worker():
    csi = torch.tensor([[[1e3, 1.0], [1.0, 1e3]]])
    power = torch.full((1, 2), 0.01)  # SINR 9.9, rate 2.39, efficiency 119
    kept = select(power, csi, Scenario(workers=2, rate_min=[2.3, 2.5], ee_min=0.0))
    assert (kept[0] > 0).tolist() == [True, False]
    kept = select(power, csi, Scenario(workers=2, rate_min=0.0, ee_min=[121, 118]))
    assert (kept[0] > 0).tolist() == [False, True]


def test_selection_applies_every_constraint_of_the_scenario():
    """Powers of 10 and 4 mW under an upper limit of 5 mW."""
    csi = torch.tensor([[[1e3, 1.0], [1.0, 1e3]]])
    power = torch.tensor([[0.01, 0.004]])
    scenario = Scenario(
        workers=2, rate_min=0, ee_min=0, constraints="link.own_measures:PowerOnAir <= 0.005"
    )
    torch.testing.assert_close(select(power, csi, scenario), torch.tensor([[0.0, 0.004]]))


@pytest.mark.parametrize(
    ("selecting", "unselecting"),
    [(RandomPower, UnselectedRandomPower), (Orthogonal, UnselectedOrthogonal)],
)
def test_variant_without_selection_differs_only_in_silenced_workers(
    selecting, unselecting, default_csi
):
    selected, everyone = (
        kind(Scenario()).allocate(default_csi) for kind in (selecting, unselecting)
    )
    on_air = selected > 0
    assert 0 < on_air.sum() < on_air.numel()
    assert torch.equal(selected[on_air], everyone[on_air])
    assert (everyone > 0).sum() > on_air.sum()
    assert unselecting.name == f"{selecting.name}:unselected"
    assert unselecting.name not in default_policies()


def test_random_powers_are_uniform_and_drawn_anew_from_the_seed(default_csi):
    def policy(seed: int) -> Policy:
        return UnselectedRandomPower(Scenario(), seed=seed)

    first = policy(1)
    powers = first.allocate(default_csi)
    assert powers.mean().item() == pytest.approx(0.005, rel=0.1)
    assert powers.min() < 0.0005 < 0.0095 < powers.max()
    assert not torch.equal(first.allocate(default_csi), powers)
    assert torch.equal(policy(1).allocate(default_csi), powers)
    assert not torch.equal(policy(2).allocate(default_csi), powers)


def test_open_loop_powers_follow_the_formula():
    csi = torch.diag(torch.tensor([100.0, 1e4, 1e6])) + 1.0
    powers = OpenLoop(Scenario(), target=0.2, fraction=0.5).allocate(csi)
    expected = [0.01, 0.2 / math.sqrt(10_001), 0.2 / math.sqrt(1_000_001)]
    assert powers.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_open_loop_refuses_a_target_that_is_not_positive_and_finite(target):
    with pytest.raises(InputError, match=r"^target: .*; accepted: a finite P0 above 0\.$"):
        OpenLoop(Scenario(), target=target, fraction=0.8)


@pytest.mark.parametrize("fraction", [-1.1, 2.1, math.inf, math.nan])
def test_open_loop_refuses_a_fraction_out_of_range(fraction):
    with pytest.raises(InputError, match=r"^fraction: .*; accepted: from -1 to 2\.$"):
        OpenLoop(Scenario(), target=3.0, fraction=fraction)


def test_tuned_open_loop_is_feasible_and_good_on_unseen_channels():
    scenario = Scenario()
    training = draw_csi(scenario, 1000, torch_generator(0, "train-channels"))
    test = draw_csi(scenario, 1000, torch_generator(0, "test-channels"))
    verdict = judge_policy(OpenLoop.tuned(scenario, training), test, scenario)
    assert verdict.feasible is not False
    assert verdict.violation <= 0.02  # one standard error of 1000 channels
    assert verdict.objective >= 0.965
    assert verdict.participation == 1


def test_open_loop_is_tuned_on_valid_channels_only():
    with pytest.raises(InputError, match=r"^csi: 3 workers; accepted here: exactly 8"):
        OpenLoop.tuned(Scenario(), torch.ones(10, 3, 3))


def test_open_loop_is_tuned_on_noisy_csi():
    exact = Scenario(rate_min=0.6, ee_min=45)
    noisy = exact.replace(csi_noise=1e6)
    training = make_channels(noisy, 300).training
    unaware, told = (OpenLoop.tuned(scenario, training) for scenario in (exact, noisy))
    verdicts = [judge_policy(policy, training, noisy) for policy in (unaware, told)]
    assert verdicts[1].violation == 0
    assert verdicts[1].objective > verdicts[0].objective or verdicts[0].violation > 0
    assert told.tensors()["setting"].tolist() != unaware.tensors()["setting"].tolist()
