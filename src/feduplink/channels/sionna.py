"""System-level channel models of 3GPP TR 38.901 by Sionna (``pip install 'feduplink[sionna]'``).

A base station with n_R antennas receives the L workers of its cell and, optionally, users of other
cells. Every realisation has new positions, shadowing and rays. The channel of user u is the
frequency response at the carrier, h_u = Σ_paths a_u. It is approximately constant over a resource
block (180 kHz); for a wider band it represents one subcarrier.
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
    # Importing Sionna reseeds PyTorch's global generator; its state is restored.
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
        "sionna is not installed; accepted after pip install 'feduplink[sionna]'."
    ) from None


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[str]:
    """Use a generator for Sionna's random numbers within a block.

    The state of Sionna's generator is restored afterwards.

    Args:
        generator: source of random numbers; advanced by those drawn in the block.

    Yields:
        Name of the generator's device.
    """
    device = str(generator.device)
    sionna_generator = config.torch_rng(device)
    before = sionna_generator.get_state()
    sionna_generator.set_state(generator.get_state())
    try:
        yield device
    finally:
        generator.set_state(sionna_generator.get_state())
        sionna_generator.set_state(before)


#: Number of links computed at once, limited by memory: each has 23 paths of 20 rays.
_MAX_LINKS = 400
#: Range of carrier frequencies of TR 38.901, Hz.
_MIN_CARRIER_HZ, _MAX_CARRIER_HZ = 0.5e9, 100e9


@dataclass(frozen=True)
class Layout:
    """Positions of the base station and of the U users it receives, the L workers first.

    Attributes:
        topology: Sionna's topology: positions of users (N, U, 3) and base station (N, 1, 3), m;
            their orientations, rad; velocities (N, U, 3), m/s; and indoor flags (N, U).
        others_power_w: transmit powers of the users of other cells, (N, U − L), W.
    """

    topology: tuple[Tensor, ...]
    others_power_w: Tensor


class SystemLevelCell(ABC):
    """Base class of cells of TR 38.901 with an MRC receiver; subclasses define the environment.

    Args:
        scenario: the cell and the radio.

    Raises:
        InputError: if a field of the scenario is outside the range of the model.
    """

    #: Radiation pattern of the base station's antennas, a uniform linear array at λ/2.
    pattern: ClassVar[str] = "38.901"
    #: Accepted numbers of base stations, and accepted range of the side of a cell, m.
    accepted_stations: ClassVar[tuple[int, ...]] = (1,)
    accepted_side_m: ClassVar[tuple[float, float]]

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._check()

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw H, (count, L, L) float32; see :class:`feduplink.channels.ChannelModel`."""
        return self.draw_with_antennas(count, generator).csi

    def draw_with_antennas(self, count: int, generator: torch.Generator) -> Realisations:
        """Draw H with the workers' antenna coefficients, (count, L, 1, n_R) complex64."""
        size = max(1, _MAX_LINKS // (self.scenario.workers + self.scenario.base_stations - 1))
        with drawing_from(generator) as device:
            return Realisations.concat(
                [self._realise(min(size, count - at), device) for at in range(0, count, size)]
            )

    def received(self, channels: Tensor, covariance: Tensor) -> Tensor:
        """H (N, L, L) of the receiver, from channels (N, L, n_R) and covariance (N, n_R, n_R)."""
        return mrc_csi(channels, covariance)

    @abstractmethod
    def layout(self, count: int, device: str) -> Layout:
        """Draw the positions in ``count`` realisations of the cell."""

    @abstractmethod
    def propagation(self, **arrays: Any) -> Any:
        """Sionna's channel model for ``ut_array``, ``bs_array``, ``direction`` and ``device``."""

    def model(self, device: str) -> Any:
        """Sionna's channel model with the antennas of this cell, without a topology."""
        return self.propagation(
            ut_array=self._array(1, "omni", device),
            bs_array=self._array(self.scenario.antennas, self.pattern, device),
            direction="uplink",
            carrier_frequency=self.scenario.carrier_hz,
            precision="single",
            device=device,
        )

    def _realise(self, count: int, device: str) -> Realisations:
        """Draw realisations at once."""
        layout, model = self.layout(count, device), self.model(device)
        model.set_topology(*layout.topology)
        # (N, 1, n_R, U, 1, paths, 1)
        paths: Tensor = model(num_time_samples=1, sampling_frequency=1.0)[0]
        gains = paths.sum(-2)[:, 0, :, :, 0, 0].mT
        # float64, because a filter suppresses interference by up to 80 dB.
        relative = gains.to(torch.complex128) / self.scenario.noise_power_w**0.5
        workers, others = relative.tensor_split([self.scenario.workers], dim=1)
        covariance = interference_covariance(others, layout.others_power_w)
        csi = self.received(workers, covariance).to(torch.float32)
        return Realisations(csi, gains[:, : self.scenario.workers, None])

    def _array(self, antennas: int, pattern: str, device: str) -> PanelArray:
        """Uniform linear array of vertically polarised antennas."""
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
        """Raise :class:`InputError` if the scenario is outside the range of the model."""
        scenario, name = self.scenario, self.scenario.channel_model
        if scenario.geometry != "redrawn":
            raise InputError(
                f"geometry: {scenario.geometry} with {name}; accepted: redrawn, as Sionna draws "
                "new rays in every realisation."
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
        if not _MIN_CARRIER_HZ <= scenario.carrier_hz <= _MAX_CARRIER_HZ:
            raise InputError(
                f"carrier_hz: {scenario.carrier_hz:g} with {name}; accepted: "
                f"{_MIN_CARRIER_HZ:g} to {_MAX_CARRIER_HZ:g}, the range of TR 38.901."
            )


class MmseReceiver(SystemLevelCell):
    """Mixin for MMSE filters that are designed for all workers at Pmax."""

    def received(self, channels: Tensor, covariance: Tensor) -> Tensor:
        """See :func:`feduplink.channels.receivers.mmse_csi`."""
        return mmse_csi(channels, self.scenario.max_power, covariance)


#: Number of rings of sites around the central site, by number of base stations (sectors).
_RINGS = {1: 0, 21: 1, 57: 2}

#: Open-loop power control of users of other cells: compensation factor α, target P0 of the received
#: power in dBm, and number of subcarriers (one resource block).
_ALPHA, _P0_DBM, _SUBCARRIERS = 1.0, -90.0, 12

#: InF sub-scenario: dense clutter, high base station.
_FACTORY = "DH"


class _HexagonalSector(SystemLevelCell, ABC):
    """One of three sectors of a site in a hexagonal grid, with 80 % of the users indoors.

    ``cell_side_m`` is the inter-site distance. One base station: an isolated cell. 21 or 57 base
    stations: a sector of the central one of 7 or 19 sites; in every other sector one user at a time
    transmits, with the power of 3GPP's open-loop power control.
    """

    accepted_stations = tuple(_RINGS)
    #: Name of the environment in Sionna, with heights and distances of TR 38.901, table 7.2-1.
    environment: ClassVar[str]

    def layout(self, count: int, device: str) -> Layout:
        """Draw workers uniformly in the sector, and one user in each of the other sectors."""
        workers, stations = self.scenario.workers, self.scenario.base_stations
        users_at, stations_at, users_face, stations_face, velocity, indoor, *_ = (
            gen_hexgrid_topology(
                count,
                # Sionna needs at least one ring; its users are ignored for an isolated cell.
                num_rings=max(1, _RINGS[stations]),
                num_ut_per_sector=workers,
                scenario=self.environment,
                isd=self.scenario.cell_side_m,
                precision="single",
                device=device,
            )
        )

        def with_central_station(positions: Tensor, users: list[int]) -> tuple[Tensor, ...]:
            """Topology of users at these positions and the central base station."""
            station = stations_at[:, :1], users_face[:, users], stations_face[:, :1]
            return (positions, *station, velocity[:, users], indoor[:, users])

        # Users are ordered by base station; the central site is the first.
        others = [workers * station for station in range(1, stations)]
        received = [*range(workers), *others]
        # Positions of the other users relative to their serving base station.
        own = users_at[:, others] - stations_at[:, 1:stations] + stations_at[:, :1]
        power_w = self.open_loop_power_w(with_central_station(own, others), device)
        return Layout(with_central_station(users_at[:, received], received), power_w)

    def open_loop_power_w(self, topology: tuple[Tensor, ...], device: str) -> Tensor:
        """Powers of open-loop power control, p = min(P0 · path loss, Pmax).

        Args:
            topology: users (N, U) and one base station, see :class:`Layout`.
            device: device of the tensors.

        Returns:
            Transmit powers, (N, U), W.
        """
        count, users, _ = topology[0].shape
        if users == 0:
            return torch.zeros(count, 0, device=device)
        model = self.model(device)
        # Shadowing is independent between users of different base stations.
        model.set_topology(*topology, ut_spatial_region_ids=torch.arange(users, device=device))
        large_scale = model.sample_lsp()
        path_loss = 10 ** (large_scale.pathloss[:, 0] / 10) / large_scale.sf[:, 0]
        power_w: Tensor = open_loop_uplink_power_control(
            path_loss,
            torch.full_like(path_loss, _SUBCARRIERS),
            alpha=_ALPHA,
            p0_dbm=_P0_DBM,
            ut_max_power_dbm=10 * math.log10(float(self.scenario.max_power.max())) + 30,
            precision="single",
        )
        return power_w


class UrbanMicrocell(_HexagonalSector):
    """UMi street canyon: base station at a height of 10 m, typical inter-site distance 200 m."""

    environment = "umi"
    accepted_side_m = (20.0, 5000.0)

    def propagation(self, **arrays: Any) -> UMi:
        """Path loss, shadowing and rays of UMi."""
        return UMi(o2i_model="low", **arrays)


class UrbanMacrocell(_HexagonalSector):
    """UMa: base station at a height of 25 m, typical inter-site distance 500 m."""

    environment = "uma"
    accepted_side_m = (70.0, 5000.0)

    def propagation(self, **arrays: Any) -> UMa:
        """Path loss, shadowing and rays of UMa."""
        return UMa(o2i_model="low", **arrays)


class IndoorFactory(SystemLevelCell):
    """InF-DH: factory hall with dense clutter and a central base station at a height of 8 m.

    The hall has a length of ``cell_side_m``, half that width, and a height of 10 m.
    """

    pattern = "omni"  # workers surround the central base station
    accepted_side_m = (20.0, 560.0)  # TR 38.901, table 7.2-4: up to 160,000 m².

    def layout(self, count: int, device: str) -> Layout:
        """Draw workers uniformly in the hall."""
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
    """UMi with MMSE filters designed for all workers at Pmax."""


class UrbanMacrocellMmse(MmseReceiver, UrbanMacrocell):
    """UMa with MMSE filters designed for all workers at Pmax."""


class IndoorFactoryMmse(MmseReceiver, IndoorFactory):
    """InF-DH with MMSE filters designed for all workers at Pmax."""
