from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from feduplink import Problem, Scenario, draw_csi, judge
from feduplink.optimum import interference_free_bound


def _bound(scenario: Scenario, direct: torch.Tensor) -> float:
    return interference_free_bound(Problem.from_scenario(scenario), scenario.pmax_w, direct)


@pytest.mark.parametrize("utility", ["weighted-sum", "proportional-fairness"])
@pytest.mark.parametrize("objective", ["psr", "rate", "energy_efficiency"])
def test_it_is_reached_without_interference_and_never_exceeded(objective: str, utility: str):
    scenario = Scenario(
        workers=2, objective=objective, utility=utility, weights=(0.5, 2.0), rate_min=0, ee_min=0
    )
    csi = draw_csi(scenario, 20, torch.Generator().manual_seed(0)).double()
    bound = _bound(scenario, csi.diagonal(dim1=-2, dim2=-1))
    rng = np.random.default_rng(0)
    for _ in range(20):
        share = torch.from_numpy(10 ** rng.uniform(-3, 0, (20, 2)))
        assert judge(share * scenario.pmax_w, csi, scenario).objective < bound
    silent_neighbours = csi * torch.eye(2)
    grid = torch.logspace(-4, 0, 4001, dtype=torch.float64)[:, None, None] * scenario.pmax_w
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


def test_no_more_than_every_upload_arrives():
    scenario = Scenario(workers=3, weights="ones")
    strong = torch.full((4, 3), 1e12, dtype=torch.float64)
    assert _bound(scenario, strong) == pytest.approx(3.0)
    assert _bound(scenario, strong) <= 3.0


def test_of_a_measure_that_does_not_know_its_most_nothing_is_said():
    scenario = Scenario(workers=2, objective="link.own_measures:AveragePower")
    assert _bound(scenario, torch.ones(4, 2, dtype=torch.float64)) == math.inf
