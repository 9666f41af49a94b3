"""Sets of channels: drawn from a scenario's model or recorded, split into training, validation and
test.

>>> from feduplink.scenario import DRAWING_FIELDS, Scenario
>>> channels = make_channels(Scenario(workers=2), 5)
>>> channels.origin, tuple(channels.test.shape), channels.recorded
('drawn from the scenario', (5, 2, 2), False)
>>> tuple(channels.fresh(3, torch.Generator()).shape)
(3, 2, 2)
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from feduplink.channels.csi import check_antenna, check_csi, noisy_csi, scale_interference
from feduplink.channels.models import AntennaChannelModel, ChannelModel, Realisations
from feduplink.channels.recorded import Recording, read_recording, recorded_array
from feduplink.channels.summary import ChannelSummary, doubts, summarise
from feduplink.errors import InputError
from feduplink.randomness import Stream, torch_generator
from feduplink.registry import CHANNEL_MODELS
from feduplink.scenario import DRAWING_FIELDS, Scenario
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
) -> Realisations:
    """As :func:`draw_csi`, with the antenna coefficients unless they are not to be kept."""
    if count < 1:
        raise InputError(f"count: {count}; accepted: 1 or more channels.")
    if not isinstance(generator, torch.Generator):
        raise InputError(
            f"generator: {generator!r} is not a torch.Generator; make_channels takes a seed."
        )
    model = _model(scenario)
    # Where nothing is kept there is no cell to share, and a model need not take one.
    shared = {"cell": cell} if cell is not None and scenario.geometry == "kept" else {}
    if not keep_antenna:
        drawn = Realisations(model.draw(count, generator, **shared))
    elif isinstance(model, AntennaChannelModel):
        drawn = model.draw_with_antennas(count, generator, **shared)
    else:
        raise InputError(
            f"channel_model: {scenario.channel_model} draws no antenna coefficients; accepted: the "
            "CSI alone, or a model with draw_with_antennas."
        )
    csi, antenna = _checked(drawn, scenario, count)
    return Realisations(scale_interference(csi, scenario.interference), antenna)


def _model(scenario: Scenario) -> ChannelModel:
    """The scenario's channel model, built for it."""
    found = CHANNEL_MODELS.find(scenario.channel_model)
    if not callable(found) or (isinstance(found, type) and not hasattr(found, "draw")):
        raise InputError(
            f"channel_model: {scenario.channel_model} is no channel model; accepted: a class that "
            "is built for a scenario and has draw(count, generator)."
        )
    return found(scenario)


def _checked(drawn: Realisations, scenario: Scenario, count: int) -> tuple[Tensor, Tensor | None]:
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


def draw_training_csi(scenario: Scenario, count: int, *, seed: int = 0, block: int = 0) -> Tensor:
    """The training channels of :func:`make_channels`, only as many as it takes, (count, L, L).

    Other blocks have other channels of the same cell.
    """
    return _draw(scenario, count, seed, "train-channels", block)


def resample_csi(csi: Tensor, count: int, *, seed: int = 0) -> Tensor:
    """``count`` of the channels (N, L, L) drawn with replacement, (count, L, L)."""
    generator = torch_generator(seed, "round-channels")
    return csi[torch.randint(len(csi), (count,), generator=generator)]


def observe_csi(
    csi: Tensor, scenario: Scenario, *, seed: int, noise: Stream = "csi-noise", run: int = 0
) -> Tensor:
    """The CSI that policies see, (N, L, L): true channels with the noise of the scenario.

    Args:
        csi: true channels H, (N, L, L).
        scenario: gives the variance of the noise.
        seed: of the noise.
        noise: random stream of the noise. Every purpose has its own, so that a policy is not judged
            with the noise that it was tuned or selected on.
        run: number of a federated run, or of a block of channels.
    """
    check_csi(csi, scenario.workers)
    return noisy_csi(csi, scenario.csi_noise, torch_generator(seed, noise, run))


