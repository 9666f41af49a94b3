"""Sets of channels: drawn from a scenario's model or recorded, split into training, validation and
test.

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

from feduplink.channels.csi import check_antenna, check_csi, scale_interference
from feduplink.channels.models import AntennaChannelModel, ChannelModel, Channels
from feduplink.channels.recorded import read_channels
from feduplink.errors import InputError
from feduplink.randomness import Stream, torch_generator
from feduplink.registry import CHANNEL_MODELS
from feduplink.scenario import Scenario
from feduplink.settings import CHANNELS_PER_SPLIT, PARTS


def draw_csi(
    scenario: Scenario,
    count: int,
    generator: torch.Generator,
    *,
    cell: torch.Generator | None = None,
) -> Tensor:
    """H of ``count`` realisations, (count, L, L) float32.

    With ``geometry: redrawn`` they are independent; with ``geometry: kept`` they are the
    successive rounds of one run, with workers that move and fading that is correlated as the
    scenario says. Where kept workers start, and behind which obstacles, is drawn from ``cell``, if
    given: draws from the same cell differ in the fading alone.
    """
    return draw_channels(scenario, count, generator, cell=cell, keep_antenna=False).csi


def draw_channels(
    scenario: Scenario,
    count: int,
    generator: torch.Generator,
    *,
    cell: torch.Generator | None = None,
    keep_antenna: bool = True,
) -> Channels:
    """As :func:`draw_csi`, with the antenna coefficients unless they are not to be kept."""
    if count < 1:
        raise InputError(f"count: {count}; accepted: 1 or more channels.")
    model = _model(scenario)
    # Where nothing is kept there is no cell to share, and a model need not take one.
    shared = {"cell": cell} if cell is not None and scenario.geometry == "kept" else {}
    if not keep_antenna:
        drawn = Channels(model.draw(count, generator, **shared))
    elif isinstance(model, AntennaChannelModel):
        drawn = model.draw_with_antennas(count, generator, **shared)
    else:
        raise InputError(
            f"channel_model: {scenario.channel_model} draws no antenna coefficients; accepted: the "
            "CSI alone, or a model with draw_with_antennas."
        )
    csi, antenna = _checked(drawn, scenario, count)
    return Channels(scale_interference(csi, scenario.interference), antenna)


def _model(scenario: Scenario) -> ChannelModel:
    """The scenario's channel model, built for it."""
    found = CHANNEL_MODELS.find(scenario.channel_model)
    if not callable(found) or (isinstance(found, type) and not hasattr(found, "draw")):
        raise InputError(
            f"channel_model: {scenario.channel_model} is no channel model; accepted: a class that "
            "is built for a scenario and has draw(count, generator)."
        )
    return found(scenario)


def _checked(drawn: Channels, scenario: Scenario, count: int) -> tuple[Tensor, Tensor | None]:
    """H in float32 and the coefficients of a draw, if they are of ``count`` channels."""
    csi, expected = drawn.csi, (count, scenario.workers, scenario.workers)
    shape = tuple(csi.shape) if isinstance(csi, Tensor) else type(csi).__name__
    try:
        if shape != expected:
            raise InputError(f"csi: {shape} was drawn; accepted here: a tensor {expected}.")
        csi = check_csi(csi.to(torch.float32) if csi.is_floating_point() else csi)
        return csi, None if drawn.antenna is None else check_antenna(drawn.antenna, csi)
    except InputError as error:
        raise InputError(f"channel_model: {scenario.channel_model}: {error}") from None


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
