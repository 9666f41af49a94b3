"""Drawn by a model of one's own, or recorded: the same channels in all commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from channels import toy_models
from feduplink import (
    FullPower,
    GraphPolicy,
    OpenLoop,
    PrimalDualLearning,
    Scenario,
    Trainer,
    draw_csi,
    read_channels,
    save_policy,
    write_channels,
)
from feduplink.channels import Realisations, make_channels, resample_csi
from feduplink.federated import Federation, FederationSettings, load_task
from feduplink.policies import judge_policy
from feduplink.randomness import torch_generator
from feduplink.training import Preset
from splits import split_channels

from .conftest import TINY, Run, metrics_of, refused, results_of


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


#: A registered name, and the object by its module.
TOYS = ("toy", f"{toy_models.__name__}:Exponential")

#: Every command that draws channels, as short as it gets.
COMMANDS = {
    "channels": ("channels", "--count", 5, "--workers", 3),
    "train": ("train", "--policy", "pdg", *TINY, "--epochs", 1),
    "evaluate": ("evaluate", *TINY, "--policies", "max,openloop"),
    "optimum": ("optimum", *TINY, "--budget-s", 0, "--rate-min", 0, "--ee-min", 0),
    "federate": ("federate", "--task", "digits", "--workers", 3, "--rounds", 2,
                 "--policies", "max,openloop"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDUPLINK_DATA", raising=False)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Thirty channels of four workers."""
    csi = draw_csi(Scenario(workers=4), 30, torch.Generator().manual_seed(2))
    write_channels(tmp_path / "recorded.h5", Realisations(csi))
    return tmp_path / "recorded.h5"


@pytest.mark.parametrize(
    "model", [TOYS[0], *(pytest.param(toy, marks=pytest.mark.slow) for toy in TOYS[1:])]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_draws_from_a_model_of_ones_own(
    run: Run, tmp_path: Path, command: str, model: str
):
    ended = run(*COMMANDS[command], "--channel-model", model)
    assert ended.status == 0, ended.err
    metrics = metrics_of(tmp_path / "runs" / command)
    assert metrics["scenario"]["channel_model"] == model
    scenario = Scenario(workers=3, channel_model=model)
    if command == "channels":
        expected = draw_csi(scenario, 5, torch_generator(0, "test-channels"))
        assert read_channels(tmp_path / "runs/channels/channels.h5").csi.equal(expected)
    elif command == "evaluate":
        test = make_channels(scenario, 40).test
        expected = judge_policy(FullPower(scenario), test, scenario).as_metrics()
        assert metrics["policies"]["max"] == expected
    elif command == "federate":
        policies = {"max": FullPower(scenario)}
        task, settings = load_task("digits", workers=3), FederationSettings(rounds=2)
        history = Federation(task, policies, scenario, settings).run()
        found = metrics["policies"]["max"]["runs"][0]
        assert found["airtime_s"] == list(history.policies["max"][0].airtime_s)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (f"{toy_models.__name__}:NotANumber", "NotANumber: csi: contains NaN"),
        (f"{toy_models.__name__}:Missing", "no attribute 'Missing'"),
        ("toi", "did you mean toy?"),
    ],
)
def test_a_model_that_does_not_work_is_refused_by_name(
    run: Run, tmp_path: Path, command: str, model: str, reason: str
):
    sentence = refused(run(*COMMANDS[command], "--channel-model", model))
    assert sentence.startswith("feduplink: channel_model: ")
    assert reason in sentence
    assert not list(tmp_path.iterdir())


def test_antenna_coefficients_that_a_model_does_not_draw(run: Run, tmp_path: Path):
    words = (*COMMANDS["channels"], "--channel-model", "toy", "--antenna-coefficients")
    assert "toy has no antenna coefficients" in refused(run(*words))
    assert not list(tmp_path.iterdir())


def test_training_on_recorded_channels_is_that_by_hand(run: Run, tmp_path: Path, recorded: Path):
    words = ("train", "--policy", "pdg", "--channels", recorded, "--epochs", 3, "--weights", "ones")
    ended = run(*words)
    assert ended.status == 0
    csi, scenario = read_channels(recorded).csi, Scenario(workers=4, weights="ones")
    policy = GraphPolicy.initialised(scenario, 0)
    data = split_channels(csi[0::3], csi[1::3])
    settings = Preset.for_policy(GraphPolicy).settings.replace(epochs=3)
    best = Trainer(PrimalDualLearning(policy, data, settings)).run()
    metrics = metrics_of(tmp_path / "runs/train")
    assert metrics["best_epoch"] == best.number + 1
    assert metrics["validation"] == judge_policy(policy, csi[1::3], scenario).as_metrics()
    assert metrics["test"] == judge_policy(policy, csi[2::3], scenario).as_metrics()
    assert metrics["channels"]["parts"] == {"training": 10, "validation": 10, "test": 10}
    assert "channels_per_split" not in metrics
    table = (tmp_path / "runs/train/comparison.md").read_text()
    for text in (ended.out, table):
        assert "split in turns: 10 to train and tune on, 10 for validation, 10 for" in text
    another = draw_csi(Scenario(workers=4), 30, torch.Generator().manual_seed(3))
    write_channels(recorded, Realisations(another))
    assert "another channel set" in refused(run(*words, "--resume"))


