"""Channel models: protocol, and square cells with path loss, shadowing and Rayleigh fading.

A user-defined model is a class as below, registered with ``CHANNEL_MODELS.register``, declared by
an installed package as an entry point ``feduplink.channel_models``, or given as
``package.module:Object``. ``Scenario(channel_model=NAME)`` and ``--channel-model NAME`` select it.

>>> import torch
>>> from feduplink.channels import draw_csi
>>> from feduplink.registry import CHANNEL_MODELS
>>> from feduplink.scenario import Scenario
>>> class Alike:
...     def __init__(self, scenario):
...         self.workers = scenario.workers
...
...     def draw(self, count, generator):
...         off_diagonal = torch.full((self.workers, self.workers), 10.0)
...         return off_diagonal.fill_diagonal_(100.0).repeat(count, 1, 1)
>>> CHANNEL_MODELS.register("alike", Alike).__name__
'Alike'
>>> draw_csi(Scenario(workers=2, channel_model="alike"), 1, torch.Generator())
tensor([[[100.,  10.],
         [ 10., 100.]]])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from feduplink.channels import propagation
from feduplink.channels.csi import matched_filter_csi
from feduplink.tensor_record import TensorRecord

if TYPE_CHECKING:
    from feduplink.scenario import Scenario


@dataclass(frozen=True, repr=False)
class Realisations(TensorRecord):
    """Realisations of channels.

    Attributes:
        csi: H, (N, L, L) float32, in 1/W.
        antenna: antenna coefficients, (N, L, K, n_R) complex64, amplitude gains to K base stations
            with n_R antennas; None if not requested.

    """

    csi: Tensor
    antenna: Tensor | None = None

    def __repr__(self) -> str:
        """Numbers of channels, workers and antennas."""
        count, workers, _ = self.csi.shape
        antennas = ""
        if self.antenna is not None:
            antennas = f", coefficients of {self.antenna.shape[-1]} antennas"
        return f"Realisations({count} of {workers} workers{antennas})"


class ChannelModel(Protocol):
    """Protocol of channel models; the constructor takes a scenario.

    The factor ``interference`` of the scenario is applied by :func:`feduplink.draw_csi`.
    """

    def draw(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Tensor:
        """Draw channels; with ``geometry: kept`` successive rounds of one run.

        Args:
            count: number of realisations.
            generator: source of all random numbers, on its device.
            cell: source of positions and shadowing, which all draws of one cell share; given only
                with ``geometry: kept``.

        Returns:
            H, (count, L, L) float32, in 1/W.
        """


@runtime_checkable
class AntennaChannelModel(ChannelModel, Protocol):
    """Protocol of channel models with antenna coefficients."""

    def draw_with_antennas(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Realisations:
        """Draw the same H as :meth:`draw`, with coefficients (count, L, K, n_R) complex64."""


#: Number of realisations computed at once; their arrays fit into the processor's cache.
_CHUNK = 2048


class RayleighCell(ABC):
    """Base class of square cells with uniformly distributed workers and Rayleigh fading.

    Every worker is served by the base station with the largest mean gain, with a matched filter. A
    subclass defines the path gain.

    Args:
        scenario: the cell and the radio.
    """

    #: Standard deviation of log-normal shadowing per link, dB; 0: no shadowing.
    shadowing_std_db = 0.0

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    @abstractmethod
    def path_gain(self, distance_m: Tensor) -> Tensor:
        """Mean power gain at distances (..., L, K) in m, linear, of the same shape."""

    def draw(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Tensor:
        """Draw H, (count, L, L) float32; see :class:`feduplink.channels.ChannelModel`."""
        return self._draw(count, generator, cell, keep_antenna=False).csi

    def draw_with_antennas(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Realisations:
        """Draw H with antenna coefficients, (count, L, K, n_R) complex64."""
        return self._draw(count, generator, cell, keep_antenna=True)

    def _draw(
        self,
        count: int,
        generator: torch.Generator,
        cell: torch.Generator | None,
        *,
        keep_antenna: bool,
    ) -> Realisations:
        """Draw in chunks; successive rounds of one cell at once."""
        if self.scenario.geometry == "kept":
            return self._realise(count, generator, cell or generator, keep_antenna)
        return Realisations.concat(
            [
                self._realise(min(_CHUNK, count - start), generator, generator, keep_antenna)
                for start in range(0, count, _CHUNK)
            ]
        )

    def _realise(
        self, count: int, generator: torch.Generator, cell: torch.Generator, keep_antenna: bool
    ) -> Realisations:
        """Draw realisations: mean gains from ``cell``, fading from ``generator``."""
        scenario = self.scenario
        gain = self._mean_gain(count, cell)
        coefficients = propagation.rayleigh(
            (count, scenario.workers, scenario.base_stations, scenario.antennas), generator
        )
        if (rho := self._fading_correlation()) > 0:
            coefficients = propagation.gauss_markov(coefficients, rho)
        csi = matched_filter_csi(coefficients, gain, gain.argmax(dim=-1), scenario.noise_power_w)
        antenna = None
        if keep_antenna:
            antenna = torch.view_as_complex(coefficients) * gain.sqrt()[..., None]
        return Realisations(csi, antenna)

    def _mean_gain(self, count: int, generator: torch.Generator) -> Tensor:
        """Path gain with shadowing from workers to base stations, (count or 1, L, K), linear."""
        scenario, side = self.scenario, self.scenario.cell_side_m
        stations = propagation.base_station_positions(scenario.base_stations, side)
        kept = scenario.geometry == "kept"
        workers = propagation.worker_positions(
            1 if kept else count, scenario.workers, side, generator
        )
        if scenario.speed_mps > 0:
            step_m = scenario.speed_mps * scenario.round_interval_s
            workers = propagation.walk(workers[0], count, step_m, side, generator)
        distance_m = propagation.distances(workers, stations)
        gain = self.path_gain(distance_m)
        if self.shadowing_std_db > 0:
            # With kept positions, the shadowing of a link is constant over the run.
            links = distance_m[:1] if kept else distance_m
            std_db = self.shadowing_std_db
            gain = gain * propagation.shadowing_gain(tuple(links.shape), std_db, generator)
        return gain

    def _fading_correlation(self) -> float:
        """Correlation ρ of the fading between successive rounds; 0 for independent fading."""
        scenario = self.scenario
        if scenario.coherence_time_s is not None:
            return propagation.correlation(scenario.round_interval_s, scenario.coherence_time_s)
        if scenario.speed_mps > 0:
            coherence_s = propagation.coherence_time(scenario.speed_mps, scenario.carrier_hz)
            return propagation.correlation(scenario.round_interval_s, coherence_s)
        return 0.0


class WidebandSpatial(RayleighCell):
    """Wideband spatial model of the paper, without shadowing."""

    def path_gain(self, distance_m: Tensor) -> Tensor:
        """See :func:`feduplink.channels.propagation.wideband_spatial_gain`."""
        return propagation.wideband_spatial_gain(distance_m)


class _HataCost231(RayleighCell):
    """Hata–COST231 path loss."""

    urban: bool

    def path_gain(self, distance_m: Tensor) -> Tensor:
        """See :func:`feduplink.channels.propagation.hata_cost231_gain`."""
        return propagation.hata_cost231_gain(
            distance_m, urban=self.urban, carrier_hz=self.scenario.carrier_hz
        )


class HataUrban(_HataCost231):
    """Hata–COST231 path loss in urban areas, without shadowing."""

    urban = True


class HataSuburban(_HataCost231):
    """Hata–COST231 path loss in suburban areas, without shadowing."""

    urban = False


class HataUrbanShadowed(HataUrban):
    """Hata–COST231 path loss in urban areas, with log-normal shadowing of 8 dB."""

    shadowing_std_db = propagation.SHADOWING_STD_DB


class HataSuburbanShadowed(HataSuburban):
    """Hata–COST231 path loss in suburban areas, with log-normal shadowing of 8 dB."""

    shadowing_std_db = propagation.SHADOWING_STD_DB
