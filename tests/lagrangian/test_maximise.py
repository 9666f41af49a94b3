from __future__ import annotations

import torch

from feduplink.lagrangian import ChannelBatch, MultiStart, Prices, switched_from_each


def _excluding() -> tuple[ChannelBatch, Prices]:
    """Worker 0 is worth most alone, but 1 and 2 together, which it shuts out, are worth more."""
    direct = torch.tensor([[150.0, 100.0, 100.0]], dtype=torch.float64)
    cross = torch.full((1, 3, 3), 1e4, dtype=torch.float64)
    cross[:, 1, 2] = cross[:, 2, 1] = 0.0
    cross.diagonal(dim1=-2, dim2=-1).zero_()
    ones = torch.ones(3, dtype=torch.float64)
    batch = ChannelBatch(direct, cross, ones, 0.023, ones, 1.0)
    return batch, Prices(0 * ones, ones, 0 * ones, 0 * ones)


def test_workers_that_exclude_each_other_are_switched():
    batch, prices = _excluding()
    best = MultiStart(batch, prices).best(prices)
    torch.testing.assert_close(best, torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64))


def test_switching_starts_from_every_worker():
    batch, prices = _excluding()
    starts = switched_from_each(batch, prices)
    assert len(starts) == 3
    for start in starts:
        assert ((start == 0) | (start == batch.pmax_w)).all()
