"""Training, validation and test channels: drawn, or parts of a recording."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.channels.drawing import draw_csi
from feduplink.channels.split_sizes import CHANNELS_PER_SPLIT, PARTS
from feduplink.errors import InputError
from feduplink.randomness import Stream, torch_generator
from feduplink.scenario import Scenario


@dataclass(frozen=True, repr=False)
class ChannelSplits:
    """Channels to learn from, to choose by and to report on, (N, L, L) each."""

    training: Tensor
    validation: Tensor
    test: Tensor

    def __repr__(self) -> str:
        """How many channels each split has."""
        counts = ", ".join(f"{len(getattr(self, part))} for {part}" for part in PARTS)
        return f"ChannelSplits({counts}, {self.test.shape[-1]} workers)"


def draw_splits(
    scenario: Scenario, count: int = CHANNELS_PER_SPLIT, *, seed: int = 0
) -> ChannelSplits:
    """``count`` channels for each split, each from a stream of its own.

    With ``geometry: kept`` all three are of the same cell.
    """
    return ChannelSplits(
        training=_draw(scenario, count, seed, "train-channels"),
        validation=_draw(scenario, count, seed, "validation-channels"),
        test=_draw(scenario, count, seed, "test-channels"),
    )


def draw_training_csi(scenario: Scenario, count: int, *, seed: int = 0, block: int = 0) -> Tensor:
    """The training channels of :func:`draw_splits`, only as many as it takes, (count, L, L).

    Other blocks have other channels of the same cell.
    """
    return _draw(scenario, count, seed, "train-channels", block)


def split_recording(csi: Tensor) -> ChannelSplits:
    """The three parts of recorded channels (N, L, L), in turns.

    Channels 0, 3, 6, … are for training, 1, 4, 7, … for validation and 2, 5, 8, … for the test:
    every part sees the whole recording, in its order, and no channel is in two of them. Where
    neighbouring channels of a recording are alike, so are the parts.
    """
    if len(csi) < len(PARTS):
        raise InputError(
            f"channels: {len(csi)} recorded; accepted: {len(PARTS)} or more, for training, "
            "validation and test."
        )
    return ChannelSplits(*(csi[first :: len(PARTS)] for first in range(len(PARTS))))


def resampled_csi(csi: Tensor, count: int, *, seed: int = 0) -> Tensor:
    """``count`` of the channels (N, L, L) drawn with replacement, (count, L, L)."""
    generator = torch_generator(seed, "round-channels")
    return csi[torch.randint(len(csi), (count,), generator=generator)]


def _draw(scenario: Scenario, count: int, seed: int, stream: Stream, block: int = 0) -> Tensor:
    cell = torch_generator(seed, "cell")
    return draw_csi(scenario, count, torch_generator(seed, stream, block), cell=cell)
