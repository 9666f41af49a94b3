from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import torch
from sionna.phy import config
from sionna.phy.channel import cir_to_ofdm_channel
from sionna.phy.channel.tr38901 import UMi

from feduplink import InputError, Scenario, draw_channels, draw_csi
from feduplink.channels import check_csi, mrc_csi
from feduplink.channels.sionna import Layout, UrbanMicrocell, drawing_from
from feduplink.registry import CHANNEL_MODELS

#: Cells of the standard: sites 200 m and 500 m apart, a hall of 120 m.
SIDES_M = {"umi": 200.0, "uma": 500.0, "inf": 120.0}


def cell(name: str, **fields: Any) -> Scenario:
    side_m = SIDES_M[name.split("-")[0]]
    given = {"carrier_hz": 3.5e9, "cell_side_m": side_m, "workers": 3, "antennas": 4, **fields}
    return Scenario(channel_model=f"sionna-{name}", **given)


def model_of(scenario: Scenario) -> Any:
    return CHANNEL_MODELS.find(scenario.channel_model)(scenario)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("receiver", ["", "-mmse"])
@pytest.mark.parametrize("name", SIDES_M)
def test_every_model_draws_valid_csi_and_the_seed_decides(name: str, receiver: str):
    scenario = cell(name + receiver)
    first, again, other = (draw_csi(scenario, 5, seeded(seed)) for seed in (1, 1, 2))
    assert check_csi(first).shape == (5, 3, 3)
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_global_random_numbers_are_left_alone():
    config.torch_rng("cpu").manual_seed(1)
    torch.manual_seed(1)
    states = config.torch_rng("cpu").get_state(), torch.get_rng_state()
    generator = seeded()
    draw_csi(cell("umi", base_stations=21), 2, generator)
    assert torch.equal(config.torch_rng("cpu").get_state(), states[0])
    assert torch.equal(torch.get_rng_state(), states[1])
    assert not torch.equal(generator.get_state(), seeded().get_state())
    with pytest.raises(ZeroDivisionError), drawing_from(generator):
        torch.rand(1, generator=config.torch_rng("cpu"))
        _ = 1 / 0
    assert torch.equal(config.torch_rng("cpu").get_state(), states[0])


def test_a_draw_goes_on_where_the_last_one_ended():
    generator = seeded()
    first, second = (draw_csi(cell("umi"), 3, generator) for _ in range(2))
    assert not torch.equal(first, second)


def test_the_antennas_are_those_behind_h():
    scenario = cell("uma")
    drawn = draw_channels(scenario, 4, seeded())
    assert drawn.antenna is not None
    assert drawn.antenna.shape == (4, 3, 1, 4)
    relative = drawn.antenna[:, :, 0].to(torch.complex128) / scenario.noise_power_w**0.5
    torch.testing.assert_close(drawn.csi, mrc_csi(relative).float())
    torch.testing.assert_close(drawn.csi, draw_csi(scenario, 4, seeded()))


class OutdoorsAt50m(UrbanMicrocell):
    """Outdoors, 50 m from the station, all antennas upright and omnidirectional, no shadowing."""

    pattern = "omni"
    line_of_sight = True

    def layout(self, count: int, device: str) -> Layout:
        layout = super().layout(count, device)
        users_at, station_at, *_, velocity, _ = layout.topology
        direction = torch.nn.functional.normalize(users_at[..., :2], dim=-1)
        users_at = torch.cat((50 * direction, users_at[..., 2:]), dim=-1)
        upright = torch.zeros_like(users_at), torch.zeros_like(station_at)
        indoor = torch.zeros(users_at.shape[:2], dtype=torch.bool)
        topology: Any = (users_at, station_at, *upright, velocity, indoor, self.line_of_sight)
        return Layout(topology, layout.others_power_w)

    def propagation(self, **arrays: Any) -> UMi:
        return UMi(o2i_model="low", enable_shadow_fading=False, **arrays)


class BehindObstaclesAt50m(OutdoorsAt50m):
    line_of_sight = False


@pytest.mark.parametrize("carrier_ghz", [1.9, 3.5])
@pytest.mark.parametrize("model", [OutdoorsAt50m, BehindObstaclesAt50m])
def test_the_mean_gain_is_the_standards_path_loss(model: type[OutdoorsAt50m], carrier_ghz: float):
    """TR 38.901, table 7.4.1-1, UMi street canyon before the breakpoint; h_BS 10 m, h_UT 1.5 m."""
    distance_m = math.hypot(50, 10 - 1.5)
    loss_db = 32.4 + 21 * math.log10(distance_m) + 20 * math.log10(carrier_ghz)
    if not model.line_of_sight:
        loss_db = 22.4 + 35.3 * math.log10(distance_m) + 21.3 * math.log10(carrier_ghz)
    scenario = Scenario(antennas=1, cell_side_m=200, carrier_hz=carrier_ghz * 1e9)
    antenna = model(scenario).draw_with_antennas(250, seeded()).antenna
    assert antenna is not None
    gain_db = 10 * math.log10(float(antenna.abs().square().mean()))
    # 2000 links: of the mean of Rayleigh fading (no line of sight) one deviation is 0.1 dB.
    assert gain_db == pytest.approx(-loss_db, abs=0.35)


