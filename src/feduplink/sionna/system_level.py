"""What the system-level channel models of 3GPP TR 38.901 have in common, uplink, by Sionna.

A base station with n_R antennas hears the L workers of its cell, and the users of other cells if
there are any. Every realisation has new positions, obstacles and rays. The channel of user u is
its frequency response at the carrier, h_u = Σ_paths a_u: over a band as narrow as a resource block
(180 kHz) it hardly changes, and of a wider band it is one subcarrier.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from feduplink.channels import Channels
from feduplink.channels.receivers import interference_covariance, mmse_csi, mrc_csi
from feduplink.errors import InputError
from feduplink.sionna.library import PanelArray
from feduplink.sionna.random_numbers import drawing_from

if TYPE_CHECKING:
    from feduplink.scenario import Scenario

#: Links computed at once: more are no faster, and each takes 23 paths of 20 rays to memory.
_LINKS = 400
#: The carrier frequencies that TR 38.901 describes, Hz.
_LOWEST_CARRIER_HZ, _HIGHEST_CARRIER_HZ = 0.5e9, 100e9


@dataclass(frozen=True)
class Layout:
    """Where the base station of the cell and the users are that it hears, the L workers first.

    Attributes:
        topology: what Sionna calls that: positions of users (N, U, 3) and station (N, 1, 3) in m,
            their orientations in rad, velocities (N, U, 3) in m/s, and who is indoors (N, U).
        others_power_w: what users of other cells send, (N, U - L) W.
    """

    topology: tuple[Tensor, ...]
    others_power_w: Tensor


class SystemLevelCell(ABC):
    """A cell of TR 38.901 with an MRC receiver; a subclass says which."""

    #: Radiation pattern of each of the station's antennas, a uniform linear array at λ/2.
    pattern: ClassVar[str] = "38.901"
    #: Numbers of base stations that are accepted, and the shortest and longest side of a cell, m.
    accepted_stations: ClassVar[tuple[int, ...]] = (1,)
    accepted_side_m: ClassVar[tuple[float, float]]

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._check()

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """H, (count, L, L) float32; see :class:`feduplink.channels.ChannelModel`."""
        return self.draw_with_antennas(count, generator).csi

    def draw_with_antennas(self, count: int, generator: torch.Generator) -> Channels:
        """H with the workers' channels to their station, (count, L, 1, n_R) complex64."""
        size = max(1, _LINKS // (self.scenario.workers + self.scenario.base_stations - 1))
        with drawing_from(generator) as device:
            chunks = [
                self._realise(min(size, count - start), device) for start in range(0, count, size)
            ]
        csi, antenna = (torch.cat(parts) for parts in zip(*chunks, strict=True))
        return Channels(csi, antenna)

    def received(self, channels: Tensor, covariance: Tensor) -> Tensor:
        """H (N, L, L) of channels (N, L, n_R) in noise of this covariance (N, n_R, n_R)."""
        return mrc_csi(channels, covariance)

    @abstractmethod
    def layout(self, count: int, device: str) -> Layout:
        """Positions in ``count`` realisations of the cell."""

    @abstractmethod
    def propagation(self, **arrays: Any) -> Any:
        """Sionna's channel model for ``ut_array``, ``bs_array``, ``direction`` and ``device``."""

    def model(self, device: str) -> Any:
        """Sionna's channel model with this cell's antennas, for any topology."""
        return self.propagation(
            ut_array=self._array(1, "omni", device),
            bs_array=self._array(self.scenario.antennas, self.pattern, device),
            direction="uplink",
            carrier_frequency=self.scenario.carrier_hz,
            precision="single",
            device=device,
        )

    def _realise(self, count: int, device: str) -> tuple[Tensor, Tensor]:
        """H and the workers' channels, (count, L, L) and (count, L, 1, n_R)."""
        layout, model = self.layout(count, device), self.model(device)
        model.set_topology(*layout.topology)
        # (N, 1, n_R, U, 1, paths, 1)
        paths: Tensor = model(num_time_samples=1, sampling_frequency=1.0)[0]
        gains = paths.sum(-2)[:, 0, :, :, 0, 0].mT
        # Interference that a filter nulls is 80 dB below what it was: too little for float32.
        relative = gains.to(torch.complex128) / self.scenario.noise_power_w**0.5
        workers, others = relative.tensor_split([self.scenario.workers], dim=1)
        covariance = interference_covariance(others, layout.others_power_w)
        csi = self.received(workers, covariance).to(torch.float32)
        return csi, gains[:, : self.scenario.workers, None]

    def _array(self, antennas: int, pattern: str, device: str) -> PanelArray:
        return PanelArray(
            num_rows_per_panel=1,
            num_cols_per_panel=antennas,
            polarization="single",
            polarization_type="V",
            antenna_pattern=pattern,
            carrier_frequency=self.scenario.carrier_hz,
            precision="single",
            device=device,
        )

    def _check(self) -> None:
        scenario, name = self.scenario, self.scenario.channel_model
        if scenario.geometry != "redrawn":
            raise InputError(
                f"geometry: {scenario.geometry} with {name}; accepted: redrawn, as Sionna keeps "
                "no rays from one draw to the next."
            )
        if scenario.base_stations not in self.accepted_stations:
            raise InputError(
                f"base_stations: {scenario.base_stations} with {name}; accepted: "
                f"{', '.join(map(str, self.accepted_stations))}."
            )
        shortest, longest = self.accepted_side_m
        if not shortest <= scenario.cell_side_m <= longest:
            raise InputError(
                f"cell_side_m: {scenario.cell_side_m:g} with {name}; accepted: {shortest:g} to "
                f"{longest:g} m."
            )
        if not _LOWEST_CARRIER_HZ <= scenario.carrier_hz <= _HIGHEST_CARRIER_HZ:
            raise InputError(
                f"carrier_hz: {scenario.carrier_hz:g} with {name}; accepted: "
                f"{_LOWEST_CARRIER_HZ:g} to {_HIGHEST_CARRIER_HZ:g}, what TR 38.901 describes."
            )


class MmseReceiver(SystemLevelCell):
    """The same cell with the MMSE filters of everyone at full power."""

    def received(self, channels: Tensor, covariance: Tensor) -> Tensor:
        """See :func:`feduplink.channels.receivers.mmse_csi`."""
        return mmse_csi(channels, self.scenario.pmax_w, covariance)
