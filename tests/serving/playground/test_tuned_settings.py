"""Tuned settings: the nearest known one until a setting's own is found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from feduplink import Scenario
from feduplink.errors import InputError
from feduplink.lagrangian import DualPoint, Multipliers
from feduplink.policies import shipped_network, shipped_pdx
from feduplink.problem import Problem
from feduplink.progress import track_each
from feduplink.serving.playground.scene import FirstScene, Setting
from feduplink.serving.playground.tuned_settings import (
    TunedSetting,
    TunedSettings,
    TuningStatus,
    tune_setting,
)

SMALL = Scenario(workers=3, antennas=4, rate_min=0.9, ee_min=60.0)
OWN = Setting.from_scene(FirstScene.from_scenario(SMALL).scene)
#: Time after which a test fails instead of waiting for ever, s.
DEADLINE_S = 120


def setting_at(pmax_dbw: float) -> Setting:
    return Setting(ids=OWN.ids, pmax_dbw=pmax_dbw, interference=1.0, rate_min=0.5, ee_min=40.0)


A, B, C = (setting_at(pmax_dbw) for pmax_dbw in (-20.0, -10.0, 0.0))


class Tuner:
    """Tunes at once, except for settings that are held until they are released."""

    def __init__(self, *held: Setting) -> None:
        self.point = shipped_pdx().point
        self.tuned: list[Setting] = []
        self.events = {setting: (threading.Event(), threading.Event()) for setting in held}

    def __call__(self, setting: Setting) -> TunedSetting:
        self.tuned.append(setting)
        if setting in self.events:
            started, released = self.events[setting]
            started.set()
            for _ in track_each("held", range(10**9)):
                if released.wait(0.01):
                    break
        return TunedSetting(setting, self.point, 1)

    def wait_for(self, setting: Setting) -> None:
        assert self.events[setting][0].wait(DEADLINE_S)

    def release(self, setting: Setting) -> None:
        self.events[setting][1].set()


@pytest.fixture
def make_settings() -> Iterator[Callable[..., TunedSettings]]:
    """Makes settings that start to tune at once, and stops them when the test ends."""
    made: list[TunedSettings] = []

    def make(tune: Callable[[Setting], TunedSetting], **options: Any) -> TunedSettings:
        options = {"settling_time_s": 0.0, "patience_s": 1e6} | options
        made.append(TunedSettings(tune, TunedSetting.shipped(), **options))
        return made[-1]

    yield make
    for settings in made:
        settings.stop()


def found(settings: TunedSettings, setting: Setting) -> TuningStatus:
    deadline = time.monotonic() + DEADLINE_S
    while (status := settings.status(setting)).searching:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return status


def test_tuning_aims_at_the_thresholds_of_the_setting():
    tuned = tune_setting(SMALL, shipped_network(), OWN)
    assert tuned.setting == OWN
    assert torch.equal(tuned.point.thresholds, Problem.from_scenario(SMALL).thresholds)
    assert bool((tuned.point.multipliers.constraints > 0).any())  # the thresholds bind
    assert abs(tuned.shortfall) < 0.1
    assert tuned.open_loop is not None


def test_the_nearest_known_setting_is_used_until_the_own_one_is_found(make_settings):
    tuner = Tuner(A, B)
    settings = make_settings(tuner)
    status = settings.status(A)
    assert status.searching
    assert status.tuned.setting == TunedSetting.shipped().setting
    tuner.release(A)
    assert found(settings, A).tuned.setting == A
    near = setting_at(-19.0)
    tuner.events[near] = tuner.events[B]
    status = settings.status(near)
    assert status.searching
    assert status.tuned.setting == A
    tuner.release(near)
    assert found(settings, near).tuned.setting == near


def test_the_least_recently_used_setting_is_dropped(make_settings):
    tuner = Tuner()
    settings = make_settings(tuner, capacity=2)
    for setting in (A, B, A, C, A):
        found(settings, setting)
    assert tuner.tuned == [A, B, C]
    found(settings, B)
    assert tuner.tuned == [A, B, C, B]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("No multipliers."), "No multipliers."),
        (RuntimeError("cause"), "The search for its multipliers failed; the log has the reason."),
    ],
)
def test_a_failure_is_reported_and_other_settings_are_found(
    make_settings, caplog, error: Exception, sentence: str
):
    def tune(setting: Setting) -> TunedSetting:
        if setting == A:
            raise error
        return TunedSetting(setting, shipped_pdx().point, 1)

    settings = make_settings(tune)
    assert found(settings, A).failure == sentence
    assert ("cause" in caplog.text) == isinstance(error, RuntimeError)
    assert found(settings, B).tuned.setting == B


def test_only_the_last_of_several_settings_in_a_row_is_tuned(make_settings):
    """A slider that is moved passes many settings."""
    tuner = Tuner(A)
    settings = make_settings(tuner, patience_s=0.0)
    settings.status(A)
    tuner.wait_for(A)
    passed = [setting_at(float(pmax_dbw)) for pmax_dbw in range(1, 6)]
    for setting in passed:
        settings.status(setting)
    tuner.release(A)
    assert found(settings, passed[-1]).tuned.setting == passed[-1]
    assert tuner.tuned == [A, passed[-1]]


def test_a_search_waits_for_the_settling_time(make_settings):
    tuner = Tuner()
    settings = make_settings(tuner, settling_time_s=1e6)
    for setting in (A, B, C):
        assert settings.status(setting).searching
    settings.stop()
    assert tuner.tuned == []


def test_a_search_that_is_still_requested_is_not_replaced(make_settings):
    tuner = Tuner(A)
    settings = make_settings(tuner)
    settings.status(A)
    tuner.wait_for(A)
    assert settings.status(B).searching
    tuner.release(A)
    assert found(settings, A).tuned.setting == A
    assert found(settings, B).tuned.setting == B
    assert tuner.tuned == [A, B]


def test_a_search_that_is_not_requested_any_more_is_cancelled_for_another(make_settings):
    tuner = Tuner(A)
    settings = make_settings(tuner, patience_s=0.0)
    settings.status(A)
    tuner.wait_for(A)
    assert found(settings, B).tuned.setting == B  # although A is never released


def test_stopping_cancels_the_search(make_settings):
    tuner = Tuner(A)
    settings = make_settings(tuner)
    settings.status(A)
    tuner.wait_for(A)
    settings.stop()  # returns although A is never released
    assert settings.status(A).searching


def test_multipliers_relative_to_weights_stay_when_workers_are_added_or_removed():
    before = Setting(ids=(0, 1), pmax_dbw=-20.0, interference=1.0, rate_min=0.7, ee_min=55.0)
    point = DualPoint(
        Multipliers(torch.tensor([[0.2, 0.6], [0.0, 0.3]]).double(), torch.tensor([0.4, 0.6])),
        torch.zeros(2, 2),
    )
    after = Setting(ids=(1, 7), pmax_dbw=-20.0, interference=1.0, rate_min=0.8, ee_min=50.0)
    scenario = after.scenario(Scenario())
    moved = TunedSetting(before, point, 1).point_for(after, scenario)
    weights = scenario.worker_weights
    # Relative to its weight, worker 1 has 1.0 and 0.5; worker 7 is new and gets the means.
    expected = torch.tensor([[1.0, 0.8], [0.5, 0.3]]).double() * weights
    torch.testing.assert_close(moved.multipliers.constraints, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(moved.multipliers.objective_weight.double(), weights)
    assert moved.thresholds.tolist() == [[0.8, 0.8], [50.0, 50.0]]