def _draw(scenario: Scenario, count: int, seed: int, stream: Stream, block: int = 0) -> Tensor:
    cell = torch_generator(seed, "cell")
    return draw_csi(scenario, count, torch_generator(seed, stream, block), cell=cell)


@dataclass(frozen=True, repr=False)
class Channels:
    """Channels to train and tune on, to validate on and to test on.

    The whole set is validated once, when it is made.

    Attributes:
        csi: H of all channels, (N, L, L), in the order of the recording if there is one.
        rows: the split of each name in :data:`PARTS`, as indices into ``csi``.
        origin: where they come from, in words.
        scenario: the scenario whose model draws them; None for recorded channels.
        seed: of the draw.
        assumed_weights: ω, (L,), if the recording has no weights and the paper's draw replaces
            them.
        file: the recording, if they are from one.
        order: how the axes of a recording were read, in words.
        pmax_w: Pmax of the scenario that recorded channels are for, () or (L,), W; None: 1 W.

    """

    csi: Tensor
    rows: Mapping[str, Tensor]
    origin: str
    scenario: Scenario | None = None
    seed: int = 0
    assumed_weights: Tensor | None = None
    file: str | None = None
    order: str = ""
    pmax_w: Tensor | None = None

    def __post_init__(self) -> None:
        check_csi(self.csi)

    @classmethod
    def from_scenario(
        cls, scenario: Scenario, count: int = CHANNELS_PER_SPLIT, *, seed: int = 0
    ) -> Channels:
        """Draw ``count`` channels for each split, each split from a random stream of its own.

        With ``geometry: kept`` all three are of the same cell.
        """
        streams: tuple[Stream, ...] = ("train-channels", "validation-channels", "test-channels")
        csi = torch.cat([_draw(scenario, count, seed, stream) for stream in streams])
        rows = dict(zip(PARTS, torch.arange(3 * count).split(count), strict=True))
        return cls(csi, rows, "drawn from the scenario", scenario, seed)

    @classmethod
    def from_csi(cls, csi: Tensor, origin: str = "of an array") -> Channels:
        """Split recorded channels (N, L, L) in turn.

        Channels 0, 3, 6, … are for training, 1, 4, 7, … for validation and 2, 5, 8, … for the
        test: each split covers the whole recording, in its order. Neighbouring channels of a
        correlated recording are alike, and so are the splits then.
        """
        if csi.ndim != 3:
            raise InputError(f"channels: shape {tuple(csi.shape)}; accepted: (N, L, L).")
        if len(csi) < len(PARTS):
            raise InputError(
                f"channels: {len(csi)} recorded; accepted: {len(PARTS)} or more, for training, "
                "validation and test."
            )
        indices = torch.arange(len(csi))
        rows = {part: indices[first :: len(PARTS)] for first, part in enumerate(PARTS)}
        return cls(csi, rows, origin)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Channels:
        """Read recorded channels and split them as :meth:`from_csi` does."""
        return cls._from_recording(read_recording(path), f"from {path}", file=str(path))

    @classmethod
    def _from_recording(
        cls, recording: Recording, origin: str, *, file: str | None = None, split: bool = True
    ) -> Channels:
        make = cls.from_csi if split else cls.for_test
        return replace(make(recording.csi, origin), file=file, order=recording.order)

    @classmethod
    def for_test(cls, csi: Tensor, origin: str = "of an array") -> Channels:
        """Channels (N, L, L) to report on as a whole; there are none to train or tune on."""
        none = torch.arange(0)
        rows = {"training": none, "validation": none, "test": torch.arange(len(csi))}
        return cls(csi, rows, origin)

    @cached_property
    def training(self) -> Tensor:
        """Channels to train and tune on, (N, L, L)."""
        return self._split("training")

    @cached_property
    def validation(self) -> Tensor:
        """Channels to choose the best epoch on, (N, L, L)."""
        return self._split("validation")

    @cached_property
    def test(self) -> Tensor:
        """Channels to report on, (N, L, L)."""
        return self._split("test")

    def _split(self, part: str) -> Tensor:
        if len(self.rows[part]) == 0:
            raise InputError(
                f"channels: {self.origin}, without a {part} split; accepted: "
                "make_channels(scenario, channels), which splits an array in three."
            )
        return self.csi[self.rows[part]]

    def __repr__(self) -> str:
        """The number of channels of each split, and where they come from."""
        counts = ", ".join(f"{len(self.rows[part])} for {part}" for part in PARTS)
        return f"Channels({counts}, {self.csi.shape[-1]} workers, {self.origin})"

    @property
    def recorded(self) -> bool:
        """Whether no more channels than these can be drawn."""
        return self.scenario is None

    def fresh(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw more channels, of the same cell if it is kept, (count, L, L)."""
        if self.scenario is None:
            raise InputError(
                f"fresh channels: those {self.origin} are recorded and no others can be drawn; "
                "accepted: channels drawn from a scenario."
            )
        return draw_csi(self.scenario, count, generator, cell=torch_generator(self.seed, "cell"))

    def summary(self) -> ChannelSummary:
        """Number of channels and workers, index order, median SNR and SIR at Pmax, dynamic range.

        >>> from feduplink.scenario import Scenario
        >>> channels = make_channels(Scenario(workers=2), 50)
        >>> channels.summary().channels
        150
        """
        return self._summary

    @cached_property
    def _summary(self) -> ChannelSummary:
        pmax_w = self.scenario.max_power if self.scenario is not None else self.pmax_w
        at_pmax = torch.ones(()) if pmax_w is None else pmax_w
        return summarise(self.csi, at_pmax, self.order)

    def headline(self, csi: Tensor) -> str:
        """The number of channels in ``csi`` (N, L, L), a part of these, and their origin."""
        if not self.recorded:
            return f"{len(csi)} channels, {self.origin}"
        return f"{len(csi)} of the {len(self.csi)} channels {self.origin}"

    @property
    def notes(self) -> list[str]:
        """What a reader of results on these channels has to know."""
        notes = []
        if self.pmax_w is not None:
            notes.append(str(self.summary()))
        if self.recorded and len(self.rows["training"]):
            parts = {part: len(self.rows[part]) for part in PARTS}
            notes.append(
                f"the {len(self.csi)} channels {self.origin} are split in turns: "
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
        entry: dict[str, Any] = {"source": self.origin, "count": len(self.rows["test"])}
        if self.recorded:
            entry["parts"] = {part: len(self.rows[part]) for part in PARTS}
        if self.pmax_w is not None:
            entry["summary"] = self.summary().as_metrics()
        if self.assumed_weights is not None:
            entry["weights"] = {
                "values": self.assumed_weights.tolist(),
                "origin": "the paper's draw of data sizes; the recording came without any",
            }
        return entry


def make_channels(
    scenario: Scenario,
    what: int | str | os.PathLike[str] | ArrayLike | Tensor | Channels = CHANNELS_PER_SPLIT,
    *,
    seed: int = 0,
    split: bool = True,
    noise_power_w: float | None = None,
    transpose: bool = False,
    channel_axes: str | None = None,
) -> Channels:
    """Channels for a scenario, split into training, validation and test.

    Args:
        scenario: the cell and its number of workers L.
        what: a number of channels per split to draw from the scenario's model; or a file (HDF5,
            NPZ, NPY, MAT), as ``FILE`` or ``FILE:KEY`` with the name of an array in it; or an
            array; or :class:`Channels`, which are returned. Arrays, also in files, are gains H
            (N, L, L), linear; complex coefficients g (N, L, L) after the receive filter, of which
            H is |g|²; or complex antenna coefficients (N, L, n_R), of which H is that of the
            matched filter.
        seed: of the draw.
        split: whether an array or a file is split in turn; otherwise it is reported on as a whole.
        noise_power_w: noise power σ², W, by which gains are divided; None: they are relative to
            the noise already.
        transpose: exchange the worker axes, for H[transmitter, receiver].
        channel_axes: order of the axes of an array, where the shape leaves it open: a letter each,
            n channel, i receive filter, j transmitter, r antenna; for example ``ijn``.

    Returns:
        The channels. :meth:`Channels.summary` describes them; gains that are probably in dB,
        transposed or not divided by the noise power are reported by a warning.

    Recorded channels have no data sizes: if the scenario takes its weights from them, the paper's
    draw is assumed, which :attr:`Channels.notes` says.
    """
    reading: dict[str, Any] = {
        "noise_power_w": noise_power_w,
        "transpose": transpose,
        "channel_axes": channel_axes,
    }
    if isinstance(what, Channels | int):
        for name, value in reading.items():
            if value:
                raise InputError(f"{name}: accepted only with channels from a file or an array.")
    if isinstance(what, int):
        return Channels.from_scenario(scenario, what, seed=seed)
    channels = what if isinstance(what, Channels) else _recorded(what, split=split, **reading)
    if channels.csi.shape[-1] != scenario.workers:
        raise InputError(
            f"channels: {channels.csi.shape[-1]} workers {channels.origin}; accepted: "
            f"{scenario.workers}, as the scenario has."
        )
    if channels is not what:
        channels = replace(channels, pmax_w=scenario.max_power)
        for doubt in doubts(channels.csi, channels.summary(), scenario.noise_power_w):
            warnings.warn(f"channels {channels.origin}: {doubt}", stacklevel=2)
    if channels.file is not None and "weights" not in scenario.model_fields_set:
        return replace(channels, assumed_weights=scenario.worker_weights)
    return channels


def _recorded(
    what: str | os.PathLike[str] | ArrayLike | Tensor, *, split: bool, **reading: Any
) -> Channels:
    """Channels of a file or an array."""
    if isinstance(what, str | os.PathLike):
        recording, origin = read_recording(what, **reading), f"from {what}"
        return Channels._from_recording(recording, origin, file=str(what), split=split)
    return Channels._from_recording(recorded_array(what, **reading), "of an array", split=split)


def channels_for(
    scenario: Scenario,
    channels: str | os.PathLike[str] | ArrayLike | Tensor | Channels | None,
    channels_per_split: int,
    *,
    seed: int,
    has_data_sizes: bool = False,
    split: bool = True,
    **reading: Any,
) -> tuple[Scenario, Channels]:
    """The channels of a job, and the scenario as far as it applies to them.

    Drawn from the scenario unless ``channels`` are given. The fields that describe how channels are
    drawn have no effect on recorded ones, which a warning says. Recorded channels have no data
    sizes, so that the paper's draw is assumed, unless the job ``has_data_sizes``. A file is split
    unless ``split`` is false, an array is for the test as a whole; ``reading`` are further options
    of :func:`make_channels`.
    """
    if channels is None:
        for name in reading:
            raise InputError(f"{name.replace('_', '-')}: accepted only with --channels FILE.")
        return scenario, make_channels(scenario, channels_per_split, seed=seed)
    is_array = not isinstance(channels, Channels | str | os.PathLike)
    data = make_channels(scenario, channels, seed=seed, split=split and not is_array, **reading)
    if data.file is None:
        return scenario, data
    if has_data_sizes:
        data = replace(data, assumed_weights=None)
    usual = Scenario()
    warned = [
        f"recorded channels are taken as they are; {name.replace('_', '-')} has no effect"
        for name in sorted(DRAWING_FIELDS)
        if getattr(scenario, name) != getattr(usual, name)
    ]
    if data.assumed_weights is not None:
        warned.append(data.notes[-1])
    for sentence in warned:
        warnings.warn(sentence, stacklevel=3)
    return scenario.replace(interference=1.0), data
