"""System-level channel models of 3GPP TR 38.901 by Sionna (``pip install 'feduplink[sionna]'``).

A base station with n_R antennas hears the L workers of its cell, and the users of other cells if
there are any. Every realisation has new positions, obstacles and rays. The channel of user u is
its frequency response at the carrier, h_u = Σ_paths a_u: over a band as narrow as a resource block
(180 kHz) it hardly changes, and of a wider band it is one subcarrier.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from feduplink.channels.models import Realisations
from feduplink.channels.receivers import interference_covariance, mmse_csi, mrc_csi
from feduplink.errors import InputError

if TYPE_CHECKING:
    from feduplink.scenario import Scenario

try:
    # Sionna reseeds PyTorch's global generator when it is imported, which is not ours to change.
    with torch.random.fork_rng(devices=[]):
        from sionna.phy import config
        from sionna.phy.channel.tr38901 import InF, PanelArray, UMa, UMi
        from sionna.sys import (
            gen_hexgrid_topology,
            gen_tr38901_indoor_factory_topology,
            open_loop_uplink_power_control,
        )
except ImportError:
    raise InputError(
        "sionna: is not installed; accepted after pip install 'feduplink[sionna]'."
    ) from None


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[str]:
    """Sionna's random numbers on the generator's device come from it, and it moves on with them.

    Afterwards Sionna's own generator goes on where it was. Gives the name of the device.
    """
    device = str(generator.device)
    theirs = config.torch_rng(device)
    before = theirs.get_state()
    theirs.set_state(generator.get_state())
    try:
        yield device
    finally:
        generator.set_state(theirs.get_state())
        theirs.set_state(before)


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

    def draw_with_antennas(self, count: int, generator: torch.Generator) -> Realisations:
        """H with the workers' channels to their station, (count, L, 1, n_R) complex64."""
        size = max(1, _LINKS // (self.scenario.workers + self.scenario.base_stations - 1))
        with drawing_from(generator) as device:
            return Realisations.concat(
                [self._realise(min(size, count - at), device) for at in range(0, count, size)]
            )

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

    def _realise(self, count: int, device: str) -> Realisations:
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
        return Realisations(csi, gains[:, : self.scenario.workers, None])

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
        return mmse_csi(channels, self.scenario.max_power, covariance)


#: Base stations (three sectors per site) -> rings of sites around the one in the middle.
_RINGS = {1: 0, 21: 1, 57: 2}

#: Power control of the users of other cells: the path loss is made up for in full, to so much
#: received power over the band, which counts as one resource block.
_PATH_LOSS_EXPONENT, _P0_DBM, _SUBCARRIERS = 1.0, -90.0, 12

#: Sub-scenario of the factory: dense clutter, station high above it.
_FACTORY = "DH"


class _HexagonalSector(SystemLevelCell, ABC):
    """One of three sectors of a site in a hexagonal grid, 80 % of the users indoors.

    ``cell_side_m`` is the distance between sites. With one base station the cell is alone. With 21
    or 57 it is a sector of the site in the middle of 7 or 19, and in every other sector one user
    sends, as where a scheduler gives the band to one at a time, with the power that 3GPP's open
    loop gives it.
    """

    accepted_stations = tuple(_RINGS)
    #: Name of the layout in Sionna, with heights and distances of TR 38.901, table 7.2-1.
    environment: ClassVar[str]

    def layout(self, count: int, device: str) -> Layout:
        """Workers uniform in the sector, a user in each of the other sectors."""
        workers, stations = self.scenario.workers, self.scenario.base_stations
        users_at, stations_at, users_face, stations_face, velocity, indoor, *_ = (
            gen_hexgrid_topology(
                count,
                # Sionna has no grid without neighbours; of them nobody is taken.
                num_rings=max(1, _RINGS[stations]),
                num_ut_per_sector=workers,
                scenario=self.environment,
                isd=self.scenario.cell_side_m,
                precision="single",
                device=device,
            )
        )

        def around_the_middle(positions: Tensor, users: list[int]) -> tuple[Tensor, ...]:
            station = stations_at[:, :1], users_face[:, users], stations_face[:, :1]
            return (positions, *station, velocity[:, users], indoor[:, users])

        # Users are in the order of the stations, these in that of the sites, the middle one first.
        others = [workers * station for station in range(1, stations)]
        heard = [*range(workers), *others]
        # The other users as their own station sees them.
        own = users_at[:, others] - stations_at[:, 1:stations] + stations_at[:, :1]
        power_w = self.open_loop_power_w(around_the_middle(own, others), device)
        return Layout(around_the_middle(users_at[:, heard], heard), power_w)

    def open_loop_power_w(self, topology: tuple[Tensor, ...], device: str) -> Tensor:
        """p = min(P0 · path loss, Pmax), (N, U) W, with the path loss to the only station."""
        count, users, _ = topology[0].shape
        if users == 0:
            return torch.zeros(count, 0, device=device)
        model = self.model(device)
        # Users of different stations do not stand behind the same obstacles.
        model.set_topology(*topology, ut_spatial_region_ids=torch.arange(users, device=device))
        large_scale = model.sample_lsp()
        path_loss = 10 ** (large_scale.pathloss[:, 0] / 10) / large_scale.sf[:, 0]
        power_w: Tensor = open_loop_uplink_power_control(
            path_loss,
            torch.full_like(path_loss, _SUBCARRIERS),
            alpha=_PATH_LOSS_EXPONENT,
            p0_dbm=_P0_DBM,
            ut_max_power_dbm=10 * math.log10(float(self.scenario.max_power.max())) + 30,
            precision="single",
        )
        return power_w


class UrbanMicrocell(_HexagonalSector):
    """UMi, street canyon: a station 10 m high, sites some 200 m apart."""

    environment = "umi"
    accepted_side_m = (20.0, 5000.0)

    def propagation(self, **arrays: Any) -> UMi:
        """Path loss, shadowing and rays of UMi."""
        return UMi(o2i_model="low", **arrays)


class UrbanMacrocell(_HexagonalSector):
    """UMa: a station 25 m high, above the roofs, sites some 500 m apart."""

    environment = "uma"
    accepted_side_m = (70.0, 5000.0)

    def propagation(self, **arrays: Any) -> UMa:
        """Path loss, shadowing and rays of UMa."""
        return UMa(o2i_model="low", **arrays)


class IndoorFactory(SystemLevelCell):
    """InF-DH: a factory hall with dense clutter, a station 8 m high in its middle.

    The hall is ``cell_side_m`` long, half as wide and 10 m high.
    """

    pattern = "omni"  # Around a station in the middle workers are on all sides.
    accepted_side_m = (20.0, 560.0)  # TR 38.901, table 7.2-4: up to 160,000 m².

    def layout(self, count: int, device: str) -> Layout:
        """Workers uniform in the hall."""
        scenario = self.scenario
        topology = gen_tr38901_indoor_factory_topology(
            _FACTORY,
            count,
            scenario.workers,
            hall_length=scenario.cell_side_m,
            hall_width=scenario.cell_side_m / 2,
            bs_spacing=scenario.cell_side_m,
            precision="single",
            device=device,
        )
        return Layout(topology[:6], torch.zeros(count, 0, device=device))

    def propagation(self, **arrays: Any) -> InF:
        """Path loss, shadowing and rays of InF-DH."""
        length = self.scenario.cell_side_m
        return InF(factory_scenario=_FACTORY, hall_dimensions=(length, length / 2, 10.0), **arrays)


class UrbanMicrocellMmse(MmseReceiver, UrbanMicrocell):
    """UMi, with the MMSE receiver of everyone at full power."""


class UrbanMacrocellMmse(MmseReceiver, UrbanMacrocell):
    """UMa, with the MMSE receiver of everyone at full power."""


class IndoorFactoryMmse(MmseReceiver, IndoorFactory):
    """InF-DH, with the MMSE receiver of everyone at full power."""
