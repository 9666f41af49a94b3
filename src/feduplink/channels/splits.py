"""Training, validation and test channels of one seed."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from feduplink.channels.model import draw_csi
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Channels in each of the three sets, unless asked otherwise.
CHANNELS_PER_SPLIT = 1000


@dataclass(frozen=True)
class ChannelSplits:
    """Channels to learn from, to choose by and to report on, (N, L, L) each."""

    training: Tensor
    validation: Tensor
    test: Tensor


def draw_splits(
    scenario: Scenario, count: int = CHANNELS_PER_SPLIT, *, seed: int = 0
) -> ChannelSplits:
    """``count`` channels for each split, each from a stream of its own."""
    return ChannelSplits(
        training=draw_csi(scenario, count, torch_generator(seed, "train-channels")),
        validation=draw_csi(scenario, count, torch_generator(seed, "validation-channels")),
        test=draw_csi(scenario, count, torch_generator(seed, "test-channels")),
    )
