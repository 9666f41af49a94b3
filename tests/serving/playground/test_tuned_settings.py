"""Multipliers of settings: the nearest known until a setting's own are found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import torch

from feduplink import Scenario
from feduplink.lagrangian import DualPoint, Multipliers
from feduplink.policies import shipped_network, shipped_pdx
from feduplink.problem import Problem
from feduplink.progress import track_each
from feduplink.serving.playground import tuned_settings
from feduplink.serving.playground.scene import FirstScene, Setting
from feduplink.serving.playground.tuned_settings import Known, Tuned, TunedSettings

SMALL = Scenario(workers=3, antennas=4, rate_min=0.9, ee_min=60.0)
OWN = Setting.from_scene(FirstScene.from_scenario(SMALL).scene)


@pytest.fixture
def begun() -> Iterator[Callable[[], TunedSettings]]:
    """Settings of the small scenario that are searched for until the test ends."""
    running: list[TunedSettings] = []

    def begin() -> TunedSettings:
        running.append(TunedSettings(SMALL, OWN, shipped_network()))
        running[-1].start()
        return running[-1]

    yield begin
    for settings in running:
        settings.stop()


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Setting]:
    """What was searched for; each is found at once."""
    point, searched = shipped_pdx().point, list[Setting]()

    def find(_: TunedSettings, setting: Setting) -> Tuned:
        searched.append(setting)
        return Tuned(setting, point, 1)

    monkeypatch.setattr(TunedSettings, "_found", find)
    return searched


def wait_until(reached: Callable[[], bool]) -> None:
    """However busy the machine is; who asks too often holds the search up."""
    end = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.3)


def found(settings: TunedSettings, setting: Setting) -> Known:
    wait_until(lambda: not settings.known(setting).searching)
    return settings.known(setting)


def test_nobody_waits_and_the_settings_own_are_found(begun):
    settings = begun()
    start = time.thread_time()
    first = settings.known(OWN)
    assert time.thread_time() - start < 0.05
    assert first.searching  # which takes seconds
    # Until then those that ship, of another setting.
    assert first.tuned.setting.rate_min == Scenario().rate_min
    assert torch.equal(first.tuned.point.thresholds, shipped_pdx().point.thresholds)

    own = found(settings, OWN).tuned
    assert own.setting == OWN
    # The thresholds bind, and the multipliers were found with them in sight.
    assert torch.equal(own.point.thresholds, Problem.from_scenario(SMALL).thresholds)
    assert bool((own.point.multipliers.constraints > 0).any())
    assert abs(own.shortfall) < 0.1
    assert own.open_loop is not None

    # A setting close by is served by this one while its own are being found.
    near = Setting(OWN.ids, -21.0, 1.0, 0.9, 60.0)
    meanwhile = settings.known(near)
    assert meanwhile.searching
    assert meanwhile.tuned.setting == OWN
    assert not settings.known(OWN).searching


@pytest.mark.usefixtures("searched")
def test_few_settings_are_kept_and_the_one_asked_for_last_the_longest(monkeypatch, begun):
    monkeypatch.setattr(tuned_settings, "_MOST_KEPT", 2)
    monkeypatch.setattr(tuned_settings, "_SETTLED_S", 0.01)
    settings = begun()
    first, second, third = (Setting(OWN.ids, float(pmax), 1.0, 0.5, 40.0) for pmax in range(3))
    for setting in (first, second):
        found(settings, setting)
    settings.known(first)
    found(settings, third)
    assert not settings.known(first).searching
    assert settings.known(second).searching


def test_a_failure_is_told_and_the_next_setting_is_found(monkeypatch, caplog, begun):
    monkeypatch.setattr(tuned_settings, "_SETTLED_S", 0.01)
    point = shipped_pdx().point

    def find(_: TunedSettings, setting: Setting) -> Tuned:
        if setting == OWN:
            raise RuntimeError("cause")
        return Tuned(setting, point, 1)

    monkeypatch.setattr(TunedSettings, "_found", find)
    settings = begun()
    known = found(settings, OWN)
    assert known.failure == "The search for its multipliers failed; the log says why."
    assert "cause" in caplog.text
    other = Setting(OWN.ids, 0.0, 1.0, 0.5, 40.0)
    assert found(settings, other).tuned.setting == other


def test_a_slider_in_motion_starts_no_search(monkeypatch, begun, searched):
    monkeypatch.setattr(tuned_settings, "_SETTLED_S", 0.5)
    settings = begun()
    passed = [Setting(OWN.ids, float(pmax), 1.0, 0.5, 40.0) for pmax in range(5)]
    for setting in passed:
        settings.known(setting)
        time.sleep(0.01)
    found(settings, passed[-1])
    assert searched == [passed[-1]]


def test_a_setting_that_was_left_again_is_not_searched_for(monkeypatch, begun, searched):
    monkeypatch.setattr(tuned_settings, "_SETTLED_S", 0.5)
    settings = begun()
    found(settings, OWN)
    settings.known(Setting(OWN.ids, 0.0, 1.0, 0.5, 40.0))
    settings.known(OWN)
    time.sleep(1.0)
    assert searched == [OWN]


def test_a_search_that_nobody_waits_for_is_given_up(monkeypatch, begun):
    monkeypatch.setattr(tuned_settings, "_SETTLED_S", 0.01)
    monkeypatch.setattr(tuned_settings, "_PATIENCE_S", 0.2)
    point, begun_with = shipped_pdx().point, []
    long = Setting(OWN.ids, 0.0, 1.0, 0.5, 40.0)

    def find(_: TunedSettings, setting: Setting) -> Tuned:
        begun_with.append(setting)
        for _step in track_each("endless" if setting == long else "short", range(10**6)):
            if setting != long:
                break
            time.sleep(0.01)
        return Tuned(setting, point, 1)

    monkeypatch.setattr(TunedSettings, "_found", find)
    settings = begun()
    found(settings, OWN)
    settings.known(long)
    wait_until(lambda: begun_with == [OWN, long])
    other = Setting(OWN.ids, 1.0, 1.0, 0.5, 40.0)
    assert found(settings, other).tuned.setting == other


def test_a_search_ends_when_it_is_told_to():
    """That of the most workers takes long; to stop it does not."""
    many = Setting(tuple(range(64)), -20.0, 1.0, 0.7, 55.0)
    settings = TunedSettings(Scenario(), many, shipped_network())
    settings.start()
    time.sleep(tuned_settings._SETTLED_S + 0.5)
    start = time.process_time()
    settings.stop()
    assert time.process_time() - start < 2.0
    assert settings.known(many).searching


def test_prices_relative_to_weights_stay_when_workers_come_and_go():
    then = Setting((0, 1), -20.0, 1.0, 0.7, 55.0)
    point = DualPoint(
        Multipliers(torch.tensor([[0.2, 0.6], [0.0, 0.3]]).double(), torch.tensor([0.4, 0.6])),
        torch.zeros(2, 2),
    )
    now = Setting((1, 7), -20.0, 1.0, 0.8, 50.0)
    scenario = now.scenario(Scenario())
    moved = Tuned(then, point, 1).point_for(now, scenario)
    weights = scenario.worker_weights
    # Worker 1 pays 1.0 and 0.5 per weight; worker 7 is new and pays 0.4 / 0.5 and 0.15 / 0.5.
    expected = torch.tensor([[1.0, 0.8], [0.5, 0.3]]).double() * weights
    torch.testing.assert_close(moved.multipliers.constraints, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(moved.multipliers.objective_weight.double(), weights)
    assert moved.thresholds.tolist() == [[0.8, 0.8], [50.0, 50.0]]


@pytest.mark.parametrize("ids", [(0, 1, 2), (0, 2, 5)])
def test_the_scenario_of_a_setting(ids):
    setting = Setting(ids, -30.0, 2.0, 0.5, 40.0)
    scenario = setting.scenario(SMALL)
    assert scenario.workers == 3
    assert (scenario.pmax_dbw, scenario.interference) == (-30.0, 2.0)
    assert scenario.antennas == SMALL.antennas
    assert float(scenario.worker_weights.sum()) == pytest.approx(1)
