from __future__ import annotations

import itertools

import pytest
import torch
from scipy.optimize import linprog

from feduplink import Scenario, link
from feduplink.channels import make_channels
from feduplink.policies import TDMA
from feduplink.scheduling import ScheduleSolution, bound_front, find_front, find_schedules

BITS = 1.0e6
TWO = Scenario(workers=2)


def brute_force(csi: torch.Tensor, scenario: Scenario, kappa: float, levels: int) -> float:
    """The best schedule among all mixtures of powers on a grid, by HiGHS."""
    pmax, static = float(scenario.max_power), float(scenario.static_power)
    relative = torch.cat((torch.zeros(1), torch.logspace(-4, 0, levels))).double()
    grid = torch.tensor(list(itertools.product(relative.tolist(), repeat=csi.shape[-1])))[1:]
    power = pmax * grid.double()
    rates = scenario.bandwidth_hz * torch.log2(1 + link.sinr(csi.double()[None], power))
    cost = 1 + kappa * ((power + static) * (power > 0)).sum(-1)
    found = linprog(cost.numpy(), A_ub=-rates.T.numpy(), b_ub=[-BITS] * csi.shape[-1])
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("kappa", [0.0, 10.0, 200.0])
def test_schedules_of_two_workers_cost_no_more_than_all_mixtures_of_a_grid(kappa: float):
    csi = make_channels(TWO, 12, seed=5).test
    found = find_schedules(TWO, csi, BITS, seconds_per_joule=kappa, tolerance=1e-6)
    for channel, cost in zip(csi, found.cost.tolist(), strict=True):
        exact = brute_force(channel, TWO, kappa, levels=80)
        # Powers between those of the grid are slightly better.
        assert 0.99 * exact <= cost <= exact * (1 + 1e-4)


def test_time_and_energy_of_a_schedule_are_those_of_its_upload():
    scenario = Scenario()
    csi = make_channels(scenario, 8, seed=2).test
    bits = torch.linspace(0.5e6, 2e6, 8)
    found = find_schedules(scenario, csi, bits, seconds_per_joule=20.0)
    upload = link.scheduled_upload(csi.double(), found.schedule, bits, scenario.bandwidth_hz)
    assert upload.finished.all()
    torch.testing.assert_close(upload.duration_s, found.schedule.time_s)
    energy = link.energy(upload.power, upload.airtime_s, bits, scenario.static_power).sum(-1)
    torch.testing.assert_close(energy, found.schedule.energy_j(scenario.static_power))
    torch.testing.assert_close(found.cost, upload.duration_s + 20.0 * energy)
    assert (found.schedule.power <= scenario.max_power).all()
    assert (found.excess <= 1e-3).all()


def test_without_interference_simultaneous_transmission_is_fastest():
    scenario = Scenario(workers=4)
    csi = (
        torch.diag_embed(make_channels(scenario, 6, seed=1).test.diagonal(dim1=-2, dim2=-1)) + 1e-9
    )
    found = find_schedules(scenario, csi, BITS, tolerance=1e-6)
    full = scenario.max_power.expand(6, 4)
    slowest = link.simultaneous_upload(csi.double(), full, BITS, scenario.bandwidth_hz).duration_s
    torch.testing.assert_close(found.cost, slowest, rtol=1e-5, atol=0.0)


def test_under_strong_interference_tdma_is_fastest():
    scenario = Scenario(workers=3)
    csi = make_channels(scenario, 6, seed=1).test.double()
    csi = torch.full_like(csi, 1e12) * (1 - torch.eye(3)) + torch.diag_embed(
        csi.diagonal(dim1=-2, dim2=-1)
    )
    found = find_schedules(scenario, csi, BITS, tolerance=1e-6)
    phases = TDMA(scenario).step(csi)
    tdma = link.scheduled_upload(csi, phases, BITS, scenario.bandwidth_hz)
    torch.testing.assert_close(found.cost, tdma.duration_s, rtol=1e-5, atol=0.0)
    busy = found.schedule.durations_s > 1e-6
    assert ((found.schedule.power > 0).sum(-1)[busy] == 1).all()


def test_at_a_large_kappa_each_worker_uses_its_most_efficient_power():
    scenario = Scenario(workers=5)
    csi = make_channels(scenario, 30, seed=4).test.double()
    found = find_schedules(scenario, csi, BITS, seconds_per_joule=1e4)
    gain = csi.diagonal(dim1=-2, dim2=-1)
    best = link.EnergyEfficiency.from_scenario(scenario).most_alone(gain, scenario.max_power)
    least = link.efficiency_for_energy(BITS, 1.0, scenario.bandwidth_hz) / best
    spent = found.schedule.energy_j(scenario.static_power)
    assert (spent >= least.sum(-1) * (1 - 1e-6)).all()
    assert (spent <= least.sum(-1) * 1.01).all()


def front(count: int = 4) -> list[ScheduleSolution]:
    csi = make_channels(Scenario(), count, seed=0).test
    return find_front(Scenario(), csi, BITS, [0.0, 5.0, 20.0, 100.0])


def test_energy_falls_and_time_rises_along_the_front():
    found = front()
    static = Scenario().static_power
    times = torch.stack([solution.schedule.time_s for solution in found])
    energies = torch.stack([solution.schedule.energy_j(static) for solution in found])
    # Schedules of a cost within a share ε of the least may cross by that share.
    assert (times.diff(dim=0) > -2e-3 * times[0]).all()
    assert (energies.diff(dim=0) < 2e-3 * energies[0] + 2e-3 * times[0] / 5.0).all()


def test_only_the_given_senders_transmit():
    csi = make_channels(Scenario(), 6, seed=0).test
    senders = torch.zeros(6, 8, dtype=torch.bool)
    senders[:, [1, 4, 5]] = True
    some = find_schedules(Scenario(), csi, BITS, senders=senders)
    assert torch.equal(some.schedule.senders, senders)
    alone = csi[:, [1, 4, 5]][:, :, [1, 4, 5]]
    same = find_schedules(Scenario(workers=3), alone, BITS)
    torch.testing.assert_close(some.cost, same.cost, rtol=2e-3, atol=0.0)
    nobody = find_schedules(Scenario(), csi, BITS, senders=torch.zeros_like(senders))
    assert (nobody.cost == 0).all()


THREE = Scenario(workers=3)


@pytest.mark.parametrize("kappa", [0.0, 20.0])
def test_the_cost_of_three_workers_is_bounded_within_one_percent(kappa: float):
    csi = make_channels(THREE, 5, seed=7).test
    (found,) = bound_front(THREE, csi, BITS, [kappa], gap=0.01)
    assert (found.gap <= 0.01).all()
    assert (found.gap >= 0).all()
    # No mixture of a grid is below the bound or far below the schedule.
    for channel, lower, cost in zip(csi, found.lower, found.solution.cost, strict=True):
        grid = brute_force(channel, THREE, kappa, levels=20)
        assert float(lower) <= grid
        assert float(cost) <= grid * (1 + 1e-3)


def test_a_bound_without_search_is_sound():
    csi = make_channels(Scenario(), 4, seed=7).test
    (hasty,) = bound_front(Scenario(), csi, BITS, [0.0], gap=0.001, max_boxes=0)
    (patient,) = bound_front(Scenario(), csi, BITS, [0.0], gap=0.02)
    assert (hasty.lower <= patient.solution.cost).all()
    assert (patient.gap <= 0.02).all()
    assert (hasty.lower > 0).all()
    torch.testing.assert_close(hasty.solution.cost, patient.solution.cost, rtol=5e-3, atol=0.0)
