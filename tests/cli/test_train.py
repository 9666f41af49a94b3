from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from feduplink import Scenario, TrainingSettings, load_policy, make_trainer
from feduplink.channels import make_channels
from feduplink.policies import GraphPolicy, judge_policy
from feduplink.progress import Callback, Step, Work, report_to
from feduplink.training import Preset, Trainer

from .conftest import TINY, Run, metrics_of, refused, results_of

PDX = ("--policy", "pdx", "--workers", 2, "--steps", 200, "--batch-size", 4)
QUICK = (*TINY, "--epochs", 4, "--batch-size", 20, "--checkpoint-every", 2)


@pytest.mark.parametrize("policy", ["pdg", "pdm"])
def test_same_as_training_by_hand(run: Run, tmp_path: Path, policy: str):
    assert run("train", "--policy", policy, *QUICK, "--seed", 3).status == 0
    directory = tmp_path / "runs/train"
    names = {path.name for path in directory.iterdir()}
    assert names == {
        "policy.safetensors",
        "result.safetensors",
        "checkpoint.safetensors",
        "history.csv",
        "comparison.md",
        "convergence.png",
        "convergence.svg",
        "power-histogram.png",
        "power-histogram.svg",
        "metrics.json",
    }

    scenario = Scenario(workers=3)
    splits = make_channels(scenario, 40, seed=3)
    options = {"epochs": 4, "batch_size": 20, "checkpoint_every": 2}
    trainer = make_trainer(policy, scenario, splits, seed=3, **options)
    best, expected = trainer.run(), trainer.trained()
    trained = load_policy(directory)
    for name, tensor in expected.tensors().items():
        torch.testing.assert_close(trained.tensors()[name], tensor, rtol=0, atol=0)

    metrics = metrics_of(directory)
    assert metrics["policy"] == policy
    assert metrics["epochs"] == 4
    assert metrics["best_epoch"] == best.number + 1
    settings = Preset.for_policy(type(expected)).settings.replace(**options)
    assert TrainingSettings(**metrics["settings"]) == settings
    for split in ("validation", "test"):
        verdict = judge_policy(expected, getattr(splits, split), scenario, seed=3)
        assert metrics[split] == verdict.as_metrics()
    rows = list(csv.DictReader((directory / "history.csv").open()))
    assert len(rows) == 4
    assert rows[best.number]["objective"] == f"{best.objective:.6g}"


def test_a_policy_of_ones_own_is_trained_and_evaluated(run: Run, tmp_path: Path):
    own = ("train", "--policy", "cli.own_policies:Constant", *QUICK)
    assert run(*own, "--learning-rate", 0.1).status == 0
    trained = load_policy(tmp_path / "runs/train")
    assert trained.name == "constant"
    assert trained.logit.item() != 0
    metrics = metrics_of(tmp_path / "runs/train")
    assert metrics["policy"] == "constant"
    test = make_channels(Scenario(workers=3), 40).test
    assert metrics["test"] == judge_policy(trained, test, Scenario(workers=3)).as_metrics()
    assert run("evaluate", *TINY, "--policies", "runs/train").status == 0
    assert list(metrics_of(tmp_path / "runs/evaluate")["policies"]) == ["constant"]


def test_a_constraint_of_ones_own_is_trained_for(run: Run, tmp_path: Path):
    (tmp_path / "cell.yaml").write_text("constraints: link.own_measures:AveragePower <= 0.004\n")
    own = ("train", "--policy", "pdg", *QUICK, "--scenario", "cell.yaml")
    assert run(*own).status == 0
    rows = list(csv.DictReader((tmp_path / "runs/train/history.csv").open()))
    assert {"power_1", "power_2", "power_3"} < set(rows[0])
    assert "power_max" in metrics_of(tmp_path / "runs/train")["test"]


