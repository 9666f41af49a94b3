"""Channel models of Sionna, and quantities that Sionna computes too on the same channels."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sionna")

from sionna.phy import config
from sionna.phy.channel import cir_to_ofdm_channel
from sionna.phy.channel.tr38901 import UMi
from sionna.phy.mimo import StreamManagement, lmmse_equalizer
from sionna.phy.ofdm import LMMSEPostEqualizationSINR, ResourceGrid
from sionna.sys import open_loop_uplink_power_control

from feduplink import InputError, OpenLoop, Scenario, draw_channels, draw_csi, link
from feduplink.channels import check_csi, interference_covariance, mmse_csi, mrc_csi
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
def test_every_model_draws_valid_csi_reproducible_by_seed(name: str, receiver: str):
    scenario = cell(name + receiver)
    first, again, other = (draw_csi(scenario, 5, seeded(seed)) for seed in (1, 1, 2))
    assert check_csi(first).shape == (5, 3, 3)
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_global_random_states_are_unchanged():
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


def test_consecutive_draws_of_a_generator_differ():
    generator = seeded()
    first, second = (draw_csi(cell("umi"), 3, generator) for _ in range(2))
    assert not torch.equal(first, second)


def test_csi_follows_from_the_antenna_coefficients():
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
def test_the_mean_gain_is_the_path_loss_of_the_standard(
    model: type[OutdoorsAt50m], carrier_ghz: float
):
    """TR 38.901, table 7.4.1-1, UMi street canyon before the breakpoint; h_BS 10 m, h_UT 1.5 m."""
    distance_m = math.hypot(50, 10 - 1.5)
    loss_db = 32.4 + 21 * math.log10(distance_m) + 20 * math.log10(carrier_ghz)
    if not model.line_of_sight:
        loss_db = 22.4 + 35.3 * math.log10(distance_m) + 21.3 * math.log10(carrier_ghz)
    scenario = Scenario(antennas=1, cell_side_m=200, carrier_hz=carrier_ghz * 1e9)
    antenna = model(scenario).draw_with_antennas(250, seeded()).antenna
    assert antenna is not None
    gain_db = 10 * math.log10(float(antenna.abs().square().mean()))
    # The mean over 2000 links of Rayleigh fading (no line of sight) has a deviation of 0.1 dB.
    assert gain_db == pytest.approx(-loss_db, abs=0.35)


@pytest.mark.parametrize("name", SIDES_M)
def test_the_channel_is_the_response_at_the_carrier_and_flat_over_a_resource_block(name: str):
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
    # The second ring is further away and adds less than the first.
    assert medians_db[1] > medians_db[2] - 4


def test_users_of_other_cells_are_received_at_the_open_loop_target():
    """Where Pmax does not bind, power times large-scale gain is P0 = -90 dBm."""
    scenario = cell("umi", base_stations=21, pmax_dbw=60)
    model = model_of(scenario)
    with drawing_from(seeded()) as device:
        topology = model.layout(50, device).topology
        users = tuple(part[:, :3] if part.shape[1] > 1 else part for part in topology)
        state = config.torch_rng(device).get_state()
        power_w = model.open_loop_power_w(users, device)
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
def test_unsupported_scenarios_are_refused(name: str, fields: dict[str, Any], refusal: str):
    with pytest.raises(InputError, match=refusal):
        draw_csi(cell(name, **fields), 1, seeded())


@pytest.mark.slow
def test_sionna_is_imported_on_demand_and_its_absence_names_the_extra():
    """In another interpreter, first without Sionna."""
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
        "sionna is not installed; accepted after pip install 'feduplink[sionna]'.\n"
    )


WORKERS = 8


def with_antennas(name: str, side_m: float, antennas: int = 10) -> tuple[Scenario, torch.Tensor]:
    """A scenario, and channels of its workers (N, L, n_R) in units of the noise's deviation."""
    scenario = Scenario(channel_model=name, cell_side_m=side_m, carrier_hz=3.5e9, antennas=antennas)
    channels = draw_channels(scenario, 30, torch.Generator().manual_seed(3))
    assert channels.antenna is not None
    h = channels.antenna[:, :, 0].to(torch.complex128) / scenario.noise_power_w**0.5
    return scenario, h