@pytest.mark.parametrize("name", SIDES_M)
def test_h_is_the_response_at_the_carrier_and_flat_over_a_resource_block(name: str):
    scenario = cell(name, workers=8)
    model = model_of(scenario)
    with drawing_from(seeded()) as device:
        sionna = model.model(device)
        sionna.set_topology(*model.layout(30, device).topology)
        paths, delays = sionna(1, 1.0)
    offsets_hz = torch.tensor([0.0, 90e3])
    response = cir_to_ofdm_channel(offsets_hz, paths, delays)[:, 0, :, :, 0, 0]  # (N, n_R, L, 2)
    drawn = model.draw_with_antennas(30, seeded()).antenna
    assert drawn is not None
    torch.testing.assert_close(drawn[:, :, 0].mT, response[..., 0])
    at_the_edge = response[..., 1].abs().square().sum(1) / response[..., 0].abs().square().sum(1)
    off_db = 10 * at_the_edge.log10().abs()
    assert float(off_db.median()) < 0.5


def test_workers_are_in_the_first_sector_of_the_middle_site():
    model = model_of(cell("uma", base_stations=57))
    with drawing_from(seeded()) as device:
        layout = model.layout(40, device)
    users_at, station_at = layout.topology[:2]
    assert station_at[..., :2].abs().max() == 0
    assert users_at.shape == (40, 3 + 56, 3)
    workers, others = users_at[:, :3], users_at[:, 3:]
    angle = torch.atan2(workers[..., 1], workers[..., 0])
    assert bool(((angle >= 0) & (angle <= 2 * math.pi / 3 + 1e-6)).all())
    assert float(workers[..., :2].norm(dim=-1).max()) <= 500 / math.sqrt(3)
    assert float(others[..., :2].norm(dim=-1).max()) > 2 * 500
    assert bool((layout.others_power_w > 0).all())
    assert bool((layout.others_power_w <= 0.01 * (1 + 1e-6)).all())


@pytest.mark.slow
def test_users_of_other_cells_raise_the_noise():
    alone, grid, wider = (
        draw_csi(cell("umi", base_stations=stations), 60, seeded()).diagonal(dim1=1, dim2=2)
        for stations in (1, 21, 57)
    )
    medians_db = [10 * math.log10(float(gain.median())) for gain in (alone, grid, wider)]
    assert medians_db[0] > medians_db[1] + 6
    # The second ring is further away: it adds less than the first.
    assert medians_db[1] > medians_db[2] - 4


def test_other_users_aim_at_the_received_power_of_the_open_loop():
    """Where Pmax does not bind, power times path gain is P0 = -90 dBm, but for the fading."""
    scenario = cell("umi", base_stations=21, pmax_dbw=60)
    model = model_of(scenario)
    with drawing_from(seeded()) as device:
        topology = model.layout(50, device).topology
        users = tuple(part[:, :3] if part.shape[1] > 1 else part for part in topology)
        state = config.torch_rng(device).get_state()
        power_w = model._open_loop_power_w(users, device)
        config.torch_rng(device).set_state(state)
        sionna = model.model(device)
        sionna.set_topology(*users, ut_spatial_region_ids=torch.arange(3))
        large_scale = sionna.sample_lsp()
    gain = 10 ** (-large_scale.pathloss[:, 0] / 10) * large_scale.sf[:, 0]
    received_dbm = 10 * torch.log10(power_w * gain) + 30
    torch.testing.assert_close(received_dbm, torch.full_like(received_dbm, -90.0))


@pytest.mark.parametrize(
    ("name", "fields", "refusal"),
    [
        ("umi", {"geometry": "kept"}, "geometry: kept with sionna-umi; accepted: redrawn"),
        ("umi", {"base_stations": 7}, "base_stations: 7 with sionna-umi; accepted: 1, 21, 57"),
        ("inf", {"base_stations": 21}, "base_stations: 21 with sionna-inf; accepted: 1"),
        ("inf", {"cell_side_m": 1000}, "cell_side_m: 1000 with .*; accepted: 20 to 560 m"),
        ("uma", {"cell_side_m": 60}, "cell_side_m: 60 with sionna-uma; accepted: 70 to 5000 m"),
        ("uma-mmse", {"carrier_hz": 3e8}, "carrier_hz: 3e\\+08 with sionna-uma-mmse; accepted"),
    ],
)
def test_what_it_cannot_do_is_refused(name: str, fields: dict[str, Any], refusal: str):
    with pytest.raises(InputError, match=refusal):
        draw_csi(cell(name, **fields), 1, seeded())


@pytest.mark.slow
def test_it_is_imported_when_asked_for_and_a_sentence_names_the_extra():
    """In another interpreter, first as if Sionna were not installed."""
    program = """
        import sys
        import torch
        import feduplink.cli
        from feduplink import InputError, Scenario, draw_csi

        cell = Scenario(channel_model="sionna-umi", workers=1)
        assert "sionna" not in sys.modules
        sys.modules["sionna"] = None
        try:
            draw_csi(cell, 1, torch.Generator())
        except InputError as refusal:
            print(refusal)

        del sys.modules["sionna"]
        state = torch.manual_seed(1).get_state()
        draw_csi(cell, 1, torch.Generator())
        assert "sionna" in sys.modules
        assert torch.equal(torch.get_rng_state(), state)
        """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert ended.stdout == (
        "sionna: is not installed; accepted after pip install 'feduplink[sionna]'.\n"
    )
