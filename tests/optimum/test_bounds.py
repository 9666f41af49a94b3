from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from feduplink import Constraint, InputError, Problem, Scenario, draw_csi, judge
from feduplink.channels import make_channels
from feduplink.optimum import (
    Unreachable,
    check_reachable,
    distribution_bound,
    find_optimum,
    find_unreachable,
    interference_free_bound,
    solve_dual,
)
from link.own_measures import Sinr


def test_the_bound_for_the_distribution_is_at_most_that_without_interference():
    scenario = Scenario(workers=2)
    csi = make_channels(scenario, 10).test
    multipliers = solve_dual(scenario, csi).multipliers
    bound = distribution_bound(scenario, csi, multipliers=multipliers, confidence=0.95)
    assert bound.upper_bound == pytest.approx(float(scenario.worker_weights.sum()))


def test_the_bound_for_the_distribution_covers_a_large_sample():
    scenario = Scenario(workers=2, objective="rate")
    splits = make_channels(scenario, 300)
    multipliers = solve_dual(scenario, splits.training).multipliers
    bound = distribution_bound(scenario, splits.test, multipliers=multipliers, confidence=0.95)
    many = solve_dual(scenario, splits.validation)
    assert bound.upper_bound > many.dual_value
    wider = distribution_bound(scenario, splits.test, multipliers=multipliers, confidence=0.999)
    assert wider.upper_bound > bound.upper_bound
    assert "0.95 confidence" in bound.sentence()
    assert "independent draws" in bound.sentence(recorded=True)
    assert bound.as_metrics()["channels"] == 300


def _bound(scenario: Scenario, direct: torch.Tensor) -> float:
    return interference_free_bound(Problem.from_scenario(scenario), scenario.max_power, direct)


@pytest.mark.parametrize("utility", ["weighted-sum", "proportional-fairness"])
@pytest.mark.parametrize("objective", ["psr", "rate", "energy_efficiency"])
def test_the_bound_without_interference_is_tight_and_never_exceeded(objective: str, utility: str):
    scenario = Scenario(
        workers=2, objective=objective, utility=utility, weights=(0.5, 2.0), rate_min=0, ee_min=0
    )
    csi = draw_csi(scenario, 20, torch.Generator().manual_seed(0)).double()
    bound = _bound(scenario, csi.diagonal(dim1=-2, dim2=-1))
    rng = np.random.default_rng(0)
    for _ in range(20):
        share = torch.from_numpy(10 ** rng.uniform(-3, 0, (20, 2)))
        assert judge(scenario, csi, share * scenario.max_power).objective < bound
    silent_neighbours = csi * torch.eye(2)
    grid = torch.logspace(-4, 0, 4001, dtype=torch.float64)[:, None, None] * scenario.max_power
    sinr = silent_neighbours.diagonal(dim1=-2, dim2=-1) * grid
    measures = {
        "psr": torch.exp(-scenario.waterfall / sinr),
        "rate": torch.log1p(sinr),
        "energy_efficiency": torch.log1p(sinr) / (grid + scenario.static_power),
    }
    mean = measures[objective].amax(0).mean(0)
    weights = torch.tensor([0.5, 2.0], dtype=torch.float64)
    value = (weights * (mean if utility == "weighted-sum" else mean.log())).sum()
    assert bound == pytest.approx(float(value), rel=1e-5)
    assert bound >= float(value) - 1e-12


def test_success_without_interference_is_at_most_one():
    scenario = Scenario(workers=3, weights="ones")
    strong = torch.full((4, 3), 1e12, dtype=torch.float64)
    assert _bound(scenario, strong) == pytest.approx(3.0)
    assert _bound(scenario, strong) <= 3.0


def test_the_bound_is_infinite_for_a_measure_without_a_known_maximum():
    scenario = Scenario(workers=2, objective="link.own_measures:AveragePower")
    assert _bound(scenario, torch.ones(4, 2, dtype=torch.float64)) == math.inf


def _csi(*gains: float) -> torch.Tensor:
    """One channel with these direct gains."""
    csi = torch.full((1, len(gains), len(gains)), 5.0)
    csi[0].fill_diagonal_(0)
    return csi + torch.diag(torch.tensor(gains))


def _unreachable(scenario: Scenario, csi: torch.Tensor) -> list[Unreachable]:
    return find_unreachable(scenario, csi, problem=Problem.from_scenario(scenario))


def test_a_rate_above_that_alone_at_pmax_is_unreachable():
    # Alone at 0.01 W with gain 100: ln(1 + 1) = 0.693.
    scenario = Scenario(workers=2, rate_min=(0.7, 0.6), ee_min=0)
    (entry,) = _unreachable(scenario, _csi(100.0, 100.0))
    assert (entry.worker, entry.constraint, entry.threshold) == (1, "rate", 0.7)
    assert entry.best == pytest.approx(math.log(2))
    assert entry.shortfall == pytest.approx(1 - math.log(2) / 0.7)
    assert "worker 1: rate of 0.7 is out of reach" in str(entry)
    assert "1.0% short" in str(entry)


