from __future__ import annotations

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.training import AnyScenario, TunedProblems


def drawn(curriculum: TunedProblems) -> tuple[ChannelBatch, Prices]:
    """A batch of the first cell that is under way."""
    generator = torch.Generator().manual_seed(1)
    while True:
        batch, prices = curriculum.draw(64, generator)
        if scaled(curriculum):
            return batch, prices


def scaled(curriculum: TunedProblems) -> list[Tensor]:
    tensors = curriculum.state().tensors
    return [value for name, value in tensors.items() if name.endswith(".scaled")]


def test_a_constraint_that_is_missed_gets_a_multiplier_and_one_that_is_exceeded_none():
    """Alone on the air at a billionth of Pmax every threshold is missed; silence misses none."""
    for level, paid in ((1e-9, 0.3), (0.0, 0.0)):
        curriculum = TunedProblems(AnyScenario(workers=(1,)))
        batch, prices = drawn(curriculum)
        assert not prices.activation_cost.any()  # nothing is paid at first
        curriculum.respond((level * batch.pmax_w).expand(64, 1))
        (found,) = scaled(curriculum)
        torch.testing.assert_close(found, torch.full_like(found, paid), rtol=1e-3, atol=0)


def test_thresholds_are_at_most_what_workers_reach_alone():
    curriculum = TunedProblems(AnyScenario(workers=(4,)), seed=3)
    batch, _ = drawn(curriculum)
    (thresholds,) = (
        value for name, value in curriculum.state().tensors.items() if name.endswith("thresholds")
    )
    most = torch.log1p(batch.direct.double() * batch.pmax_w).mean()
    assert (thresholds > 0).all()
    assert thresholds[:, 0].max() < 2 * most  # of other channels of the cell
