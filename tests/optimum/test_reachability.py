from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from feduplink import Constraint, InputError, Problem, Scenario, find_optimum
from feduplink.optimum import Unreachable, check_reachable, find_unreachable
from link.own_measures import Sinr


def _csi(*gains: float) -> torch.Tensor:
    """One channel with these direct gains."""
    csi = torch.full((1, len(gains), len(gains)), 5.0)
    csi[0].fill_diagonal_(0)
    return csi + torch.diag(torch.tensor(gains))


def _unreachable(scenario: Scenario, csi: torch.Tensor) -> list[Unreachable]:
    return find_unreachable(Problem.from_scenario(scenario), scenario, csi)


def test_a_rate_out_of_reach():
    # Alone at 0.01 W with gain 100: ln(1 + 1) = 0.693.
    scenario = Scenario(workers=2, rate_min=(0.7, 0.6), ee_min=0)
    (entry,) = _unreachable(scenario, _csi(100.0, 100.0))
    assert (entry.worker, entry.constraint, entry.threshold) == (1, "rate", 0.7)
    assert entry.best == pytest.approx(math.log(2))
    assert entry.shortfall == pytest.approx(1 - math.log(2) / 0.7)
    assert "worker 1: rate of 0.7 is out of reach" in str(entry)
    assert "1.0% short" in str(entry)


def test_an_efficiency_out_of_reach():
    # With tiny powers EE tends to α p / P_c, with large ones it falls: a peak in between.
    scenario = Scenario(workers=1, rate_min=0, ee_min=60, pmax_dbw=0)
    powers = torch.logspace(-8, 0, 200_001, dtype=torch.float64)
    peak = float((torch.log1p(200 * powers) / (powers + 0.01)).max())
    assert not _unreachable(scenario.replace(ee_min=peak * (1 - 1e-6)), _csi(200.0))
    (entry,) = _unreachable(scenario.replace(ee_min=peak * 1.1), _csi(200.0))
    assert entry.constraint == "energy_efficiency"
    assert entry.best == pytest.approx(peak, rel=1e-6)
    assert entry.shortfall == pytest.approx(1 - 1 / 1.1, rel=1e-5)


def test_both_each_but_not_together():
    # The rate needs all the power, the efficiency little of it.
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
    # A mixture of powers reaches what no single power does: then nothing is said.
    share = float(mixed.max()) * 0.999
    reachable = scenario.replace(rate_min=r0 * share, ee_min=e0 * share)
    assert not _unreachable(reachable, _csi(gain))
    assert pmax == float(scenario.pmax_w)


def test_the_best_channel_decides():
    scenario = Scenario(workers=2, rate_min=0.7, ee_min=0)
    csi = torch.cat((_csi(1.0, 1.0), _csi(200.0, 1.0)))
    assert [entry.worker for entry in _unreachable(scenario, csi)] == [2]


def test_a_workers_own_pmax_and_static_power_decide():
    scenario = Scenario(workers=3, pmax_dbw=(-20, -40, -20), static_power_w=(0.01, 0.01, 1.0))
    found = _unreachable(scenario.replace(rate_min=0.5, ee_min=30), _csi(100.0, 100.0, 100.0))
    assert [(entry.worker, entry.constraint) for entry in found] == [
        (2, "rate"),
        (3, "energy_efficiency"),
    ]


def test_some_shut_out_are_listed_and_silent_all_shut_out_are_refused():
    scenario = Scenario(workers=2, rate_min=(0.7, 0.5), ee_min=0)
    optimum = find_optimum(scenario, _csi(100.0, 1000.0).repeat(4, 1, 1), max_boxes=1000)
    assert [entry.worker for entry in optimum.unreachable] == [1]
    assert float(optimum.power[:, 0].max()) == 0
    with pytest.raises(InputError, match=r"no worker can ever transmit; worker 1: rate of 30"):
        find_optimum(scenario.replace(rate_min=30), _csi(100.0, 100.0))


def test_limits_that_it_does_not_know_are_left_out():
    """Only lower limits on rate and efficiency can be out of reach for all we know."""
    scenario = Scenario(workers=2, rate_min=0, ee_min=0)
    limits = torch.tensor([30.0, 30.0], dtype=torch.float64)
    usual = Problem.from_scenario(scenario)
    rate, _ = usual.constraints
    for constraint in (Constraint.below(rate.measure, limits), Constraint.at_least(Sinr(), limits)):
        problem = dataclasses.replace(usual, constraints=(constraint,))
        assert check_reachable(problem, scenario, _csi(100.0, 100.0)) == []
    unlimited = Constraint.at_least(rate.measure, limits, torch.tensor([True, False]))
    problem = dataclasses.replace(usual, constraints=(unlimited,))
    assert [e.worker for e in check_reachable(problem, scenario, _csi(100.0, 100.0))] == [1]