def test_pdx_learns_on_the_training_part(run: Run, tmp_path: Path, recorded: Path):
    words = ("train", "--policy", "pdx", "--channels", recorded, "--weights", "ones",
             "--steps", 100, "--batch-size", 4)  # fmt: skip
    assert run(*words).status == 0
    before = results_of(tmp_path / "runs/train")
    assert before["channels"]["parts"]["training"] == 10
    # Other channels for validation change nothing; other ones for training are another run.
    csi = read_channels(recorded).csi
    csi[1::3] *= 2
    write_channels(recorded, Realisations(csi))
    assert run(*words, "--out", "same").status == 0
    assert results_of(tmp_path / "same")["test"] == before["test"]
    csi[0::3] *= 2
    write_channels(recorded, Realisations(csi))
    assert "another curriculum (recorded)" in refused(run(*words, "--resume"))


def test_pdx_of_drawn_channels_draws_those_of_its_multipliers(run: Run, tmp_path):
    cell = ("--channel-model", "toy", "--workers", 1, "--channels-per-split", 40)
    assert run("train", "--policy", "pdx", *cell, "--steps", 100, "--batch-size", 4).status == 0
    assert metrics_of(tmp_path / "runs/train")["channels_per_split"] == 40


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("train", "--policy", "pdg", "--fresh-channels"), "fresh_channels: the channels are rec"),
        (("federate", "--rounds", 11), "channels: 10 recorded for 11 rounds of all runs; accepted"),
        (("federate", "--rounds", 6, "--runs", 2), "10 recorded for 12 rounds of all runs"),
        (("federate", "--workers", 5), "contains channels of 4 workers"),
    ],
)
def test_what_a_recording_does_not_have_is_refused(
    run: Run, tmp_path: Path, recorded: Path, words: tuple, reason: str
):
    ended = run(*words, "--channels", recorded, "--weights", "ones")
    assert reason in refused(ended)
    assert list(tmp_path.iterdir()) == [recorded]


@pytest.mark.parametrize("command", ["train", "evaluate", "optimum", "federate"])
def test_too_few_channels_for_three_parts(run: Run, tmp_path: Path, command: str):
    csi = draw_csi(Scenario(workers=3), 2, torch.Generator().manual_seed(2))
    write_channels(tmp_path / "two.h5", Realisations(csi))
    sentence = refused(run(*COMMANDS[command], "--channels", "two.h5"))
    assert "channels: 2 recorded; accepted: 3 or more" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["two.h5"]


def test_the_rounds_of_a_federation_are_the_test_channels(run: Run, tmp_path: Path, recorded: Path):
    words = ("federate", "--channels", recorded, "--rounds", 5, "--runs", 2)
    ended = run(*words, "--policies", "max,openloop")
    assert ended.status == 0
    assert ended.err == ""  # the task's data is that of the weights
    csi, scenario = read_channels(recorded).csi, Scenario(workers=4)
    policies = {"max": FullPower(scenario), "openloop": OpenLoop.tuned(scenario, csi[0::3])}
    task, settings = load_task("digits", workers=4), FederationSettings(runs=2, rounds=5)
    history = Federation(task, policies, scenario, settings, recorded=csi[2::3]).run()
    metrics = metrics_of(tmp_path / "runs/federate")
    assert metrics["channels"]["parts"]["test"] == 10
    assert metrics["channels"]["resampled"] is False
    for name, runs in history.policies.items():
        for expected, found in zip(runs, metrics["policies"][name]["runs"], strict=True):
            assert found["airtime_s"] == list(expected.airtime_s)
            assert found["error"] == list(expected.error)
    table = (tmp_path / "runs/federate/federated.md").read_text()
    for text in (ended.out, table):
        assert "10 to train and tune on, 10 for validation, 10 for the test" in text
        assert "the channels of the rounds are those for the test, in their order" in text


