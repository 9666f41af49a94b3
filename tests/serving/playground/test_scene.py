"""Settings of scenes, and their channel against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from feduplink import Scenario, draw_csi
from feduplink.channels import worker_positions
from feduplink.errors import InputError
from feduplink.randomness import torch_generator
from feduplink.serving.playground.scene import Scene, SceneChannel, SceneWorker, Setting

PLACES = {0: (120.0, -80.0), 1: (-300.0, 40.0), 5: (10.0, 450.0)}


def scene_of(places, *, seed=3, **changes) -> Scene:
    setting = {"pmax_dbw": -20.0, "interference": 1.0, "rate_min": 0.7, "ee_min": 55.0}
    workers = [SceneWorker(id=number, x_m=x, y_m=y) for number, (x, y) in places.items()]
    return Scene(workers=workers, seed=seed, **{**setting, **changes})


def test_the_receiver_is_a_matched_filter():
    csi = SceneChannel(Scenario()).csi(scene_of(PLACES)).numpy()
    noise_w = 180e3 * 10 ** ((-174 - 30 + 3) / 10)
    channels = []
    for number, (x, y) in PLACES.items():
        fading = torch.randn(1, 10, 2, generator=torch_generator(3, "scene", number))[0].numpy()
        gain = 2 * 10**-8.4 / (1 + (np.hypot(x, y) / 35) ** 4.5)
        channels.append(np.sqrt(gain / 2) * (fading[:, 0] + 1j * fading[:, 1]))
    for i, own in enumerate(channels):
        power = np.vdot(own, own).real
        for j, other in enumerate(channels):
            expected = power if i == j else abs(np.vdot(own, other)) ** 2 / power
            assert csi[i, j] == pytest.approx(expected / noise_w, rel=1e-5)


def test_workers_at_random_positions_have_the_channels_of_the_model():
    """Means of the log-gains, direct and across, within four standard errors."""
    scenario = Scenario()
    channel, count = SceneChannel(scenario), 400
    places = worker_positions(count, 8, 1000.0, torch.Generator().manual_seed(1)).tolist()
    scenes = [scene_of(dict(enumerate(at)), seed=seed) for seed, at in enumerate(places)]
    placed = torch.stack([channel.csi(scene) for scene in scenes]).log()
    drawn = draw_csi(scenario, 4000, torch.Generator().manual_seed(2)).double().log()
    own = torch.eye(8, dtype=torch.bool)
    for part in (own, ~own):
        ours, theirs = placed[:, part].mean(-1), drawn[:, part].mean(-1)
        error = (ours.var() / len(ours) + theirs.var() / len(theirs)).sqrt()
        assert abs(ours.mean() - theirs.mean()) < 4 * error


def test_moving_a_worker_leaves_the_fading_of_the_others():
    channel = SceneChannel(Scenario())
    before = channel.csi(scene_of(PLACES))
    after = channel.csi(scene_of({**PLACES, 1: (50.0, 60.0)}))
    others = [0, 2]
    torch.testing.assert_close(after[others][:, others], before[others][:, others])
    # Its own gain and its interference are scaled by the ratio of the path gains.
    ratio = (1 + (np.hypot(300, 40) / 35) ** 4.5) / (1 + (np.hypot(50, 60) / 35) ** 4.5)
    torch.testing.assert_close(after[:, 1] / before[:, 1], torch.full((3,), ratio).double())
    # The interference of the others at its filter, of unit norm, is as before.
    torch.testing.assert_close(after[1, others], before[1, others])


def test_adding_a_worker_leaves_the_channels_of_the_others():
    channel = SceneChannel(Scenario())
    three = channel.csi(scene_of(PLACES))
    four = channel.csi(scene_of({3: (1.0, 2.0), **PLACES}))
    torch.testing.assert_close(four[1:, 1:], three)


def test_another_seed_gives_another_fading():
    channel = SceneChannel(Scenario())
    one, other = (channel.csi(scene_of(PLACES, seed=seed)) for seed in (1, 2))
    assert bool((one != other).all())


def test_interference_is_a_factor_off_the_diagonal():
    channel = SceneChannel(Scenario())
    once = channel.csi(scene_of(PLACES))
    thrice = channel.csi(scene_of(PLACES, interference=3.0))
    torch.testing.assert_close(thrice / once, 3.0 - 2.0 * torch.eye(3, dtype=torch.float64))


def test_a_worker_is_served_by_the_strongest_base_station():
    """Base stations at (±250, 0) m; beside one of them the other cell's worker is negligible."""
    channel = SceneChannel(Scenario(base_stations=2))
    scene = scene_of({0: (240.0, 0.0), 1: (-240.0, 0.0)})
    assert channel.distances_m(scene).min(-1).values.tolist() == [10.0, 10.0]
    csi = channel.csi(scene)
    assert float(csi[0, 1] / csi[1, 1]) < 1e-3
    assert float(csi[1, 0] / csi[0, 0]) < 1e-3


def test_shadowing_belongs_to_the_worker():
    channel = SceneChannel(Scenario(channel_model="hata-urban-shadowed"))
    before = channel.csi(scene_of(PLACES))
    after = channel.csi(scene_of({**PLACES, 1: (200.0, 60.0)}))
    torch.testing.assert_close(after[[0, 2]][:, [0, 2]], before[[0, 2]][:, [0, 2]])


class Flat:
    def __init__(self, scenario: Scenario) -> None:
        self.workers = scenario.workers

    def draw(self, count: int, generator: torch.Generator):
        return torch.ones(count, self.workers, self.workers)


def test_a_model_without_path_loss_is_refused():
    name = f"{__name__}:Flat"
    with pytest.raises(
        InputError, match="channel_model must derive from RayleighCell in the playground"
    ):
        SceneChannel(Scenario(channel_model=name))


@pytest.mark.parametrize("ids", [(0, 1, 2), (0, 2, 5)])
def test_a_setting_changes_its_own_fields_of_the_scenario(ids: tuple[int, ...]):
    base = Scenario(workers=3, antennas=4, rate_min=0.9, ee_min=60.0)
    setting = Setting(ids=ids, pmax_dbw=-30.0, interference=2.0, rate_min=0.5, ee_min=40.0)
    scenario = setting.scenario(base)
    assert scenario.workers == 3
    assert (scenario.pmax_dbw, scenario.interference) == (-30.0, 2.0)
    assert scenario.antennas == base.antennas
    assert float(scenario.worker_weights.sum()) == pytest.approx(1)


def test_an_own_channel_takes_the_place_of_that_of_the_positions():
    own = [[9e5, 2e3], [4e3, 3e6]]
    places = {0: PLACES[0], 1: PLACES[1]}
    channel = SceneChannel(Scenario())
    assert channel.csi(scene_of(places, csi=own)).tolist() == own
    doubled = channel.csi(scene_of(places, csi=own, interference=2.0))
    assert doubled.tolist() == [[9e5, 4e3], [8e3, 3e6]]
