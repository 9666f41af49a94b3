"""``--config FILE`` and ``--print-config`` of every command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from feduplink import Scenario
from feduplink.channels import draw_channels, write_channels
from feduplink.cli.commands import COMMANDS
from feduplink.registry import CHANNEL_MODELS

from .conftest import TINY, Run, metrics_of, refused, results_of

#: Words that a command needs, or that are not printed as they are given.
WORDS = {
    "train": ("--policy", "pdg", "--epochs", 3, "--bias"),
    "check": ("proof.h5",),
    "federate": ("--task", "digits", "--delivery", "0.5", "--import", "csv"),
    "sweep": ("--vary", "interference", 1, 2, "--", "evaluate", "--policies", "max"),
    "reproduce": ("arrivals", "--quick"),
    "report": ("runs", "others"),
    "evaluate": ("--policies", "max,rand", "--workers", 3, "--time-max-s", 7),
    "channels": ("--coherence-time-s", "none", "--out", "here"),
}


def printed(run: Run, *words: object) -> str:
    ended = run(*words, "--print-config")
    assert ended.status == 0, ended.err
    return ended.out


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_what_is_printed_is_read_back(run: Run, tmp_path: Path, command: str):
    first, *words = WORDS.get(command, ()) or ("--seed", 3)
    once = printed(run, command, "--print-config", first, *words) if "--" in words else ""
    once = once or printed(run, command, first, *words)
    (tmp_path / "config.yaml").write_text(once)
    assert printed(run, command, "--config", "config.yaml") == once
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_a_command_runs_as_its_configuration_says(run: Run, tmp_path: Path):
    words = ("evaluate", "--policies", "max,openloop", *TINY, "--seed", 5, "--out", "here")
    (tmp_path / "config.yaml").write_text(printed(run, *words))
    assert run(*words).status == 0
    assert run("evaluate", "--config", "config.yaml", "--out", "again").status == 0
    assert results_of(tmp_path / "again") == results_of(tmp_path / "here")
    assert run("evaluate", "--config", "config.yaml").status == 0  # into the directory it names
    assert not (tmp_path / "runs").exists()


def test_options_override_the_configuration(run: Run, tmp_path: Path):
    (tmp_path / "config.yaml").write_text(
        "scenario: {workers: 2, pmax_dbw: -30, coherence_time_s: 2, geometry: kept}\ncount: 5\n"
    )
    own = ("channels", "--config", "config.yaml", "--pmax-dbw", -10, "--count", 2)
    assert run(*own, "--coherence-time-s", "none").status == 0
    metrics = metrics_of(tmp_path / "runs/channels")
    assert metrics["count"] == 2
    expected = Scenario(workers=2, pmax_dbw=-10, geometry="kept")
    assert metrics["scenario"] == expected.model_dump(mode="json")


def test_a_scenario_of_the_command_line_replaces_that_of_the_configuration(
    run: Run, tmp_path: Path
):
    (tmp_path / "config.yaml").write_text("scenario: {interference: 3}\n")
    text = printed(run, "channels", "--config", "config.yaml", "--scenario", "interference-x2")
    fields = yaml.safe_load(text)["scenario"]
    assert Scenario(**fields) == Scenario.load("interference-x2")


def test_recorded_channels_say_how_many_workers_there_are(run: Run, tmp_path: Path, generator):
    write_channels(tmp_path / "h.h5", draw_channels(Scenario(workers=3), 6, generator))
    text = printed(run, "evaluate", "--channels", "h.h5", "--policies", "max")
    content = yaml.safe_load(text)
    assert (content["scenario"]["workers"], content["channels"]) == (3, "h.h5")
    assert "weights" not in content["scenario"]  # assumed, and said so, if they are not given


def test_modules_are_imported_before_the_scenario_is_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "registering_model.py").write_text(
        "from channels.toy_models import Exponential\n"
        "from feduplink.registry import CHANNEL_MODELS\n"
        "CHANNEL_MODELS.register('mine', Exponential)\n"
    )
    words = ("channels", "--count", 2, "--channel-model", "mine", "--import", "registering_model")
    (tmp_path / "config.yaml").write_text(printed(run, *words))
    CHANNEL_MODELS.unregister("mine")  # as in a new process
    monkeypatch.delitem(sys.modules, "registering_model")
    assert run("channels", "--config", "config.yaml").status == 0
    CHANNEL_MODELS.unregister("mine")
    assert metrics_of(tmp_path / "runs/channels")["scenario"]["channel_model"] == "mine"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("polices: max", "config: polices: no such option, did you mean policies?"),
        ("- max", "config: config.yaml must hold a mapping"),
        ("seed: [", "config: config.yaml is not YAML"),
        ("seed: one", "seed: Input should be a valid integer"),
        ("scenario: moon", "scenario: 'moon' is unknown"),
        ("scenario: 5", "scenario: '5' is unknown"),
        ("scenario: {wrokers: 5}", "wrokers: no such field, did you mean workers?"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(
    run: Run, tmp_path: Path, content: str, sentence: str
):
    (tmp_path / "config.yaml").write_text(content)
    assert sentence in refused(run("evaluate", "--config", "config.yaml"))
    assert "nowhere.yaml" in refused(run("evaluate", "--config", "nowhere.yaml"))
