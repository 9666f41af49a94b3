"""Whole runs against optima that one-dimensional optimisation gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize_scalar

from feduplink import Scenario, find_optimum
from feduplink.optimum import MET, solve_dual
from feduplink.policies import DualPolicy

_CHANNELS = 60


def _gains(seed: int, workers: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(10 ** rng.uniform(2, 5, (_CHANNELS, workers)))


def _apart(gains: torch.Tensor) -> torch.Tensor:
    """Workers that do not hear each other, (N, L, L)."""
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
def test_without_interference_every_worker_is_on_its_own(objective: str):
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
    optimum = find_optimum(scenario, _apart(gains), target_gap=1e-5)
    assert optimum.objective == pytest.approx(exact / _CHANNELS, rel=1e-6)
    assert optimum.objective <= optimum.upper_bound <= optimum.objective + 2e-5 * (1 + exact)
    assert float(optimum.solution.multipliers.constraints.abs().max()) == 0
    assert len(optimum.solution.steps) <= 3  # nothing to search for


def test_one_worker_with_a_binding_efficiency():
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
    assert solution.judgement.violation <= MET


def test_proportional_fairness_without_constraints():
    """g = Σ ω ln E[PSR]: everyone at full power, and a success worth ω / E[PSR]."""
    weights = (0.25, 0.75)
    scenario = Scenario(
        workers=2, utility="proportional-fairness", weights=weights, rate_min=0, ee_min=0
    )
    gains = _gains(2, 2)
    mean = torch.exp(-0.023 / (gains * scenario.pmax_w)).mean(0)
    exact = float((torch.tensor(weights, dtype=torch.float64) * mean.log()).sum())
    optimum = find_optimum(scenario, _apart(gains), target_gap=1e-5)
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
def test_average_power_is_water_filling(mean_w: float):
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
    assert solution.judgement.violation <= MET
    assert float(solution.power.mean()) == pytest.approx(mean_w, rel=2e-3)
    assert solution.dual_value == pytest.approx(objective, rel=1e-4)
    assert float(solution.multipliers.constraints[2, 0]) == pytest.approx(price, rel=0.02)
    torch.testing.assert_close(solution.power[:, 0], exact, rtol=0, atol=2e-3)
    policy = DualPolicy.learned(scenario, gains[:, None, None], margin=0.0)
    torch.testing.assert_close(
        policy.allocate(gains[:, None, None])[:, 0], exact, rtol=0, atol=2e-3
    )


def test_an_average_power_that_does_not_bind_costs_nothing():
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
