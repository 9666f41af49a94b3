"""Sets of drawn or recorded channels, split into training, validation and test channels.

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
    """Draw channels of a scenario.

    With ``geometry: redrawn`` the realisations are independent. With ``geometry: kept`` they are
    successive rounds of one run, with moving workers and correlated fading.

    Args:
        scenario: the cell and its channel model.
        count: number of realisations.
        generator: source of random numbers.
        cell: source of initial positions and shadowing with ``geometry: kept``, so that draws of
            the same cell differ in the fading only; None: ``generator``.

    Returns:
        H, (count, L, L) float32, in 1/W (channel gains divided by the noise power).

    Raises:
        InputError: if an argument is not accepted, or the channel model returns invalid channels.

    >>> import feduplink as fu
    >>> fu.draw_csi(fu.Scenario(workers=2), 5, torch.Generator().manual_seed(0)).shape
    torch.Size([5, 2, 2])
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
    """Draw channels of a scenario with their antenna coefficients, see :func:`draw_csi`.

    Args:
        scenario: the cell and its channel model.
        count: number of realisations.
        generator: source of random numbers.
        cell: source of initial positions and shadowing with ``geometry: kept``; None:
            ``generator``.
        keep_antenna: whether to return antenna coefficients, which the model must support.

    Returns:
        H, (count, L, L) float32, in 1/W; and antenna coefficients, (count, L, K, n_R) complex64,
        amplitude gains to K base stations with n_R antennas, or None.

    Raises:
        InputError: if an argument is not accepted, or the channel model has no antenna coefficients
            or returns invalid channels.

    >>> import feduplink as fu
    >>> scenario = fu.Scenario(workers=2, antennas=4)
    >>> drawn = fu.draw_channels(scenario, 5, torch.Generator().manual_seed(0))
    >>> drawn.csi.shape, drawn.antenna.shape
    (torch.Size([5, 2, 2]), torch.Size([5, 2, 1, 4]))
    """
    if count < 1:
        raise InputError(f"count: {count} was given; accepted: 1 or more channels.")
    if not isinstance(generator, torch.Generator):
        raise InputError(
            f"generator: {generator!r} is not a torch.Generator; make_channels takes a seed."
        )
    model = _model(scenario)
    # A model needs to accept ``cell`` only if it supports geometry: kept.
    shared = {"cell": cell} if cell is not None and scenario.geometry == "kept" else {}
    if not keep_antenna:
        drawn = Realisations(model.draw(count, generator, **shared))
    elif isinstance(model, AntennaChannelModel):
        drawn = model.draw_with_antennas(count, generator, **shared)
    else:
        raise InputError(
            f"channel_model: {scenario.channel_model} has no antenna coefficients; accepted: "
            "keep_antenna=False, or a model with draw_with_antennas."
        )
    csi, antenna = _checked(drawn, scenario, count)
    return Realisations(scale_interference(csi, scenario.interference), antenna)


def _model(scenario: Scenario) -> ChannelModel:
    """Channel model of the scenario."""
    found = CHANNEL_MODELS.find(scenario.channel_model)
    if not callable(found) or (isinstance(found, type) and not hasattr(found, "draw")):
        raise InputError(
            f"channel_model: {scenario.channel_model} is not a channel model; accepted: a class "
            "whose constructor takes a scenario, with a method draw(count, generator)."
        )
    return found(scenario)


def _checked(drawn: Realisations, scenario: Scenario, count: int) -> tuple[Tensor, Tensor | None]:
    """Check the shapes and values of a draw; returns H in float32 and antenna coefficients."""
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
    """Draw the training channels of :func:`make_channels` only.

    Args:
        scenario: the cell and its channel model.
        count: number of channels.
        seed: seed of the draw.
        block: number of the block; different blocks have different channels of the same cell.

    Returns:
        H, (count, L, L) float32, in 1/W.
    """
    return _draw(scenario, count, seed, "train-channels", block)


def resample_csi(csi: Tensor, count: int, *, seed: int = 0) -> Tensor:
    """Sample channels with replacement.

    Args:
        csi: H, (N, L, L), in 1/W.
        count: number of channels to sample.
        seed: seed of the sampling.

    Returns:
        H, (count, L, L).
    """
    generator = torch_generator(seed, "round-channels")
    return csi[torch.randint(len(csi), (count,), generator=generator)]


def observe_csi(
    csi: Tensor, scenario: Scenario, *, seed: int, noise: Stream = "csi-noise", run: int = 0
) -> Tensor:
    """CSI as policies observe it: true channels with the noise of the scenario.

    Args:
        csi: true channels H, (N, L, L), in 1/W.
        scenario: its ``csi_noise`` is the variance of the noise.
        seed: seed of the noise.
        noise: random stream of the noise; tuning, validation and test use different streams, so
            that their noise is independent.
        run: number of the federated run, or of the block of channels.

    Returns:
        Observed CSI, (N, L, L), in 1/W.
    """
    check_csi(csi, scenario.workers)
    return noisy_csi(csi, scenario.csi_noise, torch_generator(seed, noise, run))


