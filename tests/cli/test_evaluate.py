from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from feduplink import (
    FullPower,
    GraphPolicy,
    OpenLoop,
    Orthogonal,
    PerceptronPolicy,
    RandomPower,
    Scenario,
    draw_csi,
    evaluate,
    save_policy,
    set_units,
    write_channels,
)
from feduplink.channels import CSI_DATASET, Realisations, make_channels
from feduplink.policies import judge_policy, make_policy

from .conftest import TINY, Run, metrics_of, refused, results_of
from .own_policies import Half, Median


def judged_names(text: str) -> list[str]:
    """The first words of the rows, which have a margin and end in a verdict."""
    verdicts = ("feasible", "infeasible", "inconclusive", "silent")
    rows = [line for line in text.splitlines() if line.endswith(verdicts) and " ± " in line]
    return [row.split()[0] for row in rows]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Thirty channels of four workers."""
    csi = draw_csi(Scenario(workers=4), 30, torch.Generator().manual_seed(2))
    path = tmp_path / "recorded.h5"
    write_channels(path, Realisations(csi))
    return path


def test_same_as_evaluating_by_hand(run: Run, tmp_path: Path):
    scenario = Scenario(workers=3, csi_noise=4.0)
    learned = GraphPolicy.initialised(scenario, 1)
    save_policy(learned, tmp_path / "learned")
    options = ("--policies", "rand,orth,max,openloop,learned", "--csi-noise", 4, "--seed", 7)
    ended = run("evaluate", *TINY, *options)
    assert ended.status == 0
    splits = make_channels(scenario, 40, seed=7)
    policies = {
        "rand": RandomPower(scenario, seed=7),
        "orth": Orthogonal(scenario),
        "max": FullPower(scenario),
        "openloop": OpenLoop.tuned(scenario, splits.training, seed=7),
        "pdg": learned,
    }
    metrics = metrics_of(tmp_path / "runs/evaluate")
    assert Scenario(**metrics["scenario"]) == scenario
    assert metrics["policies"] == {
        name: judge_policy(policy, splits.test, scenario, seed=7).as_metrics()
        for name, policy in policies.items()
    }
    assert judged_names(ended.out) == list(policies)
    assert ">= 1.01 bit/s/Hz" in ended.out
    assert ">= 14.3 Mbit/J" in ended.out
    assert {path.name for path in (tmp_path / "runs/evaluate").iterdir()} == {
        "metrics.json",
        "comparison.md",
        "comparison.png",
        "comparison.svg",
        "power-histogram.png",
        "power-histogram.svg",
        "result.safetensors",
    }


def test_units_change_what_is_displayed_and_no_file_of_numbers(run: Run, tmp_path: Path):
    options = ("--policies", "max")
    shown = run("evaluate", *TINY, *options, "--out", "shown")
    nats = run("evaluate", *TINY, *options, "--units", "nats", "--out", "nats")
    set_units("engineering")
    assert "Pmax 10 dBm" in shown.out
    assert "rate >= 1.01 bit/s/Hz" in shown.out
    assert "Pmax -20 dBW" in nats.out
    assert "rate >= 0.7 nats/s/Hz" in nats.out
    metrics = results_of(tmp_path / "shown")
    assert metrics == results_of(tmp_path / "nats")
    assert metrics["units"]["rates"] == "nats/s/Hz"


def test_the_command_writes_what_the_call_from_python_writes(run: Run, tmp_path: Path):
    """Also where the verdicts draw further channels."""
    words = ("--workers", 2, "--policies", "max,openloop", "--seed", 3)
    assert run("evaluate", *words).status == 0
    evaluate(Scenario(workers=2), ["max", "openloop"], seed=3).save(tmp_path / "here")
    assert results_of(tmp_path / "here") == results_of(tmp_path / "runs/evaluate")


def test_recorded_channels_bring_their_own_workers(run: Run, tmp_path: Path, recorded: Path):
    thresholds = (0.1, 0.2, 0.3, 0.4)
    options = ("--policies", "max,openloop", "--rate-min", ",".join(map(str, thresholds)))
    ended = run("evaluate", "--channels", recorded, *options)
    assert ended.status == 0
    scenario = Scenario(workers=4, rate_min=thresholds)
    csi = draw_csi(Scenario(workers=4), 30, torch.Generator().manual_seed(2))
    metrics = metrics_of(tmp_path / "runs/evaluate")
    assert metrics["scenario"] == scenario.model_dump(mode="json")
    summary = metrics["channels"].pop("summary")
    assert summary["order"] == "H[n, i, j] (n channel, i receive filter, j transmitter)"
    assert summary["median_snr_db"] == pytest.approx(
        10 * np.median((csi.diagonal(dim1=1, dim2=2) * scenario.pmax_w).log10()), abs=1e-4
    )
    assert metrics["channels"] == {
        "source": f"from {recorded}",
        "count": 10,
        "parts": {"training": 10, "validation": 10, "test": 10},
        "weights": {
            "values": scenario.worker_weights.tolist(),
            "origin": "the paper's draw of data sizes; the recording came without any",
        },
    }
    tuned = OpenLoop.tuned(scenario, csi[0::3])
    assert metrics["policies"]["openloop"] == judge_policy(tuned, csi[2::3], scenario).as_metrics()


def test_options_that_recorded_channels_ignore_are_named(run: Run, recorded: Path):
    ended = run("evaluate", "--policies", "max", "--channels", recorded, "--interference", 2)
    assert ended.status == 0
    assert "interference has no effect" in ended.err
    ended = run(
        "evaluate", "--policies", "max", "--channels", recorded, "--scenario", "interference-x4"
    )
    assert "interference x1" in ended.out
    assert ended.err.count("has no effect") == 1
    assert "interference has no effect" in ended.err


def test_workers_must_fit_the_recorded_channels(run: Run, recorded: Path):
    options = ("evaluate", "--policies", "max", "--channels", recorded, "--workers")
    assert run(*options, 4).status == 0
    assert "4 workers" in refused(run(*options, 5))


def test_policies_of_ones_own_stand_beside_the_others(run: Run, tmp_path: Path):
    own = "cli.own_policies:Half,cli.own_policies:Median"
    ended = run("evaluate", *TINY, "--policies", f"max,{own}")
    assert ended.status == 0
    scenario = Scenario(workers=3)
    splits = make_channels(scenario, 40)
    median = make_policy(Median, scenario, channels=splits)
    expected = {"max": FullPower(scenario), "half": Half(scenario), "median": median}
    assert metrics_of(tmp_path / "runs/evaluate")["policies"] == {
        name: judge_policy(policy, splits.test, scenario).as_metrics()
        for name, policy in expected.items()
    }
    assert judged_names(ended.out) == ["max", "half", "median"]


def test_a_policy_of_ones_own_that_was_saved(run: Run, tmp_path: Path):
    save_policy(Half(Scenario(workers=3)), tmp_path / "saved")
    assert run("evaluate", *TINY, "--policies", "saved").status == 0
    assert list(metrics_of(tmp_path / "runs/evaluate")["policies"]) == ["half"]


def test_a_module_in_the_users_path_is_found(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "lab_policies.py").write_text(
        "from feduplink.policies import FullPower\n\n\nclass Loud(FullPower):\n    name = 'loud'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run("evaluate", *TINY, "--policies", "lab_policies:Loud,max").status == 0
    policies = metrics_of(tmp_path / "runs/evaluate")["policies"]
    assert policies["loud"] == policies["max"]


def test_constraints_of_a_scenario_file_are_judged(run: Run, tmp_path: Path):
    """Half of Pmax is 5 mW on average."""
    (tmp_path / "cell.yaml").write_text(
        "workers: 3\nconstraints:\n- link.own_measures:AveragePower <= 0.004\n- psr >= 0.1\n"
    )
    options = ("--scenario", "cell.yaml", "--policies", "cli.own_policies:Half")
    ended = run("evaluate", "--channels-per-split", 40, *options)
    assert ended.status == 0
    metrics = metrics_of(tmp_path / "runs/evaluate")
    assert metrics["scenario"]["constraints"] == [
        "link.own_measures:AveragePower <= 0.004",
        "psr >= 0.1",
    ]
    half = metrics["policies"]["half"]
    assert half["power_max"] == pytest.approx(0.005)
    assert half["shortfall"] == pytest.approx(0.25)
    assert half["feasible"] is False
    assert 0 < half["psr_min"] <= 1
    assert "<= 0.004" in ended.out


def test_two_policies_of_one_name_stay_apart(run: Run, tmp_path: Path):
    for seed in (1, 2):
        save_policy(GraphPolicy.initialised(Scenario(workers=3), seed), tmp_path / f"run{seed}")
    assert run("evaluate", *TINY, "--policies", "run1,run2").status == 0
    policies = metrics_of(tmp_path / "runs/evaluate")["policies"]
    assert list(policies) == ["pdg", "pdg:run2"]
    assert policies["pdg"] != policies["pdg:run2"]


def test_a_cpu_is_the_device_unless_another_one_is_named(run: Run, tmp_path: Path):
    for directory, options in (("usual", ()), ("named", ("--device", "cpu"))):
        given = ("--policies", "rand,openloop", *options, "--out", directory)
        assert run("evaluate", *TINY, *given).status == 0
    usual, named = (metrics_of(tmp_path / directory) for directory in ("usual", "named"))
    assert usual["policies"] == named["policies"]


def test_another_pmax_is_said_and_never_exceeded(run: Run, tmp_path: Path):
    strong = Scenario(workers=3, pmax_dbw=0)
    save_policy(FullPower(strong), tmp_path / "strong")
    ended = run("evaluate", *TINY, "--policies", "strong")
    assert ended.status == 0
    assert "Pmax 30 dBm (here 10 dBm)" in ended.err
    assert "cut at 10 dBm" in ended.err
    here = Scenario(workers=3)
    expected = judge_policy(FullPower(here), make_channels(here, 40).test, here).as_metrics()
    found = metrics_of(tmp_path / "runs/evaluate")["policies"]["max"]
    assert found.pop("made_for") == {"pmax_dbw": [0.0, -20.0]}
    assert found.pop("feasible") is expected.pop("feasible")
    assert found == pytest.approx(expected, rel=1e-6)
    table = (tmp_path / "runs/evaluate/comparison.md").read_text()
    for text in (ended.out, table):
        assert "max was made for another scenario: Pmax 30 dBm (here 10 dBm)" in text


def test_weights_that_recorded_channels_do_not_bring_are_said(
    run: Run, tmp_path: Path, recorded: Path
):
    for command in (("evaluate", "--policies", "max"), ("optimum", "--budget-s", 0)):
        ended = run(*command, "--channels", recorded)
        assert ended.status == 0
        table = (tmp_path / "runs" / command[0] / "comparison.md").read_text()
        for text in (ended.err, ended.out, table):
            assert "weights are the paper's draw (0.098 to 0.464)" in text
        ended = run(*command, "--channels", recorded, "--weights", "1,2,3,4")
        assert "weights" not in ended.err
        assert "weights" not in metrics_of(tmp_path / "runs" / command[0])["channels"]


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ("rand,moon", ("moon", "rand, rand:unselected, orth, orth:unselected, max", "directory")),
        ("pdg", ("pdg", "feduplink train --policy pdg")),
        (",", ("policies", "accepted")),
        (
            "no_such_module:Mine",
            ("no_such_module:Mine cannot be imported", "package.module:Object"),
        ),
        ("fractions:Fraction", ("Fraction", "a subclass of feduplink.PowerPolicy")),
        ("empty", ("does not exist",)),
        ("foreign.safetensors", ("foreign.safetensors",)),
    ],
)
def test_policies_that_are_not_there(
    run: Run, tmp_path: Path, policies: str, words: tuple[str, ...]
):
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign.safetensors").write_bytes(b"\x00" * 64)
    sentence = refused(run("evaluate", *TINY, "--policies", policies))
    for word in words:
        assert word in sentence
    assert not (tmp_path / "runs").exists()


def test_a_perceptron_for_other_workers(run: Run, tmp_path: Path):
    save_policy(PerceptronPolicy.initialised(Scenario(workers=4)), tmp_path / "four")
    sentence = refused(run("evaluate", *TINY, "--policies", "four"))
    assert "exactly 4 workers" in sentence
    assert "the scenario has 3" in sentence


def _truncated(path: Path, whole: bytes) -> None:
    path.write_bytes(whole[: len(whole) // 2])


def _foreign(path: Path, whole: bytes) -> None:
    path.write_text("time,gain\n0,1\n")


def _with(csi: np.ndarray, path: Path) -> None:
    with h5py.File(path, "w") as file:
        file[CSI_DATASET] = csi.astype(np.float32)


def _not_a_number(path: Path, whole: bytes) -> None:
    _with(np.full((2, 3, 3), np.nan), path)


def _not_square(path: Path, whole: bytes) -> None:
    _with(np.ones((2, 3, 4)), path)


def _negative(path: Path, whole: bytes) -> None:
    _with(-np.ones((2, 3, 3)), path)


@pytest.mark.parametrize("damage", [_truncated, _foreign, _not_a_number, _not_square, _negative])
def test_bad_recordings(run: Run, tmp_path: Path, recorded: Path, damage):
    damage(recorded, recorded.read_bytes())
    sentence = refused(run("evaluate", "--policies", "max", "--channels", recorded))
    assert "recorded.h5" in sentence
    assert not (tmp_path / "runs").exists()
