"""The solution with its certificate, against reference optima and optima in closed form."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize_scalar

from feduplink import (
    DualPolicy,
    FullPower,
    InputError,
    OpenLoop,
    Optimum,
    Orthogonal,
    Scenario,
    draw_csi,
    evaluate,
    judge,
    link,
    shipped_scenarios,
)
from feduplink.channels import make_channels
from feduplink.lagrangian import DualPoint
from feduplink.optimum import MAX_VIOLATION, find_optimum, solve_dual
from feduplink.policies import judge_policy, make_policy
from feduplink.randomness import torch_generator
from simulated_gpu import GPU, simulated_gpu

#: Reference optima; other draws of the channels differ by a standard error or two.
REFERENCE = {
    "default": 0.9764,
    "interference-x2": 0.9591,
    "interference-x4": 0.916,
    "interference-x8": 0.858,
    "pmax-minus-40dbw": 0.645,
    "pmax-minus-30dbw": 0.911,
    "pmax-minus-10dbw": 0.9809,
    "pmax-0dbw": 0.9810,
}


def _sampling_error(scenario: Scenario, power: torch.Tensor, csi: torch.Tensor) -> float:
    """Standard error of the objective's mean over the channels."""
    sinr = link.sinr(csi.double(), power.double())
    values = link.packet_success_rate(sinr, scenario.waterfall) @ scenario.worker_weights
    return float(values.std()) / math.sqrt(len(values))


def test_every_shipped_scenario_has_a_reference():
    assert set(REFERENCE) == set(shipped_scenarios())


def _assert_solved(name: str) -> None:
    scenario = Scenario.load(name)
    csi = make_channels(scenario, 1000).test
    solution = solve_dual(scenario, csi)
    primal = solution.judgement.objective
    assert abs(solution.dual_value - primal) <= 0.002
    assert solution.judgement.violation <= MAX_VIOLATION
    # Both samples have a thousand channels.
    error = 2 * math.sqrt(2) * _sampling_error(scenario, solution.power, csi)
    assert abs(primal - REFERENCE[name]) <= 0.002 + error
    assert [step.violation for step in solution.steps].index(
        min(step.violation for step in solution.steps)
    )  # the first evaluation, without prices, misses them


def test_the_default_scenario_has_its_reference_optimum():
    _assert_solved("default")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCE)
def test_every_shipped_scenario_has_its_reference_optimum(name: str):
    _assert_solved(name)


#: Where 10,000 channels estimate a worker's mean well enough for both demands. At other settings a
#: margin costs more than the objective may lose (docs/theory.md, 8).
_WELL_MEASURED = ("default", "interference-x2", "pmax-minus-10dbw", "pmax-0dbw")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCE)
def test_the_dual_policy_is_near_feasible_and_optimal_on_unseen_channels(name: str):
    scenario = Scenario.load(name)
    unseen = draw_csi(scenario, 10_000, torch_generator(1, "round-channels"))
    policy = make_policy("dual", scenario, seed=1)
    verdict = judge_policy(policy, unseen, scenario)
    well_measured = name in _WELL_MEASURED
    assert verdict.violation <= 0.01 + (0 if well_measured else 0.02)
    below = solve_dual(scenario, unseen).dual_value - verdict.objective
    assert below <= (0.003 if well_measured else 0.005)


def test_a_small_cell_is_certified():
    scenario = Scenario(workers=3)
    csi = make_channels(scenario, 100).test
    optimum = find_optimum(scenario, csi, gap=2e-3)
    metrics = optimum.as_metrics()
    assert metrics["certified"]
    assert optimum.gap <= 2e-3
    assert optimum.power.shape == (100, 3)
    # Weak duality.
    assert float(optimum.certificate.upper.mean()) >= optimum.objective


def _random_scenario(seed: int) -> Scenario:
    rng = random.Random(seed)
    workers = rng.choice((2, 3, 4))
    weights = tuple(rng.uniform(0.1, 3) for _ in range(workers))
    return Scenario(
        workers=workers,
        objective=rng.choice(("psr", "rate", "energy_efficiency")),
        utility=rng.choice(("weighted-sum", "weighted-sum", "proportional-fairness")),
        weights=rng.choice(("ones", "uniform", weights)),
        rate_min=rng.choice((0.0, 0.3, 0.7, 1.5)),
        ee_min=rng.choice((0.0, 20.0, 55.0)),
        interference=rng.choice((0.5, 1, 4, 8)),
        pmax_dbw=rng.choice((-40, -30, -20, -10, 0)),
        waterfall=rng.choice((0.023, 0.2, 1.0)),
    )


