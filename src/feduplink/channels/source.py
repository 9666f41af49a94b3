"""Where channels come from: drawn from a scenario's model, or recorded in a file.

>>> from feduplink.scenario import Scenario
>>> source = ChannelSource.from_scenario(Scenario(workers=2), 5)
>>> source.origin, tuple(source.test.shape), source.recorded
('drawn from the scenario', (5, 2, 2), False)
>>> tuple(source.fresh(3, torch.Generator()).shape)
(3, 2, 2)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from feduplink.channels.drawing import draw_csi
from feduplink.channels.recorded import read_channels
from feduplink.channels.split_sizes import CHANNELS_PER_SPLIT, PARTS
from feduplink.channels.splits import ChannelSplits, draw_splits, split_recording
from feduplink.errors import InputError
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario


@dataclass(frozen=True, repr=False)
class ChannelSource(ChannelSplits):
    """Channels to learn from, to choose by and to report on, that know where they come from.

    Attributes:
        origin: where they come from, in words.
        scenario: whose model draws them; None where they are recorded.
        seed: of the draw.
        assumed_weights: ω, (L,), where recorded channels came without weights and the paper's draw
            stands in.

    """

    origin: str
    scenario: Scenario | None = None
    seed: int = 0
    assumed_weights: Tensor | None = None

    @classmethod
    def from_scenario(
        cls, scenario: Scenario, count: int = CHANNELS_PER_SPLIT, *, seed: int = 0
    ) -> ChannelSource:
        """``count`` drawn channels for each part, as :func:`draw_splits` draws them."""
        splits = draw_splits(scenario, count, seed=seed)
        return cls(**vars(splits), origin="drawn from the scenario", scenario=scenario, seed=seed)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> ChannelSource:
        """The parts of a recording, as :func:`split_recording` splits it."""
        splits = split_recording(read_channels(path).csi)
        return cls(**vars(splits), origin=f"from {path}")

    def __repr__(self) -> str:
        """How many channels each part has, and where they come from."""
        counts = ", ".join(f"{len(getattr(self, part))} for {part}" for part in PARTS)
        return f"ChannelSource({counts}, {self.test.shape[-1]} workers, {self.origin})"

    @property
    def recorded(self) -> bool:
        """Whether there are these channels and no others."""
        return self.scenario is None

    @property
    def all_parts(self) -> Tensor:
        """The three parts put back together in the order of the recording, (N, L, L)."""
        parts = [getattr(self, part) for part in PARTS]
        whole = self.test.new_empty(sum(map(len, parts)), *self.test.shape[1:])
        for first, part in enumerate(parts):
            whole[first :: len(parts)] = part
        return whole

    def fresh(self, count: int, generator: torch.Generator) -> Tensor:
        """``count`` channels more, of the same cell if it is kept, (count, L, L)."""
        if self.scenario is None:
            raise InputError(
                f"fresh channels: those {self.origin} are recorded and no others can be drawn; "
                "accepted: channels drawn from a scenario."
            )
        return draw_csi(self.scenario, count, generator, cell=torch_generator(self.seed, "cell"))

    def headline(self, csi: Tensor) -> str:
        """How many channels ``csi`` (N, L, L) of this source are, and where they come from."""
        if not self.recorded:
            return f"{len(csi)} channels, {self.origin}"
        total = len(self.training) + len(self.validation) + len(self.test)
        return f"{len(csi)} of the {total} channels {self.origin}"

    @property
    def notes(self) -> list[str]:
        """What a reader of results on these channels has to know."""
        notes = []
        if self.recorded:
            parts = {part: len(getattr(self, part)) for part in PARTS}
            notes.append(
                f"the {sum(parts.values())} channels {self.origin} are split in turns: "
                f"{parts['training']} to train and tune on, {parts['validation']} for validation, "
                f"{parts['test']} for the test"
            )
        if self.assumed_weights is not None:
            low, high = self.assumed_weights.aminmax()
            notes.append(
                f"the workers' weights are the paper's draw ({low:.3f} to {high:.3f}), not of your "
                "data; --weights takes your own"
            )
        return notes

    def as_metrics(self) -> dict[str, Any]:
        """The ``channels`` entry of ``metrics.json``."""
        entry: dict[str, Any] = {"source": self.origin, "count": len(self.test)}
        if self.recorded:
            entry["parts"] = {part: len(getattr(self, part)) for part in PARTS}
        if self.assumed_weights is not None:
            entry["weights"] = {
                "values": self.assumed_weights.tolist(),
                "origin": "the paper's draw of data sizes; the recording came without any",
            }
        return entry
