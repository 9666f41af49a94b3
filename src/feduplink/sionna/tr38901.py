"""Channel models of 3GPP TR 38.901: urban microcells and macrocells, and a factory hall."""

from __future__ import annotations

import math
from abc import ABC
from typing import Any, ClassVar

import torch
from torch import Tensor

from feduplink.sionna.library import (
    InF,
    UMa,
    UMi,
    gen_hexgrid_topology,
    gen_tr38901_indoor_factory_topology,
    open_loop_uplink_power_control,
)
from feduplink.sionna.system_level import Layout, MmseReceiver, SystemLevelCell

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
        power_w = self._open_loop_power_w(around_the_middle(own, others), device)
        return Layout(around_the_middle(users_at[:, heard], heard), power_w)

    def _open_loop_power_w(self, topology: tuple[Tensor, ...], device: str) -> Tensor:
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
            ut_max_power_dbm=10 * math.log10(float(self.scenario.pmax_w.max())) + 30,
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