@pytest.mark.parametrize(
    "seed", [*range(0, 5), *(pytest.param(s, marks=pytest.mark.slow) for s in range(5, 14))]
)
def test_the_optimum_is_between_every_policy_and_the_bound(seed: int):
    scenario = _random_scenario(seed)
    csi = draw_csi(
        scenario, random.Random(seed).randint(5, 30), torch.Generator().manual_seed(seed)
    )
    optimum = find_optimum(scenario, csi, max_boxes=5000 * (seed % 2))
    point = DualPoint(optimum.solution.primal_multipliers, optimum.problem.thresholds)
    policies = {
        "max": FullPower(scenario),
        "orth": Orthogonal(scenario),
        "openloop": OpenLoop.tuned(scenario, csi),
        "dual": DualPolicy(scenario, point),
    }
    outcomes = evaluate(scenario, policies, channels=csi)
    optimum = optimum.improved_by({name: outcome.power for name, outcome in outcomes.items()})
    verdict = judge(scenario, csi, optimum.power)
    assert verdict.violation <= MAX_VIOLATION
    assert verdict.objective == optimum.objective
    # Without the allowance for rounding.
    proved = float(optimum.certificate.upper.mean()) + optimum.solution.constant
    assert optimum.objective <= proved + 1e-8 * max(1, abs(proved))
    assert optimum.upper_bound <= proved + 1e-8 * max(1, abs(proved))
    for outcome in outcomes.values():
        below = optimum.below(outcome.judgement)
        if outcome.judgement.violation > MAX_VIOLATION:
            assert below is None
        elif math.isfinite(outcome.judgement.objective):
            assert outcome.judgement.objective <= optimum.objective
            assert below == pytest.approx(optimum.objective - outcome.judgement.objective)
    metrics = optimum.as_metrics()
    json.dumps(metrics, allow_nan=False)
    if metrics["certified"]:
        assert metrics["relative_gap"] <= 0.02


def _with(optimum: Optimum, objective: float, upper_bound: float) -> Optimum:
    """The optimum with another objective and upper bound."""
    judgement = dataclasses.replace(optimum.solution.judgement, objective=objective)
    upper = torch.full_like(optimum.certificate.upper, upper_bound - optimum.solution.constant)
    return dataclasses.replace(
        optimum,
        solution=dataclasses.replace(optimum.solution, judgement=judgement),
        certificate=dataclasses.replace(optimum.certificate, upper=upper),
    )


@pytest.mark.parametrize(
    ("utility", "objective", "bound", "relative_gap"),
    [
        ("weighted-sum", 0.0066, 0.0141, 0.0075 / 0.0066),
        ("weighted-sum", 0.0066, 0.0067, 0.0001 / 0.0066),
        ("weighted-sum", 0.0, 0.001, math.inf),
        # Two workers of weight 1: the bound allows for a geometric mean exp(0.01) times as large.
        ("proportional-fairness", -7.0, -6.98, math.expm1(0.01)),
        ("proportional-fairness", 0.0, 0.1, math.expm1(0.05)),
        ("proportional-fairness", -math.inf, -1.0, math.inf),
    ],
)
def test_certification_uses_the_relative_gap(
    utility: str, objective: float, bound: float, relative_gap: float
):
    scenario = Scenario(
        workers=2, weights="ones", objective="rate", utility=utility, rate_min=0, ee_min=0
    )
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(0))
    optimum = _with(find_optimum(scenario, csi, max_boxes=0), objective, bound)
    metrics = optimum.as_metrics()
    assert optimum.relative_gap == pytest.approx(relative_gap)
    assert metrics["certified"] is (relative_gap <= 0.02)
    assert metrics["gap"] == (None if objective == -math.inf else pytest.approx(bound - objective))
    json.dumps(metrics, allow_nan=False)