def test_more_rounds_than_channels_are_drawn_with_replacement(
    run: Run, tmp_path: Path, recorded: Path
):
    words = ("federate", "--channels", recorded, "--rounds", 12, "--resample-channels")
    ended = run(*words, "--policies", "max", "--seed", 3)
    assert ended.status == 0
    assert "drawn with replacement" in ended.out
    drawn = resample_csi(read_channels(recorded).csi[2::3], 12, seed=3)
    times = metrics_of(tmp_path / "runs/federate")["policies"]["max"]["runs"][0]["airtime_s"]
    # Under full power the time of a round tells its channel.
    same = [[torch.equal(a, b) for a in drawn] for b in drawn]
    assert [[a == b for a in times] for b in times] == same
    again = draw_csi(Scenario(workers=4), 30, torch.Generator().manual_seed(3))
    write_channels(recorded, Realisations(again))
    sentence = refused(run(*words, "--policies", "max", "--seed", 3, "--resume"))
    assert "another channel set" in sentence


def test_resampling_needs_a_recording(run: Run, tmp_path: Path):
    words = (*COMMANDS["federate"], "--resample-channels")
    assert "resample-channels: accepted only with --channels" in refused(run(*words))
    assert not list(tmp_path.iterdir())


def test_how_a_saved_policys_channels_were_drawn_does_not_matter_to_recorded_ones(
    run: Run, tmp_path: Path, recorded: Path
):
    save_policy(FullPower(Scenario(workers=4, channel_model="toy")), tmp_path / "saved")
    words = ("federate", "--rounds", 2, "--policies", "saved")
    assert run(*words, "--channels", recorded).err == ""
    assert "channel_model toy (here wbs)" in run(*words, "--workers", 4, "--out", "drawn").err


def matlab_file(directory: Path) -> None:
    """Thirty channels of three workers, transposed and not divided by the noise power."""
    csi = draw_csi(Scenario(workers=3), 30, torch.Generator().manual_seed(2)).double().numpy()
    savemat(directory / "cell.mat", {"H": 1e-13 * csi.swapaxes(1, 2), "x": np.ones((4, 2))})


@pytest.mark.parametrize("command", ["train", "evaluate", "optimum", "federate", "schedule"])
def test_channels_of_matlab(run: Run, tmp_path: Path, command: str):
    matlab_file(tmp_path)
    schedule = {"schedule": ("schedule", "--kappa", 0, "--policies", "max")}
    words = {**COMMANDS, **schedule}[command]
    file = ("--channels", "cell.mat:H", "--noise-power", 1e-13, "--transpose")
    ended = run(*words, *file, "--weights", "uniform")
    assert ended.status == 0
    assert ended.err == ""
    printed = " ".join(ended.out.split())
    assert "30 channels of 3 workers, H[n, j, i]" in printed
    assert "divided by 1e-13 W; median SNR at Pmax" in printed
    summary = metrics_of(tmp_path / "runs" / command)["channels"]["summary"]
    assert summary["order"].startswith("H[n, j, i]")


def test_channels_of_matlab_as_they_are_lead_to_warnings(run: Run, tmp_path: Path):
    matlab_file(tmp_path)
    words = ("evaluate", "--channels", "cell.mat", "--weights", "uniform", "--policies", "max")
    ended = run(*words)
    assert ended.status == 0
    assert "H looks transposed" in ended.err
    assert "median SNR at Pmax is -1" in ended.err
    assert ended.err.count("\n") == 2


def test_options_of_recordings_need_one(run: Run):
    sentence = refused(run("evaluate", *TINY, "--noise-power", 1e-13))
    assert "noise-power-w: accepted only with --channels FILE" in sentence
    assert "transpose: accepted only" in refused(run("federate", "--transpose"))
    assert "transpose: accepted only" in refused(run("check", "proof.h5", "--transpose"))


def test_the_proof_of_channels_of_matlab_is_about_these(run: Run, tmp_path: Path):
    matlab_file(tmp_path)
    file = ("--channels", "cell.mat", "--noise-power", 1e-13, "--transpose")
    words = (*COMMANDS["optimum"], "--weights", "uniform", "--certificate", "proof.h5")
    assert run(*words, *file).status == 0
    assert run("check", "proof.h5", *file).status == 0
    sentence = refused(run("check", "proof.h5", *file[:2], "--transpose"))
    assert "cell.mat contains other channels than the proof" in sentence


def test_a_file_with_one_channel_is_solved_as_a_whole(run: Run, tmp_path: Path):
    csi = draw_csi(Scenario(workers=3), 1, torch.Generator().manual_seed(2)).numpy()
    np.save(tmp_path / "one.npy", csi[0])
    words = (*COMMANDS["optimum"], "--channels", "one.npy", "--weights", "uniform")
    ended = run(*words, "--whole-file")
    assert ended.status == 0
    assert "1 channel of 3 workers, H[i, j]" in ended.out
    assert "1 recorded; accepted: 3 or more" in refused(run(*words))
