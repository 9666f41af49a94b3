from __future__ import annotations

import torch

from feduplink import Scenario, link
from feduplink.channels import make_channels
from feduplink.link import Schedule
from feduplink.scheduling import (
    find_schedules,
    learned_schedules,
    learned_senders,
    shipped_phase_network,
)

BITS = 1.0e6


def test_schedules_of_the_shipped_network_cost_at_most_three_percent_more():
    scenario = Scenario()
    csi = make_channels(scenario, 16, seed=9).test
    for kappa, most in ((0.0, 1.03), (10.0, 1.03), (50.0, 1.03)):
        schedule = learned_schedules(
            shipped_phase_network(), scenario, csi, BITS, seconds_per_joule=kappa
        )
        upload = link.scheduled_upload(csi.double(), schedule, BITS, scenario.bandwidth_hz)
        assert upload.finished.all()
        cost = upload.duration_s + kappa * schedule.energy_j(scenario.static_power)
        best = find_schedules(scenario, csi, BITS, seconds_per_joule=kappa).cost
        assert (cost >= best * (1 - 2e-3)).all()
        assert float(cost.mean() / best.mean()) < most


def test_permuting_workers_leaves_the_time_unchanged():
    network = shipped_phase_network()
    scenario = Scenario(workers=5)
    csi = make_channels(scenario, 3, seed=2).test
    order = torch.tensor([3, 0, 4, 1, 2])
    one = learned_schedules(network, scenario, csi, BITS, seconds_per_joule=5.0)
    other = learned_schedules(
        network, scenario, csi[:, order][:, :, order], BITS, seconds_per_joule=5.0
    )
    torch.testing.assert_close(one.time_s, other.time_s, rtol=1e-3, atol=0.0)


def test_schedules_cost_the_same_one_by_one_and_batched():
    scenario = Scenario()
    csi = make_channels(scenario, 12, seed=4).test
    network, static = shipped_phase_network(), scenario.static_power
    for kappa in (0.0, 10.0):
        many = learned_schedules(network, scenario, csi, BITS, seconds_per_joule=kappa)
        single = Schedule.concat(
            [
                learned_schedules(network, scenario, one[None], BITS, seconds_per_joule=kappa)
                for one in csi
            ]
        )
        cost, other = (found.time_s + kappa * found.energy_j(static) for found in (many, single))
        # Rounding in float32 may switch another worker.
        torch.testing.assert_close(cost, other, rtol=2e-3, atol=0.0)
        assert float((cost / other - 1).abs().median()) < 1e-5


def test_senders_are_the_same_one_by_one_and_batched():
    scenario = Scenario(workers=4)
    csi = make_channels(scenario, 12, seed=3).test
    network, rewards = shipped_phase_network(), torch.tensor([0.0, 0.5, 1.0, 1e6])
    many = learned_senders(network, scenario, csi, BITS, rewards, seconds_per_joule=5.0)
    single = [
        learned_senders(network, scenario, one[None], BITS, rewards, seconds_per_joule=5.0)
        for one in csi
    ]
    # Rounding in float32 may tip a worker at the threshold.
    assert int((many != torch.cat(single)).sum()) <= 1
    assert many[:, 3].all()
    assert not many[:, 0].any()


def test_only_the_given_senders_transmit():
    csi = make_channels(Scenario(workers=3), 1, seed=1).test
    senders = torch.tensor([[True, False, True]])
    found = learned_schedules(
        shipped_phase_network(), Scenario(workers=3), csi, BITS, senders=senders
    )
    assert torch.equal(found.senders, senders)


def test_the_memory_layout_of_the_channels_does_not_matter():
    csi = make_channels(Scenario(workers=3), 2, seed=1).test
    turned = csi.mT.contiguous().mT
    one, other = (
        learned_schedules(shipped_phase_network(), Scenario(workers=3), gains, BITS)
        for gains in (csi, turned)
    )
    torch.testing.assert_close(one.time_s, other.time_s, rtol=2e-3, atol=0.0)
