from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from feduplink import (
    Scenario,
    draw_csi,
    judge,
    load_policy,
    read_channels,
    write_channels,
)
from feduplink.channels import Realisations, make_channels
from feduplink.policies import DualPolicy, judge_policy, shipped_pdx

from .conftest import TINY, Run, metrics_of, refused

_SHORT = (*TINY, "--budget-s", 1)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Forty channels of five workers at two base stations."""
    scenario = Scenario(workers=5, base_stations=2)
    csi = draw_csi(scenario, 40, torch.Generator().manual_seed(2))
    path = tmp_path / "recorded.h5"
    write_channels(path, Realisations(csi))
    return path


def test_what_it_writes(run: Run, tmp_path: Path):
    ended = run("optimum", *_SHORT, "--seed", 3)
    assert ended.status == 0
    directory = tmp_path / "runs/optimum"
    assert {path.name for path in directory.iterdir()} == {
        "metrics.json",
        "allocations.h5",
        "comparison.md",
        "duality.png",
        "duality.svg",
        "policy.safetensors",
        "result.safetensors",
    }
    metrics = metrics_of(directory)
    best = metrics["optimum"]
    assert best["objective"] <= best["upper_bound"]
    assert {"gap", "certified", "rate_min", "energy_efficiency_min"} <= set(best)
    scenario = Scenario(workers=3)
    csi = make_channels(scenario, 40, seed=3).test
    assert best["shortfall"] <= 1e-9
    with h5py.File(directory / "allocations.h5") as file:
        power = torch.from_numpy(file["power"][()])
        verdict = judge(scenario, csi, power)
        assert verdict.objective == pytest.approx(best["objective"])
        assert file["objective"][()].mean() == pytest.approx(best["objective"])
        assert file["upper_bound"][()].mean() >= best["upper_bound"] - 1e-9
        assert "Lagrangian" in file["upper_bound"].attrs["description"]
    policy = load_policy(directory)
    assert policy.name == "dual"
    assert metrics["policies"]["dual"] == judge_policy(policy, csi, scenario).as_metrics()
    assert f"these channels: {best['upper_bound']:.4f} (gap {best['gap']:.4f})" in ended.out
    assert best["stopped"] == ""


@pytest.mark.parametrize("objective", ["psr", "rate", "energy_efficiency"])
def test_recorded_channels_without_constraints(
    run: Run, tmp_path: Path, recorded: Path, objective: str
):
    ended = run(
        "optimum", "--channels", recorded, "--budget-s", 1, "--objective", objective,
        "--weights", "1,2,3,4,5", "--rate-min", 0, "--ee-min", 0,
        "--static-power", 0.02, "--amplifier-inefficiency", 1.5,
    )  # fmt: skip
    assert ended.status == 0
    assert "13 of the 40 channels from" in ended.out
    metrics = metrics_of(tmp_path / "runs/optimum")
    assert metrics["scenario"]["static_power_w"] == 0.02
    assert metrics["scenario"]["amplifier_inefficiency"] == 1.5
    assert metrics["channels"]["count"] == 13
    assert np.allclose(metrics["optimum"]["multipliers"], 0)
    with h5py.File(tmp_path / "runs/optimum/allocations.h5") as file:
        assert file["power"].shape == (13, 5)
        assert (file["objective"][()] <= file["upper_bound"][()] + 1e-9).all()


def test_the_optimum_of_a_whole_file_has_that_of_its_test_part_in_place(
    run: Run, tmp_path: Path, recorded: Path
):
    """Without constraints every channel stands for itself."""
    words = ("optimum", "--channels", recorded, "--budget-s", 0, "--rate-min", 0, "--ee-min", 0)
    assert run(*words, "--out", "part").status == 0
    ended = run(*words, "--whole-file", "--out", "whole")
    assert ended.status == 0
    assert "40 of the 40 channels from" in ended.out
    assert metrics_of(tmp_path / "whole")["channels"]["count"] == 40
    assert "that of all 40 channels" in (tmp_path / "whole/comparison.md").read_text()
    bounds = {}
    for name in ("part", "whole"):
        with h5py.File(tmp_path / name / "allocations.h5") as file:
            bounds[name] = file["upper_bound"][()]
    np.testing.assert_allclose(bounds["whole"][2::3], bounds["part"])


def test_a_statement_for_the_distribution(run: Run, tmp_path: Path, recorded: Path):
    ended = run("optimum", *_SHORT, "--confidence", 0.9)
    assert ended.status == 0
    assert "With 0.9 confidence" in ended.out
    metrics = metrics_of(tmp_path / "runs/optimum")
    assert metrics["distribution"]["upper_bound"] > metrics["optimum"]["upper_bound"]
    ended = run("optimum", "--channels", recorded, "--budget-s", 1, "--confidence", 0.9)
    assert "independent draws" in ended.out


def test_thresholds_that_shut_some_workers_out_are_said(run: Run):
    ended = run("optimum", *_SHORT, "--rate-min", "30,0.5,0.5")
    assert ended.status == 0
    assert "worker 1: rate of 30 is out of reach" in ended.err
    assert "short" in ended.err


def test_thresholds_that_shut_everyone_out_are_refused(run: Run, tmp_path: Path):
    sentence = refused(run("optimum", *_SHORT, "--ee-min", 900_000))
    assert "no worker can ever transmit" in sentence
    assert "energy_efficiency of 900000" in sentence
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget-s", "-1"), ("budget_s", "greater than or equal to 0")),
        (("--budget-s", "nan"), ("budget_s",)),
        (("--confidence", "1"), ("confidence", "less than 1")),
        (("--channels", "nowhere.h5"), ("nowhere.h5",)),
        (("--whole-file",), ("whole-file", "--channels FILE")),
        (("--confidence", "0.9", "--channels-per-split", 1), ("confidence", "2 or more")),
        (("--weights", "1,2"), ("weights", "2 entries")),
        (("--certificate", "."), ("certificate", "is a directory")),
    ],
)
def test_bad_options(run: Run, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]):
    sentence = refused(run("optimum", *TINY, *options))
    for word in words:
        assert word in sentence
    assert not (tmp_path / "runs").exists()


def test_evaluate_shows_the_distance_to_the_optimum(run: Run, tmp_path: Path):
    ended = run("evaluate", *TINY, "--policies", "max,openloop", "--optimum", "--budget-s", 1)
    assert ended.status == 0
    assert "gap" in ended.out
    assert "optimum" in ended.out
    metrics = metrics_of(tmp_path / "runs/evaluate")
    assert set(metrics["policies"]) == {"max", "openloop"}
    assert metrics["optimum"]["upper_bound"] >= metrics["optimum"]["objective"]
    text = (tmp_path / "runs/evaluate/comparison.md").read_text()
    assert "| optimum |" in text
    assert "| objective | gap |" in text
    best = metrics["optimum"]["objective"]
    for name, figures in metrics["policies"].items():
        below = metrics["below_optimum"][name]
        if figures["shortfall"] > 1e-9:
            assert below is None
        else:
            assert below == pytest.approx(best - figures["objective"])
            assert below >= 0


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_not_under_the_dual_policy(run: Run, tmp_path: Path, seed: int):
    """On channels that both know, without constraints that only one of them might meet."""
    csi = draw_csi(Scenario(workers=5), 20, torch.Generator().manual_seed(seed))
    write_channels(tmp_path / "few.h5", Realisations(csi))
    options = ("--objective", "rate", "--weights", "ones", "--rate-min", 0, "--ee-min", 0)
    assert run("optimum", "--channels", "few.h5", "--budget-s", 0, *options).status == 0
    metrics = metrics_of(tmp_path / "runs/optimum")
    assert metrics["below_optimum"]["dual"] >= 0
    assert metrics["policies"]["dual"]["objective"] <= metrics["optimum"]["objective"]
    assert metrics["optimum"]["objective"] <= metrics["optimum"]["upper_bound"]


@pytest.mark.parametrize(
    "command",
    [
        ("optimum", "--budget-s", 0),
        pytest.param(("evaluate", "--optimum", "--budget-s", 0), marks=pytest.mark.slow),
    ],
)
def test_a_worker_that_is_never_heard_is_no_reason_to_fail(
    run: Run, tmp_path: Path, command: tuple[str | int, ...]
):
    """Proportional fairness is then −∞: there is a bound, but no gap, and nothing is certified."""
    fair = ("--utility", "proportional-fairness", "--rate-min", "30,0,0", "--ee-min", 0)
    ended = run(*command, *TINY, *fair)
    assert ended.status == 0
    best = metrics_of(tmp_path / "runs" / str(command[0]))["optimum"]
    assert best["objective"] is None
    assert best["gap"] is None
    assert best["certified"] is False
    assert "none was found that lets every worker be heard" in " ".join(ended.out.split())


@pytest.mark.parametrize(("name", "learn"), [("dual", DualPolicy.learned), ("pdx", shipped_pdx)])
def test_evaluate_learns_multipliers_on_the_training_part_alone(
    run: Run, tmp_path: Path, recorded: Path, name: str, learn
):
    ended = run("evaluate", "--channels", recorded, "--policies", name, "--ee-min", 20)
    assert ended.status == 0
    csi, scenario = read_channels(recorded).csi, Scenario(workers=5, ee_min=20)
    expected = judge_policy(learn(scenario, csi[0::3]), csi[2::3], scenario).as_metrics()
    found = metrics_of(tmp_path / "runs/evaluate")["policies"][name]
    found.pop("made_for", None)  # few channels: it aims far above the thresholds
    assert found == expected