def test_preset_of_the_paper_with_an_option_of_ones_own(run: Run, tmp_path: Path):
    paper = ("train", "--policy", "pdg", "--preset", "paper", *QUICK)
    assert run(*paper, "--margin", 0.1, "--bias", "--out", "paper").status == 0
    metrics = metrics_of(tmp_path / "paper")
    expected = Preset.for_policy(GraphPolicy, "paper").settings.replace(
        margin=0.1, epochs=4, batch_size=20, checkpoint_every=2
    )
    assert TrainingSettings(**metrics["settings"]) == expected
    architecture = {"silence_w": 1e-20, "transposed_graph": False, "bias": True}
    assert metrics["architecture"] == architecture
    assert load_policy(tmp_path / "paper").architecture.model_dump() == architecture
    sentence = refused(run(*paper, "--margin", 0.1, "--out", "paper", "--resume"))
    assert "another architecture (bias)" in sentence


class Interrupt(Callback):
    """Ctrl-C after an epoch, or a hundred steps of pdx."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_step(self, work: Work, step: Step) -> None:
        if isinstance(work.source, Trainer) and step.done == self.after:
            raise KeyboardInterrupt


def test_interrupted_and_resumed_is_the_same_as_undisturbed(run: Run, tmp_path: Path):
    assert run("train", "--policy", "pdg", *QUICK, "--out", "whole").status == 0
    with report_to(Interrupt(after=3)):
        ended = run("train", "--policy", "pdg", *QUICK, "--out", "parts")
    assert ended.status == 130
    assert "--resume" in ended.err
    assert not (tmp_path / "parts/metrics.json").exists()

    assert run("train", "--policy", "pdg", *QUICK, "--out", "parts", "--resume").status == 0
    assert results_of(tmp_path / "parts") == results_of(tmp_path / "whole")
    for name in ("policy.safetensors", "history.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_interrupt_before_the_first_checkpoint_promises_nothing(run: Run):
    with report_to(Interrupt(after=1)):
        ended = run("train", "--policy", "pdg", *QUICK)
    assert ended.status == 130
    assert "No checkpoint has been written yet" in ended.err


def test_thresholds_that_shut_everybody_out_are_refused(run: Run, tmp_path: Path):
    sentence = refused(run("train", "--policy", "pdg", *QUICK, "--rate-min", 30))
    assert "no worker can ever transmit" in sentence
    assert not list(tmp_path.iterdir())


def test_thresholds_that_shut_some_workers_out_are_said(run: Run):
    ended = run("train", "--policy", "pdg", *QUICK, "--rate-min", "30,0.5,0.5")
    assert ended.status == 0
    assert ended.err.startswith("feduplink: warning: thresholds: worker 1: rate of 30 is out of")
    assert ended.err.count("\n") == 1


def test_an_existing_run_is_not_overwritten(run: Run, tmp_path: Path):
    assert run("train", "--policy", "pdg", *QUICK).status == 0
    before = {path: path.read_bytes() for path in (tmp_path / "runs/train").iterdir()}
    assert "--resume" in refused(run("train", "--policy", "pdm", *QUICK))
    assert {path: path.read_bytes() for path in (tmp_path / "runs/train").iterdir()} == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("--policy", "pdm"), "policy"),
        (("--pmax-dbw", -30), "scenario (pmax_dbw)"),
        (("--batch-size", 7), "settings (batch_size)"),
        (("--seed", 1), "seed"),
        (("--channels-per-split", 41), "channel set"),
    ],
)
def test_resume_only_what_was_started(run: Run, tmp_path: Path, change: tuple, named: str):
    assert run("train", "--policy", "pdg", *QUICK).status == 0
    before = {path: path.read_bytes() for path in (tmp_path / "runs/train").iterdir()}
    sentence = refused(run("train", "--policy", "pdg", *QUICK, *change, "--resume"))
    assert f"another {named}" in sentence
    assert {path: path.read_bytes() for path in (tmp_path / "runs/train").iterdir()} == before


def test_a_finished_run_can_have_more_epochs(run: Run, tmp_path: Path):
    assert run("train", "--policy", "pdg", *QUICK).status == 0
    assert run("train", "--policy", "pdg", *QUICK, "--epochs", 5, "--resume").status == 0
    assert run("train", "--policy", "pdg", *QUICK, "--epochs", 5, "--out", "whole").status == 0
    histories = [(tmp_path / name / "history.csv").read_text() for name in ("runs/train", "whole")]
    assert histories[0] == histories[1]
    assert histories[0].count("\n") == 6


def test_resume_needs_a_checkpoint_of_ours(run: Run, tmp_path: Path):
    assert "does not exist" in refused(run("train", "--policy", "pdg", *QUICK, "--resume"))
    directory = tmp_path / "runs/train"
    directory.mkdir(parents=True)
    (directory / "checkpoint.safetensors").write_bytes(b"something else entirely")
    assert "checkpoint" in refused(run("train", "--policy", "pdg", *QUICK, "--resume"))
    assert [path.name for path in directory.iterdir()] == ["checkpoint.safetensors"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (
            ("--policy", "rand"),
            "rand cannot be trained; accepted: pdm, pdg, pdx, learned-schedule, or a subclass",
        ),
        (("--policy", "pdgg"), "did you mean pdg?"),
        ((), "--policy"),
        (("--policy", "pdg", "--epochs", 0), "epochs"),
        (("--policy", "pdg", "--learning-rate", "nan"), "learning_rate"),
        (("--policy", "pdg", "--margin", 2), "margin"),
        (("--policy", "pdm", "--no-bias"), "bias: pdm has no such training option"),
        (("--policy", "pdm", "--subset-workers", 4), "subset_workers: pdm takes exactly 8"),
        (("--policy", "pdg", "--subset-workers", 9), "subset_workers: 9 of 8 workers"),
        (("--policy", "pdg", "--preset", "theirs"), "paper"),
        (("--policy", "pdx", "--preset", "paper"), "preset: pdx has no such training option"),
        (("--policy", "pdx", "--no-bias"), "bias: pdx has no such training option"),
        (("--policy", "pdg", "--channels-per-split", 0), "channels_per_split"),
    ],
)
def test_bad_settings(run: Run, tmp_path: Path, options: tuple, word: str):
    assert word in refused(run("train", *options))
    assert list(tmp_path.iterdir()) == []


def test_tensorboard(run: Run, tmp_path: Path):
    pytest.importorskip("tensorboard")
    assert run("train", "--policy", "pdg", *QUICK, "--tensorboard").status == 0
    assert list((tmp_path / "runs/train/tensorboard").glob("events*"))


@pytest.mark.parametrize("policy", ["pdg", "pdm", "pdx"])
def test_a_device_that_is_not_there_is_refused(run: Run, tmp_path: Path, policy: str):
    sentence = refused(run("train", "--policy", policy, *TINY, "--device", "cuda:99"))
    assert "device: 'cuda:99' is not on this machine; accepted here: cpu." in sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", [("--steps", 500), ("--everything",)])
def test_options_of_pdx_are_refused(run: Run, tmp_path: Path, option: tuple):
    assert "pdg has no such training option" in refused(
        run("train", "--policy", "pdg", *QUICK, *option)
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_pdx_interrupted_and_resumed_is_the_same_as_undisturbed(run: Run, tmp_path: Path):
    assert run("train", *PDX, "--out", "whole").status == 0
    assert metrics_of(tmp_path / "whole")["settings"]["steps"] == 200
    with report_to(Interrupt(after=100)):
        ended = run("train", *PDX, "--out", "parts")
    assert ended.status == 130
    assert "--resume" in ended.err
    assert not (tmp_path / "parts/metrics.json").exists()

    assert "--resume" in refused(run("train", *PDX, "--out", "parts"))
    assert run("train", *PDX, "--out", "parts", "--resume").status == 0
    assert results_of(tmp_path / "parts") == results_of(tmp_path / "whole")
    parts, whole = (tmp_path / name / "policy.safetensors" for name in ("parts", "whole"))
    assert parts.read_bytes() == whole.read_bytes()


def test_options_of_the_others_are_refused(run: Run, tmp_path: Path):
    assert "epochs: pdx has no such" in refused(run("train", *PDX, "--epochs", 3))
    assert list(tmp_path.iterdir()) == []
