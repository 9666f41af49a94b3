"""Evaluations of a scene, recomputed from the powers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from feduplink import Scenario
from feduplink.lagrangian import ChannelBatch, maximise
from feduplink.policies import CHANNELS, GraphPolicy, PerceptronPolicy, shipped_network, shipped_pdx
from feduplink.scenario import data_sizes
from feduplink.serving.playground.answer import SceneAnswer, SceneEvaluation
from feduplink.serving.playground.scene import (
    FirstScene,
    Scene,
    SceneChannel,
    SceneWorker,
    Setting,
)
from feduplink.serving.playground.tuned_settings import TunedSetting, TuningStatus

SCENARIO = Scenario()
START = FirstScene.from_scenario(SCENARIO).scene
NETWORK = shipped_network()
POINT = shipped_pdx().point
CHANNEL = SceneChannel(SCENARIO)
BITS = 39_760 * 32 + 32
LN2 = math.log(2)


def evaluated(scene: Scene = START, trained=()) -> tuple[SceneEvaluation, SceneAnswer]:
    tuned = TunedSetting(Setting.from_scene(START), POINT, CHANNELS, open_loop=(2.0, 0.9))
    evaluation = SceneEvaluation(scene, SCENARIO, CHANNEL, TuningStatus(tuned, searching=False))
    return evaluation, evaluation.answer(NETWORK, trained)


def changed(**changes) -> Scene:
    return Scene(**{**START.model_dump(), **changes})


def test_link_quality_follows_from_the_powers():
    _, answer = evaluated()
    csi = CHANNEL.csi(START).numpy()
    direct, cross = np.diag(csi), csi - np.diag(np.diag(csi))
    for row in answer.policies:
        power = np.array(row.power_w)
        sinr = direct * power / (1 + cross @ power)
        transmits = power > 0
        np.testing.assert_allclose(row.sinr, sinr, rtol=1e-9)
        np.testing.assert_allclose(row.rate, np.log1p(sinr), rtol=1e-9)
        np.testing.assert_allclose(row.efficiency, np.log1p(sinr) / (power + 0.01), rtol=1e-9)
        expected = np.where(transmits, np.exp(-0.023 / np.where(transmits, sinr, 1)), 0)
        np.testing.assert_allclose(row.success, expected, rtol=1e-9)
        weights = data_sizes(8) / data_sizes(8).sum()
        assert row.objective == pytest.approx((weights * expected).sum(), rel=1e-9)
        assert row.silent == np.flatnonzero(~transmits).tolist()


def test_the_schedule_delivers_every_model_at_its_stated_cost():
    _, answer = evaluated()
    schedule = answer.schedule
    durations = np.array([phase.duration_s for phase in schedule.phases])
    powers = np.array([phase.power_w for phase in schedule.phases])
    csi = CHANNEL.csi(START).numpy()
    direct, cross = np.diag(csi), csi - np.diag(np.diag(csi))
    rates = np.log1p(direct * powers / (1 + powers @ cross.T)) / LN2 * SCENARIO.bandwidth_hz
    assert (durations @ rates >= BITS * (1 - 1e-9)).all()
    assert (powers <= float(SCENARIO.max_power)).all()
    drawn = np.where(powers > 0, powers + 0.01, 0).sum(-1)
    assert schedule.round_s == pytest.approx(durations.sum())
    assert schedule.round_j == pytest.approx(durations @ drawn)
    cost = schedule.round_s + schedule.kappa * schedule.round_j
    everyone = [row for row in answer.policies if not row.silent]
    assert all(cost < row.round_s + schedule.kappa * row.round_j for row in everyone)


def test_a_worker_stops_transmitting_once_its_upload_is_complete():
    """Of two workers one transmits alone after the other's upload."""
    scene = changed(workers=START.workers[:2])
    evaluation, answer = evaluated(scene)
    csi, bandwidth = evaluation.csi.numpy(), SCENARIO.bandwidth_hz
    full = next(row for row in answer.policies if row.name == "max")
    power = np.full(2, 0.01)
    speed = bandwidth * np.log1p(np.diag(csi) * power / (1 + csi[[0, 1], [1, 0]] * power)) / LN2
    first, last = np.argsort(BITS / speed)
    together = BITS / speed[first]
    alone = bandwidth * np.log1p(csi[last, last] * 0.01) / LN2
    end = together + (BITS - together * speed[last]) / alone
    assert full.airtime_s[first] == pytest.approx(together, rel=1e-9)
    assert full.airtime_s[last] == pytest.approx(end, rel=1e-9)
    assert full.round_s == pytest.approx(end, rel=1e-9)
    assert full.energy_j == pytest.approx([0.02 * time_s for time_s in full.airtime_s], rel=1e-9)
    assert full.round_j == pytest.approx(0.02 * (together + end), rel=1e-9)