def test_the_upper_bound_is_at_most_the_one_without_interference():
    """Without a search the certificate exceeds the sum of all weights."""
    scenario = Scenario(workers=3, weights="uniform")
    csi = draw_csi(scenario, 20, torch.Generator().manual_seed(1))
    loose = _with(find_optimum(scenario, csi, max_boxes=0), 0.9, 1.2975)
    assert 0.9 < loose.upper_bound <= 1.0


def test_results_are_on_the_device_of_the_channels():
    scenario = Scenario(workers=2)
    csi = draw_csi(scenario, 5, torch.Generator().manual_seed(0))
    optimum = find_optimum(scenario, csi, max_boxes=0, device="cpu")
    for tensor in (optimum.power, optimum.certificate.upper, optimum.certificate.power):
        assert tensor.device == csi.device
    with pytest.raises(InputError, match=r"^device: 'nowhere' is unknown"):
        find_optimum(scenario, csi, max_boxes=0, device="nowhere")


_CHANNELS = 60


def _gains(seed: int, workers: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(10 ** rng.uniform(2, 5, (_CHANNELS, workers)))


def _apart(gains: torch.Tensor) -> torch.Tensor:
    """Channels without interference, (N, L, L)."""
    csi = torch.full((*gains.shape, gains.shape[-1]), 1e-9, dtype=torch.float64)
    csi.diagonal(dim1=-2, dim2=-1).copy_(gains)
    return csi


def _efficiency(gain: float, power: float) -> float:
    return math.log1p(gain * power) / (power + 0.01)


def _largest(function, pmax: float) -> float:
    """The largest value over (0, pmax], from a fine grid and a local search around its best."""
    logs = np.linspace(math.log(pmax) - 12, math.log(pmax), 241)
    start = int(np.argmax([function(math.exp(x)) for x in logs]))
    inner = (logs[max(start - 1, 0)], logs[min(start + 1, 240)])
    found = minimize_scalar(
        lambda x: -function(math.exp(x)), bounds=inner, method="bounded", options={"xatol": 1e-9}
    )
    return max(-found.fun, function(pmax), function(math.exp(logs[start])))


@pytest.mark.parametrize("objective", ["psr", "rate", "energy_efficiency"])
def test_without_interference_the_optimum_separates_by_worker(objective: str):
    scenario = Scenario(
        workers=2, objective=objective, weights=(0.3, 0.7), rate_min=0, ee_min=0, pmax_dbw=-10
    )
    gains = _gains(0, 2)
    measures = {
        "psr": lambda g, p: math.exp(-0.023 / (g * p)),
        "rate": lambda g, p: math.log1p(g * p),
        "energy_efficiency": _efficiency,
    }
    measure = measures[objective]
    exact = sum(
        weight * _largest(lambda p, g=g: measure(g, p), 0.1)
        for row in gains.tolist()
        for weight, g in zip((0.3, 0.7), row, strict=True)
    )
    optimum = find_optimum(scenario, _apart(gains), gap=1e-5)
    assert optimum.objective == pytest.approx(exact / _CHANNELS, rel=1e-6)
    assert optimum.objective <= optimum.upper_bound <= optimum.objective + 2e-5 * (1 + exact)
    assert float(optimum.solution.multipliers.constraints.abs().max()) == 0
    assert len(optimum.solution.steps) <= 3  # nothing to search for


def test_the_dual_value_of_one_worker_with_a_binding_efficiency():
    """min over ν of the mean over channels of max_p PSR + 1(p > 0) ν (EE − e0)."""
    e0, pmax = 300.0, 1.0
    gains = _gains(1, 1)
    scenario = Scenario(workers=1, weights="ones", rate_min=0, ee_min=e0, pmax_dbw=0, waterfall=0.3)

    def dual(nu: float) -> float:
        def lagrangian(gain: float, power: float) -> float:
            success = math.exp(-0.3 / (gain * power))
            return success + nu * (_efficiency(gain, power) - e0)

        best = [_largest(lambda p, g=g: lagrangian(g, p), pmax) for (g,) in gains.tolist()]
        return float(np.mean(np.maximum(best, 0.0)))

    exact = minimize_scalar(dual, bounds=(0, 0.05), method="bounded", options={"xatol": 1e-8})
    solution = solve_dual(scenario, _apart(gains))
    assert exact.x > 1e-5  # the constraint binds
    assert solution.dual_value == pytest.approx(exact.fun, abs=2e-5)
    assert float(solution.multipliers.constraints[1, 0]) == pytest.approx(exact.x, rel=0.05)
    assert solution.judgement.violation <= MAX_VIOLATION


def test_the_optimum_of_proportional_fairness_without_constraints():
    """g = Σ ω ln E[PSR]: full power is optimal, and the weight of a success is ω / E[PSR]."""
    weights = (0.25, 0.75)
    scenario = Scenario(
        workers=2, utility="proportional-fairness", weights=weights, rate_min=0, ee_min=0
    )
    gains = _gains(2, 2)
    mean = torch.exp(-0.023 / (gains * scenario.max_power)).mean(0)
    exact = float((torch.tensor(weights, dtype=torch.float64) * mean.log()).sum())
    optimum = find_optimum(scenario, _apart(gains), gap=1e-5)
    assert optimum.objective == pytest.approx(exact, abs=1e-8)
    assert optimum.upper_bound == pytest.approx(exact, abs=1e-4)
    assert optimum.upper_bound >= exact - 1e-9
    worth = optimum.solution.multipliers.objective_weight
    torch.testing.assert_close(worth, torch.tensor(weights).double() / mean, rtol=0.02, atol=0)


def _water_filling(gains: torch.Tensor, mean_w: float, pmax_w: float) -> tuple[torch.Tensor, float]:
    """Powers p = (1/λ − 1/α)⁺, at most Pmax, with E[p] as given; and λ."""

    def powers(level: float) -> torch.Tensor:
        return (level - 1 / gains).clamp(0.0, pmax_w)

    level = brentq(lambda level: float(powers(level).mean()) - mean_w, 0.0, 10 * pmax_w, xtol=1e-15)
    return powers(level), 1 / level


@pytest.mark.parametrize("mean_w", [0.005, 0.05, 0.085])
def test_the_optimum_under_an_average_power_limit_is_water_filling(mean_w: float):
    """max E[ln(1 + α p)] with E[p] ≤ P̄: silent, below Pmax and at Pmax, channel by channel."""
    gains = 10 ** torch.linspace(0, 3, 400, dtype=torch.float64)
    exact, price = _water_filling(gains, mean_w, pmax_w=0.1)
    scenario = Scenario(
        workers=1,
        weights="ones",
        objective="rate",
        rate_min=0,
        ee_min=0,
        pmax_dbw=-10,
        constraints=f"link.own_measures:AveragePower <= {mean_w}",
    )
    solution = solve_dual(scenario, gains[:, None, None])
    objective = float(torch.log1p(gains * exact).mean())
    assert solution.judgement.objective == pytest.approx(objective, rel=1e-3)
    assert solution.judgement.violation <= MAX_VIOLATION
    assert float(solution.power.mean()) == pytest.approx(mean_w, rel=2e-3)
    assert solution.dual_value == pytest.approx(objective, rel=1e-4)
    assert float(solution.multipliers.constraints[2, 0]) == pytest.approx(price, rel=0.02)
    torch.testing.assert_close(solution.power[:, 0], exact, rtol=0, atol=2e-3)
    policy = DualPolicy.learned(scenario, gains[:, None, None], margin=0.0)
    torch.testing.assert_close(
        policy.allocate(gains[:, None, None])[:, 0], exact, rtol=0, atol=2e-3
    )


def test_a_slack_average_power_limit_has_zero_multipliers():
    gains = 10 ** torch.linspace(2, 3, 50, dtype=torch.float64)
    scenario = Scenario(
        workers=1,
        objective="rate",
        rate_min=0,
        ee_min=0,
        constraints="link.own_measures:AveragePower <= 0.02",
    )
    solution = solve_dual(scenario, gains[:, None, None])
    torch.testing.assert_close(solution.power[:, 0], torch.full_like(gains, 0.01))
    assert not solution.multipliers.constraints.any()


@pytest.mark.slow
def test_the_optimum_of_a_gpu_is_that_of_the_cpu_and_on_the_cpu():
    scenario = Scenario(workers=2)
    csi = make_channels(scenario, 8, seed=0).test
    expected = find_optimum(scenario, csi)
    with simulated_gpu():
        found = find_optimum(scenario, csi, device=GPU)
    assert found.power.device == csi.device
    torch.testing.assert_close(found.power, expected.power)
    assert found.upper_bound == pytest.approx(expected.upper_bound, rel=1e-9)
