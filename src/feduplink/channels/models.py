"""Channel models: the protocol, and square cells with path loss and Rayleigh propagation.

One of your own is a class like this, registered (``CHANNEL_MODELS.register``), declared by an
installed package as an entry point ``feduplink.channel_models``, or named as
``package.module:Object``; ``Scenario(channel_model=NAME)`` and ``--channel-model NAME`` take it.

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
    """A draw of channels.

    Attributes:
        csi: H, (N, L, L) float32, linear, noise power one.
        antenna: the channels behind it, (N, L, K, n_R) complex64, amplitude gain; None unless
            asked for.

    """

    csi: Tensor
    antenna: Tensor | None = None

    def __repr__(self) -> str:
        """How many, and what is known of them."""
        count, workers, _ = self.csi.shape
        antennas = ""
        if self.antenna is not None:
            antennas = f", coefficients of {self.antenna.shape[-1]} antennas"
        return f"Realisations({count} of {workers} workers{antennas})"


class ChannelModel(Protocol):
    """Draws channels of the scenario that it was built for.

    The scenario's ``interference`` is not its business: that factor is applied to what it draws.
    """

    def draw(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Tensor:
        """H of ``count`` realisations, (count, L, L) float32, linear, noise power one.

        All random numbers come from ``generator``, on its device. With ``geometry: kept`` the
        realisations are the successive rounds of one run; then, and only then, ``cell`` may be
        given, from which comes what all draws of one cell share, as positions and obstacles.
        """


@runtime_checkable
class AntennaChannelModel(ChannelModel, Protocol):
    """A channel model that also gives the antenna coefficients behind H."""

    def draw_with_antennas(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Realisations:
        """The same H as :meth:`draw`, with the coefficients (count, L, K, n_R) complex64."""


#: Realisations computed at once: small enough to stay in the processor's cache.
_CHUNK = 2048


class RayleighCell(ABC):
    """Workers uniform in a square cell, each served by its strongest base station.

    A subclass says how the mean gain falls with distance.
    """

    #: Standard deviation of the log-normal shadowing per link, dB; 0: none.
    shadowing_std_db = 0.0

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    @abstractmethod
    def path_gain(self, distance_m: Tensor) -> Tensor:
        """Mean power gain over distances (..., L, K) m, linear."""

    def draw(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Tensor:
        """H, (count, L, L) float32; see :class:`feduplink.channels.ChannelModel`."""
        return self._draw(count, generator, cell, keep_antenna=False).csi

    def draw_with_antennas(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Realisations:
        """H with the coefficients of every antenna, (count, L, K, n_R) complex64."""
        return self._draw(count, generator, cell, keep_antenna=True)

    def _draw(
        self,
        count: int,
        generator: torch.Generator,
        cell: torch.Generator | None,
        *,
        keep_antenna: bool,
    ) -> Realisations:
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
        """Path gain with shadowing of every worker to every station, (count or 1, L, K)."""
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
            # Kept workers keep their obstacles: one shadowing value per link for the whole run.
            links = distance_m[:1] if kept else distance_m
            std_db = self.shadowing_std_db
            gain = gain * propagation.shadowing_gain(tuple(links.shape), std_db, generator)
        return gain

    def _fading_correlation(self) -> float:
        """ρ between successive rounds; 0 for independent propagation."""
        scenario = self.scenario
        if scenario.coherence_time_s is not None:
            return propagation.correlation(scenario.round_interval_s, scenario.coherence_time_s)
        if scenario.speed_mps > 0:
            coherence_s = propagation.coherence_time(scenario.speed_mps, scenario.carrier_hz)
            return propagation.correlation(scenario.round_interval_s, coherence_s)
        return 0.0


class WidebandSpatial(RayleighCell):
    """The paper's wideband spatial model, without shadowing."""

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
    """Hata–COST231 in cities, without shadowing."""

    urban = True


class HataSuburban(_HataCost231):
    """Hata–COST231 in suburbs, without shadowing."""

    urban = False


class HataUrbanShadowed(HataUrban):
    """Hata–COST231 in cities, with log-normal shadowing of 8 dB."""

    shadowing_std_db = propagation.SHADOWING_STD_DB


class HataSuburbanShadowed(HataSuburban):
    """Hata–COST231 in suburbs, with log-normal shadowing of 8 dB."""

    shadowing_std_db = propagation.SHADOWING_STD_DB
