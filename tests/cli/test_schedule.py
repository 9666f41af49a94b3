from __future__ import annotations

import json
from pathlib import Path

import h5py
import pytest

from feduplink.cli.command_line import main

SMALL = ["schedule", "--workers", "3", "--channels-per-split", "4", "--policies", "max"]


def test_front_timeline_and_schedules(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "run"
    assert main([*SMALL, "--kappa", "20,0", "--budget-s", "20", "--out", str(out)]) == 0
    assert "schedule" in capsys.readouterr().out
    metrics = json.loads((out / "metrics.json").read_text())
    front = metrics["policies"]["schedule"]
    assert [point["kappa_s_per_j"] for point in front] == [0, 20]
    assert front[0]["time_s"] <= front[1]["time_s"] * 1.002
    assert front[1]["energy_j"] <= front[0]["energy_j"]
    for point, bound in zip(front, metrics["bounds"], strict=True):
        cost = point["time_s"] + point["kappa_s_per_j"] * point["energy_j"]
        assert 0.98 * cost <= bound["cost_s"] <= cost
    assert set(metrics["policies"]) == {
        "max",
        "tdma",
        "ofdma",
        "fixed-power",
        "learned-schedule",
        "schedule",
    }
    assert metrics["policies"]["max"][0]["kappa_s_per_j"] is None
    with h5py.File(out / "schedules.h5") as file:
        assert file["kappa=20/power_w"].shape == (4, 3, 3)
        planned = file["kappa=0/durations_s"][:].sum(-1).mean()
        assert planned == pytest.approx(front[0]["time_s"])
    for name in ("front.png", "timeline.png", "schedule.md"):
        assert (out / name).stat().st_size > 100
    page = (out / "schedule.md").read_text()
    assert "| gap, % |" in page
    assert "seconds per joule" in page


def test_a_trained_network_is_scheduled_by_at_every_price(tmp_path: Path):
    trained = tmp_path / "trained"
    words = "train --policy learned-schedule --workers 3 --steps 100 --batch-size 2"
    assert main([*words.split(), "--channels-per-split", "4", "--out", str(trained)]) == 0
    assert json.loads((trained / "metrics.json").read_text())["policy"] == "learned-schedule"
    found = {}
    for policy in ("max", str(trained)):
        out = tmp_path / "front"
        words = [*SMALL[:-1], policy, "--kappa", "0,10", "--seed", "1", "--out", str(out)]
        assert main(words) == 0
        metrics = json.loads((out / "metrics.json").read_text())
        found[policy] = metrics["policies"]["learned-schedule"]
    shipped, own = found.values()
    assert [point["kappa_s_per_j"] for point in own] == [0, 10]
    assert own[1]["energy_j"] < own[0]["energy_j"]
    assert own != shipped


def test_without_a_proof_there_is_no_column_for_it(tmp_path: Path):
    assert main([*SMALL, "--out", str(tmp_path / "run")]) == 0
    assert "gap" not in (tmp_path / "run/schedule.md").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--kappa", "-1"], "kappa: Input should be greater than or equal to 0"),
        (["--delivery", "0"], "delivery: Input should be greater than 0"),
        (["--delivery", "0.5,0.5"], "one for each of the 3 workers"),
        (["--delivery", "0.5", "--budget-s", "1"], "--delivery 1"),
    ],
)
def test_refusals(options, sentence, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([*SMALL, *options, "--out", str(tmp_path / "run")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