def test_an_efficiency_above_its_peak_is_unreachable():
    # EE has a peak: it tends to α p / P_c at small powers and falls at large ones.
    scenario = Scenario(workers=1, rate_min=0, ee_min=60, pmax_dbw=0)
    powers = torch.logspace(-8, 0, 200_001, dtype=torch.float64)
    peak = float((torch.log1p(200 * powers) / (powers + 0.01)).max())
    assert not _unreachable(scenario.replace(ee_min=peak * (1 - 1e-6)), _csi(200.0))
    (entry,) = _unreachable(scenario.replace(ee_min=peak * 1.1), _csi(200.0))
    assert entry.constraint == "energy_efficiency"
    assert entry.best == pytest.approx(peak, rel=1e-6)
    assert entry.shortfall == pytest.approx(1 - 1 / 1.1, rel=1e-5)


def test_thresholds_reachable_one_by_one_may_be_unreachable_together():
    # The rate needs full power, the efficiency a low one.
    gain, pmax = 200.0, 1.0
    scenario = Scenario(workers=1, pmax_dbw=0)
    powers = torch.logspace(-5, 0, 100_001, dtype=torch.float64)
    rate = torch.log1p(gain * powers)
    efficiency = rate / (powers + 0.01)
    r0, e0 = 0.95 * float(rate.max()), 0.95 * float(efficiency.max())
    (entry,) = _unreachable(scenario.replace(rate_min=r0, ee_min=e0), _csi(gain))
    assert entry.constraint == "both together"
    # The best mixture of two powers, by brute force on a coarser grid.
    x, y = rate[::200] / r0, efficiency[::200] / e0
    theta = torch.linspace(0, 1, 201, dtype=torch.float64)[:, None, None]
    mixed = torch.minimum(
        theta * x[:, None] + (1 - theta) * x, theta * y[:, None] + (1 - theta) * y
    )
    assert entry.best == pytest.approx(float(mixed.max()), abs=0.01)
    assert entry.best >= float(mixed.max())
    assert "not both at once" in str(entry)
    # A mixture of powers reaches what no single power does.
    share = float(mixed.max()) * 0.999
    reachable = scenario.replace(rate_min=r0 * share, ee_min=e0 * share)
    assert not _unreachable(reachable, _csi(gain))
    assert pmax == float(scenario.max_power)


def test_reachability_is_decided_on_the_best_channel():
    scenario = Scenario(workers=2, rate_min=0.7, ee_min=0)
    csi = torch.cat((_csi(1.0, 1.0), _csi(200.0, 1.0)))
    assert [entry.worker for entry in _unreachable(scenario, csi)] == [2]


def test_reachability_depends_on_the_pmax_and_static_power_of_each_worker():
    scenario = Scenario(workers=3, pmax_dbw=(-20, -40, -20), static_power_w=(0.01, 0.01, 1.0))
    found = _unreachable(scenario.replace(rate_min=0.5, ee_min=30), _csi(100.0, 100.0, 100.0))
    assert [(entry.worker, entry.constraint) for entry in found] == [
        (2, "rate"),
        (3, "energy_efficiency"),
    ]


def test_unreachable_workers_are_listed_and_silent_unless_all_are():
    scenario = Scenario(workers=2, rate_min=(0.7, 0.5), ee_min=0)
    optimum = find_optimum(scenario, _csi(100.0, 1000.0).repeat(4, 1, 1), max_boxes=1000)
    assert [entry.worker for entry in optimum.unreachable] == [1]
    assert float(optimum.power[:, 0].max()) == 0
    with pytest.raises(InputError, match=r"no worker can ever transmit; worker 1: rate of 30"):
        find_optimum(scenario.replace(rate_min=30), _csi(100.0, 100.0))


def test_limits_of_other_kinds_count_as_reachable():
    """Only lower limits on rate and efficiency are examined."""
    scenario = Scenario(workers=2, rate_min=0, ee_min=0)
    limits = torch.tensor([30.0, 30.0], dtype=torch.float64)
    usual = Problem.from_scenario(scenario)
    rate, _ = usual.constraints
    for constraint in (Constraint.below(rate.measure, limits), Constraint.at_least(Sinr(), limits)):
        problem = dataclasses.replace(usual, constraints=(constraint,))
        assert check_reachable(scenario, _csi(100.0, 100.0), problem=problem) == []
    unlimited = Constraint.at_least(rate.measure, limits, torch.tensor([True, False]))
    problem = dataclasses.replace(usual, constraints=(unlimited,))
    assert [e.worker for e in check_reachable(scenario, _csi(100.0, 100.0), problem=problem)] == [1]