def _draw(scenario: Scenario, count: int, seed: int, stream: Stream, block: int = 0) -> Tensor:
    """Draw H (count, L, L) of the cell of a seed from a random stream."""
    cell = torch_generator(seed, "cell")
    return draw_csi(scenario, count, torch_generator(seed, stream, block), cell=cell)


@dataclass(frozen=True, repr=False)
class Channels:
    """A set of channels with training, validation and test splits, validated on construction.

    :func:`feduplink.make_channels` creates a set.

    Attributes:
        csi: H of all channels, (N, L, L), in 1/W; in the order of a recording.
        rows: indices into ``csi`` of the splits ``training``, ``validation`` and ``test``.
        origin: origin of the channels in words.
        scenario: scenario whose model draws the channels; None for recorded channels.
        seed: seed of the draw.
        assumed_weights: worker weights ω, (L,), if a recording without data sizes uses the paper's
            weights; otherwise None.
        file: path of the recording; None for arrays and drawn channels.
        order: description of the axes of a recording.
        pmax_w: Pmax of the scenario for which recorded channels are used, () or (L,), W; None: 1 W.

    Raises:
        InputError: if H is not square, finite and positive.

    >>> import feduplink as fu
    >>> channels = fu.make_channels(fu.Scenario(workers=2), 5)
    >>> channels.training.shape, channels.test.shape
    (torch.Size([5, 2, 2]), torch.Size([5, 2, 2]))
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
        """Draw channels, each split from a separate random stream.

        With ``geometry: kept`` all splits belong to the same cell.

        Args:
            scenario: the cell and its channel model.
            count: number of channels in each split.
            seed: seed of the draw.

        Returns:
            The set of 3 · ``count`` channels.
        """
        streams: tuple[Stream, ...] = ("train-channels", "validation-channels", "test-channels")
        csi = torch.cat([_draw(scenario, count, seed, stream) for stream in streams])
        rows = dict(zip(PARTS, torch.arange(3 * count).split(count), strict=True))
        return cls(csi, rows, "drawn from the scenario", scenario, seed)

    @classmethod
    def from_csi(cls, csi: Tensor, origin: str = "of an array") -> Channels:
        """Assign channels in turn to training, validation and test.

        Channels 0, 3, 6, … are training channels, 1, 4, 7, … validation channels and 2, 5, 8, …
        test channels. If successive channels are correlated, the splits are not independent.

        Args:
            csi: H, (N, L, L), in 1/W.
            origin: origin of the channels in words.

        Returns:
            The set.

        Raises:
            InputError: if the shape is not accepted, or N < 3.
        """
        if csi.ndim != 3:
            raise InputError(f"channels: shape {tuple(csi.shape)} was given; accepted: (N, L, L).")
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
        """Read recorded channels and split them as :meth:`from_csi`.

        Args:
            path: file of :func:`feduplink.read_channels`.

        Returns:
            The set.
        """
        return cls._from_recording(read_recording(path), f"from {path}", file=str(path))

    @classmethod
    def _from_recording(
        cls, recording: Recording, origin: str, *, file: str | None = None, split: bool = True
    ) -> Channels:
        """Set of recorded channels; without ``split`` all are test channels."""
        make = cls.from_csi if split else cls.for_test
        return replace(make(recording.csi, origin), file=file, order=recording.order)

    @classmethod
    def for_test(cls, csi: Tensor, origin: str = "of an array") -> Channels:
        """Use all channels as test channels.

        Args:
            csi: H, (N, L, L), in 1/W.
            origin: origin of the channels in words.

        Returns:
            The set, with empty training and validation splits.
        """
        none = torch.arange(0)
        rows = {"training": none, "validation": none, "test": torch.arange(len(csi))}
        return cls(csi, rows, origin)

    @cached_property
    def training(self) -> Tensor:
        """Channels for training and tuning, (N, L, L), in 1/W."""
        return self._split("training")

    @cached_property
    def validation(self) -> Tensor:
        """Channels for the selection of the best epoch, (N, L, L), in 1/W."""
        return self._split("validation")

    @cached_property
    def test(self) -> Tensor:
        """Channels for reported results, (N, L, L), in 1/W."""
        return self._split("test")

    def _split(self, part: str) -> Tensor:
        """Channels of a split; raises :class:`InputError` if it is empty."""
        if len(self.rows[part]) == 0:
            raise InputError(
                f"channels: {self.origin}, without a {part} split; accepted: "
                "make_channels(scenario, channels), which splits an array in three."
            )
        return self.csi[self.rows[part]]

    def __repr__(self) -> str:
        """Number of channels in each split, number of workers, and origin."""
        counts = ", ".join(f"{len(self.rows[part])} for {part}" for part in PARTS)
        return f"Channels({counts}, {self.csi.shape[-1]} workers, {self.origin})"

    @property
    def recorded(self) -> bool:
        """Whether the channels are recorded, so that no further channels can be drawn."""
        return self.scenario is None

    def fresh(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw further channels; with ``geometry: kept`` of the same cell.

        Args:
            count: number of channels.
            generator: source of random numbers.

        Returns:
            H, (count, L, L) float32, in 1/W.

        Raises:
            InputError: if the channels are recorded.
        """
        if self.scenario is None:
            raise InputError(
                f"fresh channels: those {self.origin} are recorded and no others can be drawn; "
                "accepted: channels drawn from a scenario."
            )
        return draw_csi(self.scenario, count, generator, cell=torch_generator(self.seed, "cell"))

    def summary(self) -> ChannelSummary:
        """Summarise the channels.

        Returns:
            Number of channels and workers, order of axes, median SNR and SIR at Pmax in dB, and
            dynamic range in dB.

        >>> from feduplink.scenario import Scenario
        >>> channels = make_channels(Scenario(workers=2), 50)
        >>> channels.summary().channels
        150
        """
        return self._summary

    @cached_property
    def _summary(self) -> ChannelSummary:
        """Cached summary."""
        pmax_w = self.scenario.max_power if self.scenario is not None else self.pmax_w
        at_pmax = torch.ones(()) if pmax_w is None else pmax_w
        return summarise(self.csi, at_pmax, self.order)

    def headline(self, csi: Tensor) -> str:
        """Describe the number and origin of a subset of the channels.

        Args:
            csi: the subset, (M, L, L).

        Returns:
            A phrase, such as ``1000 channels, drawn from the scenario``.
        """
        if not self.recorded:
            return f"{len(csi)} channels, {self.origin}"
        return f"{len(csi)} of the {len(self.csi)} channels {self.origin}"

    @property
    def notes(self) -> list[str]:
        """Remarks for readers of results: summary, splits and assumed weights of a recording."""
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
        """Entry ``channels`` of ``metrics.json``.

        Returns:
            Origin, numbers of channels, summary and assumed weights.
        """
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
    """Draw or read channels, and split them into training, validation and test channels.

    A warning is issued for gains that are probably in dB, transposed or not divided by the noise
    power. Recorded channels have no data sizes: with ``weights: data`` the paper's weights are
    used, as :attr:`Channels.notes` reports.

    Args:
        scenario: the cell, its channel model and its number of workers L.
        what: number of channels per split to draw; a file (HDF5, NPZ, NPY, MAT), as ``FILE`` or
            ``FILE:KEY`` with the name of an array; an array; or :class:`Channels`. Arrays contain
            gains H (N, L, L), linear; complex coefficients g (N, L, L) after the receive filter,
            with H = |g|²; or complex antenna coefficients (N, L, n_R), for a matched filter.
        seed: seed of the draw.
        split: whether recorded channels are assigned in turn to the splits; if False all are test
            channels.
        noise_power_w: noise power σ² by which gains are divided, W; None: gains are already divided
            by the noise power.
        transpose: exchange the worker axes of arrays H[transmitter, receiver].
        channel_axes: order of the axes of an array, such as ``ijn``: n channel, i receive filter, j
            transmitter, r antenna; None: inferred from the shape.

    Returns:
        The set of channels, in 1/W.

    Raises:
        InputError: if channels cannot be read, or an argument is not accepted.

    >>> import feduplink as fu
    >>> channels = fu.make_channels(fu.Scenario(workers=2), torch.ones(9, 2, 2))
    >>> channels.test.shape, channels.recorded
    (torch.Size([3, 2, 2]), True)
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
    """Set of channels from a file or an array."""
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
    """Channels of a workflow, and the scenario that applies to them.

    A warning is issued for fields of the scenario that have no effect on recorded channels.

    Args:
        scenario: the cell, its channel model and its number of workers L.
        channels: file, array or set of channels; None: channels are drawn. All channels of an array
            are test channels.
        channels_per_split: number of channels to draw for each split.
        seed: seed of the draw.
        has_data_sizes: whether the workflow provides the data sizes of the workers, so that no
            weights have to be assumed.
        split: whether channels of a file are assigned in turn to the splits.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of :func:`make_channels`.

    Returns:
        The scenario, without a factor on the interference for recorded channels, and the channels.
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
