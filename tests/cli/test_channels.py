from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from feduplink import Scenario, draw_csi, read_channels
from feduplink.randomness import torch_generator

from .conftest import Run, metrics_of, refused


def test_writes_the_test_channels_of_the_seed(run: Run, tmp_path: Path):
    ended = run("channels", "--count", 50, "--workers", 3, "--seed", 5, "--out", "here")
    assert ended.status == 0
    assert "50 channels of 3 workers" in ended.out
    scenario = Scenario(workers=3)
    expected = draw_csi(scenario, 50, torch_generator(5, "test-channels"))
    recorded = read_channels(tmp_path / "here/channels.h5")
    torch.testing.assert_close(recorded.csi, expected, rtol=0, atol=0)
    assert recorded.antenna is None

    metrics = metrics_of(tmp_path / "here")
    assert metrics["count"] == 50
    assert metrics["seed"] == 5
    assert Scenario(**metrics["scenario"]) == scenario
    direct_db = 10 * np.log10(expected.diagonal(dim1=1, dim2=2).numpy())
    assert abs(metrics["direct_gain_db"]["0.5"] - np.quantile(direct_db, 0.5)) < 0.2


def test_antenna_coefficients_on_request(run: Run, tmp_path: Path):
    options = ("--count", 4, "--workers", 3, "--antennas", 5, "--antenna-coefficients")
    assert run("channels", *options).status == 0
    antenna = read_channels(tmp_path / "runs/channels/channels.h5").antenna
    assert antenna is not None
    assert antenna.shape == (4, 3, 1, 5)


def test_clamped_distances_are_said_once_and_plainly(run: Run):
    ended = run("channels", "--count", 500, "--channel-model", "hata-urban")
    assert ended.status == 0
    assert ended.err.startswith("feduplink: warning: ")
    assert ended.err.count("\n") == 1
    assert "clamped" in ended.err


def test_count_out_of_range(run: Run, tmp_path: Path):
    assert "count" in refused(run("channels", "--count", 0))
    assert list(tmp_path.iterdir()) == []
