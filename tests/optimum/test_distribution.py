from __future__ import annotations

import pytest

from feduplink import Scenario
from feduplink.channels import make_channels
from feduplink.optimum import distribution_bound, solve_dual


def test_no_more_than_every_upload_can_arrive():
    scenario = Scenario(workers=2)
    csi = make_channels(scenario, 10).test
    multipliers = solve_dual(scenario, csi).multipliers
    bound = distribution_bound(scenario, multipliers, csi, confidence=0.95)
    assert bound.upper_bound == pytest.approx(float(scenario.worker_weights.sum()))


def test_the_bound_for_the_distribution_covers_a_large_sample():
    scenario = Scenario(workers=2, objective="rate")
    splits = make_channels(scenario, 300)
    multipliers = solve_dual(scenario, splits.training).multipliers
    bound = distribution_bound(scenario, multipliers, splits.test, confidence=0.95)
    many = solve_dual(scenario, splits.validation)
    assert bound.upper_bound > many.dual_value
    wider = distribution_bound(scenario, multipliers, splits.test, confidence=0.999)
    assert wider.upper_bound > bound.upper_bound
    assert "0.95 confidence" in bound.sentence()
    assert "independent draws" in bound.sentence(recorded=True)
    assert bound.as_metrics()["channels"] == 300
