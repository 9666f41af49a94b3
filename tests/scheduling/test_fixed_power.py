from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from feduplink import Scenario, link
from feduplink.channels import make_channels
from feduplink.link import Schedule
from feduplink.scheduling import find_fixed_powers, find_schedules

BITS = 1.0e6


def _cost(scenario: Scenario, csi: Tensor, schedule: Schedule, kappa: float) -> Tensor:
    """Time + κ · energy of every round, (N,) s."""
    upload = link.scheduled_upload(csi.double(), schedule, BITS, scenario.bandwidth_hz)
    power = schedule.power[:, 0]
    energy_j = link.energy(power, upload.airtime_s, BITS, scenario.static_power).sum(-1)
    return upload.duration_s + kappa * energy_j


@pytest.mark.parametrize("kappa", [0.0, 30.0])
def test_fixed_powers_of_two_workers_are_the_best_of_a_grid(kappa: float):
    scenario = Scenario(workers=2)
    csi = make_channels(scenario, 6, seed=5).test.double()
    found = find_fixed_powers(scenario, csi, BITS, seconds_per_joule=kappa)
    levels = (scenario.max_power * torch.logspace(-4, 0, 120)).tolist()
    grid = torch.tensor(list(itertools.product(levels, repeat=2)), dtype=torch.float64)
    costs = _cost(scenario, csi, found, kappa)
    for channel, cost in zip(csi, costs.tolist(), strict=True):
        upload = link.simultaneous_upload(channel, grid, BITS, scenario.bandwidth_hz)
        energy = ((grid + scenario.static_power) * upload.airtime_s).sum(-1)
        best = float((upload.duration_s + kappa * energy).min())
        assert 0.98 * best <= cost <= 1.005 * best


def test_the_cost_is_at_least_that_of_a_schedule_and_powers_are_at_most_pmax():
    scenario = Scenario(workers=4)
    csi = make_channels(scenario, 5, seed=1).test
    found = find_fixed_powers(scenario, csi, BITS, seconds_per_joule=10.0)
    best = find_schedules(scenario, csi, BITS, seconds_per_joule=10.0)
    assert (_cost(scenario, csi, found, 10.0) >= best.cost * (1 - 1e-3)).all()
    assert (found.power <= scenario.max_power * (1 + 1e-12)).all()


def test_only_the_given_senders_transmit():
    senders = torch.tensor([[True, False, True]])
    csi = make_channels(Scenario(workers=3), 1, seed=1).test
    found = find_fixed_powers(Scenario(workers=3), csi, BITS, senders=senders)
    assert torch.equal(found.power[:, 0] > 0, senders)
