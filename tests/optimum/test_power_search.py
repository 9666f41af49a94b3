"""The sum rate of the Rayleigh interference channel against grids and local searches."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from feduplink.lagrangian import ChannelBatch, MultiStart, Prices
from feduplink.optimum import Budget, Certificate, PowerSearch, Target, certify
from feduplink.progress import track

_BIT = math.log(2)


def _sum_rate(users: int, channels: int) -> tuple[ChannelBatch, Prices]:
    generator = torch.Generator().manual_seed(users)
    gains = torch.empty(channels, users, users, dtype=torch.float64)
    gains = 100 * gains.exponential_(generator=generator)
    ones = torch.ones(users, dtype=torch.float64)
    batch = ChannelBatch(
        direct=gains.diagonal(dim1=-2, dim2=-1).contiguous(),
        cross=gains.masked_fill(torch.eye(users, dtype=torch.bool), 0.0),
        pmax_w=ones,
        waterfall=0.023,
        static_power_w=0.01 * ones,
        amplifier_inefficiency=1.0,
    )
    return batch, Prices(0 * ones, ones, 0 * ones, 0 * ones)


def _proved(batch: ChannelBatch, prices: Prices, *, record: bool = False) -> Certificate:
    return certify(
        batch,
        prices,
        gap=0.01 * _BIT,
        channel_gap=0.01 * _BIT,
        record=record,
    )


@pytest.mark.parametrize("record", [False, True])
def test_every_channel_is_bounded_to_a_percent_of_a_bit(record: bool):
    batch, prices = _sum_rate(6, channels=20)
    certificate = _proved(batch, prices, record=record)
    # A recorded search adds a slack for workers under their floor.
    allowed = 0.01 * _BIT + 1e-5 * record
    assert float((certificate.upper - certificate.lower).max()) <= allowed
    levels = torch.tensor([0.0, 0.03, 0.2, 1.0], dtype=torch.float64)
    powers = torch.tensor(list(itertools.product(levels.tolist(), repeat=6)), dtype=torch.float64)
    for n in range(20):
        searched = batch.take(torch.tensor([n])).value(powers, prices).max()
        assert float(searched) <= float(certificate.upper[n])
        assert float(searched) <= float(certificate.lower[n]) + 1e-12


def test_a_search_with_little_memory_finds_the_same_bounds():
    batch, prices = _sum_rate(5, channels=10)
    expected = _proved(batch, prices)
    target = Target(0.01 * _BIT, 0.01 * _BIT)
    search = PowerSearch(batch, prices, target, record=False, chunk=5 * 16, max_open=5 * 40)
    with track("search") as progress:
        certificate = search.run(Budget(), progress)
    assert float((certificate.upper - certificate.lower).max()) <= 0.01 * _BIT
    torch.testing.assert_close(certificate.lower, expected.lower, rtol=0, atol=0.01 * _BIT)


def test_branch_and_bound_finds_better_powers_than_local_search():
    batch, prices = _sum_rate(8, channels=40)
    first = batch.value(MultiStart(batch, prices, rounds=1).best(prices), prices)
    certificate = _proved(batch, prices)
    assert (certificate.lower >= first).all()
    assert float((certificate.lower - first).max()) > 0.01
    torch.testing.assert_close(batch.value(certificate.power, prices), certificate.lower)