def test_tdma_takes_the_sum_of_the_times_and_ofdma_the_longest():
    evaluation, answer = evaluated()
    alpha = evaluation.csi.diagonal().numpy()
    tdma, ofdma = answer.orthogonal
    one_by_one = BITS * LN2 / (SCENARIO.bandwidth_hz * np.log1p(alpha * 0.01))
    assert tdma.round_s == pytest.approx(one_by_one.sum(), rel=1e-9)
    assert tdma.round_j == pytest.approx(0.02 * one_by_one.sum(), rel=1e-9)
    shared = 8 * BITS * LN2 / (SCENARIO.bandwidth_hz * np.log1p(8 * alpha * 0.01))
    assert ofdma.round_s == pytest.approx(shared.max(), rel=1e-9)
    assert ofdma.round_j == pytest.approx(0.02 * shared.sum(), rel=1e-9)


def test_pdx_is_the_shipped_policy():
    evaluation, answer = evaluated()
    row = next(row for row in answer.policies if row.name == "pdx")
    assert row.power_w == shipped_pdx().allocate(evaluation.csi).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_is_above_the_optimum_of_a_channel(seed: int):
    evaluation, answer = evaluated(changed(seed=seed))
    gaps = {row.name: row.lagrangian_gap for row in answer.policies}
    assert gaps["dual"] == 0
    assert min(gaps.values()) == 0
    assert gaps["max"] > 0.05
    # The more extensive search of the policy itself finds no better powers.
    batch = ChannelBatch.from_scenario(SCENARIO, evaluation.csi[None])
    wider = batch.value(maximise(batch, evaluation.prices), evaluation.prices)
    assert answer.largest_lagrangian >= float(wider) - 1e-9
    for row in answer.policies:
        value = batch.value(torch.tensor([row.power_w], dtype=torch.float64), evaluation.prices)
        assert answer.largest_lagrangian - float(value) == pytest.approx(
            row.lagrangian_gap, abs=1e-12
        )


@pytest.mark.parametrize("pmax_dbw", [-45.0, -20.0, 5.0])
@pytest.mark.parametrize("thresholds", [(0.0, 0.0), (2.0, 150.0)])
def test_powers_are_within_their_limits_and_all_numbers_are_finite(pmax_dbw, thresholds):
    corners = [(0.0, 0.0), (500.0, 500.0), (-500.0, 500.0), (0.0, 0.0)]
    workers = [SceneWorker(id=20 + i, x_m=x, y_m=y) for i, (x, y) in enumerate(corners)]
    rate_min, ee_min = thresholds
    scene = changed(workers=workers, pmax_dbw=pmax_dbw, rate_min=rate_min, ee_min=ee_min)
    _, answer = evaluated(scene)
    assert "Infinity" not in answer.model_dump_json()
    for row in answer.policies:
        assert all(0 <= power <= 10 ** (pmax_dbw / 10) * (1 + 1e-12) for power in row.power_w)
        numbers = [*row.sinr, *row.airtime_s, *row.energy_j, row.round_s, row.lagrangian_gap]
        assert all(math.isfinite(number) for number in numbers)


def test_the_schedule_follows_the_price_of_energy():
    schedules = [evaluated(changed(kappa=kappa))[1].schedule for kappa in (0.0, 100.0)]
    assert [schedule.kappa for schedule in schedules] == [0.0, 100.0]
    fast, frugal = schedules
    assert fast.round_s < frugal.round_s
    assert fast.round_j > frugal.round_j


def test_all_policies_of_the_page_have_different_colours():
    _, answer = evaluated()
    shown = [*answer.policies, *answer.orthogonal, answer.schedule]
    assert len({row.colour for row in shown}) == len(shown)


def test_the_remaining_workers_keep_their_data():
    scene = changed(workers=[w for w in START.workers if w.id != 3])
    _, answer = evaluated(scene)
    sizes = np.delete(data_sizes(8), 3)
    expected = sizes / sizes.sum()
    assert [worker.weight for worker in answer.workers] == pytest.approx(expected, rel=1e-12)


def test_trained_policies_have_a_row_for_accepted_numbers_of_workers():
    trained = (GraphPolicy.initialised(SCENARIO), PerceptronPolicy.initialised(SCENARIO))
    _, answer = evaluated(trained=trained)
    assert [row.name for row in answer.policies][-4:] == ["pdg", "pdm", "pdx", "dual"]
    _, answer = evaluated(changed(workers=START.workers[:5]), trained)
    assert "pdg" in [row.name for row in answer.policies]
    (absent,) = answer.absent
    assert absent.name == "pdm"
    assert "accepted here: exactly 8" in absent.why
