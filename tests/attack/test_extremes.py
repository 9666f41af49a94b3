"""Settings at the limits of the accepted range and beyond."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feduplink import InputError, Scenario, draw_csi
from feduplink.judgement import Shortfalls, judge
from feduplink.link import sinr, upload
from feduplink.optimum import find_optimum
from feduplink.policies import FullPower, PerceptronPolicy, shipped_pdx
from feduplink.problem import Problem
from feduplink.settings import Architecture


def test_the_least_pmax_is_above_the_silence_threshold():
    """Powers under the silence threshold count as zero, which violates no constraint."""
    with pytest.raises(InputError, match="pmax_dbw"):
        Scenario(pmax_dbw=-100.1)
    with pytest.raises(InputError, match="pmax_dbw"):
        Scenario(workers=2, pmax_dbw=(-20, -95))
    scenario = Scenario(workers=2, pmax_dbw=-90)
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(0))
    assert bool((FullPower(scenario).allocate(csi) > 0).all())


def test_a_silence_threshold_above_pmax_is_refused():
    with pytest.raises(InputError, match="silence_w"):
        PerceptronPolicy(Scenario(workers=2, pmax_dbw=-40), Architecture(silence_w=1e-3))


def test_verdicts_near_the_threshold_are_rarely_wrong():
    """Verdicts of ``pdx`` on 1000 of 20,000 channels, 200 times, against the mean over all."""
    scenario = Scenario()
    csi = draw_csi(scenario, 20_000, torch.Generator().manual_seed(5))
    power = shipped_pdx().allocate(csi)
    problem = Problem.from_scenario(scenario)
    truth = problem.constraints[0].mean(
        problem.constraints[0].value(sinr(csi, power), power), power
    )
    generator = torch.Generator().manual_seed(6)
    wrong = {"met": 0, "missed": 0}
    for _ in range(200):
        some = torch.randint(len(csi), (1000,), generator=generator)
        state = upload(csi[some], power[some], scenario)
        for name, factor in (("met", 1 / 1.0075), ("missed", 1.03 / 0.99)):
            aims = problem.thresholds.clone()
            aims[0], aims[1] = truth * factor, 1e-3
            verdict = Shortfalls.from_problem(problem.with_thresholds(aims), state).feasible
            wrong[name] += verdict is (name == "missed")
    assert max(wrong.values()) <= 0.05 * 200 + 3 * math.sqrt(0.05 * 0.95 * 200)


def test_the_optimum_of_no_channels_is_refused():
    with pytest.raises(InputError, match="0 channels were given"):
        find_optimum(Scenario(workers=2), torch.ones(0, 2, 2))


def check_optimum(seed: int, weight: float, rate_min: float, ee_min: float, utility: str) -> None:
    scenario = Scenario(
        workers=2, weights=(weight, 3 * weight), rate_min=rate_min, ee_min=ee_min, utility=utility
    )
    csi = draw_csi(scenario, 12, torch.Generator().manual_seed(seed))
    try:
        optimum = find_optimum(scenario, csi, max_boxes=5000)
    except InputError as refusal:
        assert "no worker can ever transmit" in str(refusal)
        return
    metrics = optimum.as_metrics()
    json.dumps(metrics, allow_nan=False)
    assert optimum.upper_bound >= optimum.objective
    if metrics["certified"]:
        assert metrics["gap"] is not None
        assert metrics["relative_gap"] <= 0.02
    verdict = judge(scenario, csi, optimum.power)
    assert verdict.violation <= 1e-6 or metrics["shortfall"] > 0
    if metrics["objective"] is not None:
        assert metrics["objective"] == pytest.approx(verdict.objective)


CASES = {
    "seed": st.integers(0, 10**6),
    "weight": st.sampled_from([1e-6, 1e-3, 0.25, 1e3]),
    "rate_min": st.sampled_from([0.0, 0.3, 0.7, 5.0]),
    "ee_min": st.sampled_from([0.0, 55.0, 500.0]),
    "utility": st.sampled_from(["weighted-sum", "proportional-fairness"]),
}


@settings(max_examples=5)
@given(**CASES)
def test_certified_optima_are_within_their_gap(seed, weight, rate_min, ee_min, utility):
    check_optimum(seed, weight, rate_min, ee_min, utility)


@pytest.mark.slow
@settings(max_examples=150)
@given(**CASES)
def test_many_certified_optima_are_within_their_gap(seed, weight, rate_min, ee_min, utility):
    check_optimum(seed, weight, rate_min, ee_min, utility)