def sionna_sinr(h: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    """SINR after Sionna's LMMSE equaliser, (N, L)."""
    users = h.shape[1]
    grid = ResourceGrid(
        num_ofdm_symbols=1, fft_size=1, subcarrier_spacing=15e3, num_tx=users, precision="double"
    )
    streams = StreamManagement(np.ones((1, users), dtype=int), 1)
    compute = LMMSEPostEqualizationSINR(grid, streams, precision="double")
    sent = h * power.sqrt()[:, None]
    found: torch.Tensor = compute(sent.mT[:, None, :, :, None, None, None], torch.ones(1).double())
    return found.reshape(h.shape[:2])


@pytest.mark.parametrize("antennas", [4, 10])
@pytest.mark.parametrize(
    ("name", "side_m"), [("sionna-umi", 200), ("sionna-uma", 500), ("sionna-inf", 120)]
)
def test_the_sinr_after_mmse_is_that_of_sionna(name: str, side_m: float, antennas: int):
    scenario, h = with_antennas(name, side_m, antennas)
    power = scenario.max_power.expand(WORKERS)
    ours = link.sinr(mmse_csi(h, power), power.expand(len(h), -1))
    torch.testing.assert_close(ours, sionna_sinr(h, power), rtol=1e-4, atol=0)


def test_the_sinr_of_the_mmse_channel_models_is_that_of_sionna():
    """H of the registered model, in single precision, at the power its filters are made for."""
    scenario, h = with_antennas("sionna-umi-mmse", 200)
    csi = draw_channels(scenario, 30, torch.Generator().manual_seed(3)).csi
    power = scenario.max_power.expand(WORKERS)
    ours = link.sinr(csi.double(), power.expand(len(h), -1))
    torch.testing.assert_close(ours, sionna_sinr(h, power), rtol=1e-4, atol=0)


def test_the_sinr_after_mmse_with_users_of_other_cells_is_that_of_sionna():
    """Five of eight users are served; the others are noise that is correlated over antennas."""
    scenario, h = with_antennas("sionna-umi", 200)
    power = scenario.max_power.expand(WORKERS)
    own, others = h[:, :5], h[:, 5:]
    ours = link.sinr(
        mmse_csi(own, power[:5], interference_covariance(others, power[5:])),
        power[:5].expand(len(h), -1),
    )
    covariance = torch.eye(h.shape[-1]).to(h)
    for user, sent_w in zip(others.unbind(1), power[5:], strict=True):
        covariance = covariance + sent_w * user[:, :, None] * user[:, None, :].conj()
    _, noise_after = lmmse_equalizer(
        torch.zeros_like(h[:, 0]), own.mT * power[:5].sqrt(), covariance, precision="double"
    )
    torch.testing.assert_close(ours, 1 / noise_after, rtol=1e-4, atol=0)


@pytest.mark.parametrize("fraction", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("p0_dbm", [-100.0, -60.0])
def test_open_loop_powers_are_those_of_sionna(fraction: float, p0_dbm: float):
    """Here path loss is relative to the noise, 1/α = PL σ²: P0 is Sionna's over σ^(2a)."""
    scenario = Scenario(channel_model="sionna-umi", cell_side_m=200, carrier_hz=3.5e9)
    csi = draw_csi(scenario, 30, torch.Generator().manual_seed(3)).double()
    noise_w = scenario.noise_power_w
    target = 10 ** ((p0_dbm - 30) / 10) / noise_w**fraction
    ours = OpenLoop(scenario, target=target, fraction=fraction).powers(csi)
    path_loss = 1 / (csi.diagonal(dim1=-2, dim2=-1) * noise_w)
    theirs = open_loop_uplink_power_control(
        path_loss,
        torch.full_like(path_loss, 12),
        alpha=fraction,
        p0_dbm=p0_dbm,
        ut_max_power_dbm=10 * math.log10(float(scenario.max_power)) + 30,
        precision="double",
    )
    assert float((10 * torch.log10(ours / theirs)).abs().max()) < 0.1


def test_some_but_not_all_open_loop_powers_are_capped_at_pmax():
    """The comparison above covers both cases of min(P0 PL^a, Pmax)."""
    scenario = Scenario(channel_model="sionna-umi", cell_side_m=200, carrier_hz=3.5e9)
    csi = draw_csi(scenario, 30, torch.Generator().manual_seed(3)).double()
    target = 1e-13 / scenario.noise_power_w
    capped = OpenLoop(scenario, target=target, fraction=1.0).powers(csi) >= scenario.max_power
    assert 0.05 < float(capped.double().mean()) < 0.95
