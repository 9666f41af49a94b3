from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import feduplink
from feduplink import cli
from feduplink.cli import COMMANDS, Command
from feduplink.scenario import Scenario

from .conftest import Run, metrics_of, refused

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.NAME)
def test_every_command_explains_itself(command: Command, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        cli.main([command.NAME, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert command.HELP in text
    assert ("--seed" in text) == (command.NAME != "check")  # nothing in it is random
    assert ("--out" in text) == (command.NAME not in ("check", "serve"))  # all others write files
    assert f"example: feduplink {command.NAME}" in text


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"feduplink {project['version']}\n"
    assert feduplink.__version__ == project["version"]


def test_every_scenario_field_is_an_option_with_its_default(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, field in Scenario.model_fields.items():
        assert f"--{name.replace('_', '-')} " in text
        assert f"(default: {'none' if field.default is None else field.default})" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workers", "0"), ("workers", "greater than or equal to 1")),
        (("--workers", "2.5"), ("workers", "integer")),
        (("--rate-min", "nan"), ("rate_min", "finite")),
        (("--rate-min", "41"), ("rate_min", "less than or equal to 40")),
        (("--rate-min", "0.7,0.6"), ("rate_min", "2 entries", "8 workers")),
        (("--ee-min", "-1"), ("ee_min", "greater than or equal to 0")),
        (("--pmax-dbw", "inf"), ("pmax_dbw", "finite")),
        (("--pmax-dbw", "-500"), ("pmax_dbw", "-90")),
        (("--interference", "0"), ("interference", "greater than 0")),
        (("--csi-noise", "-1"), ("csi_noise",)),
        (("--channel-model", "moon"), ("channel_model", "hata-urban", "moon")),
        (("--speed-mps", "3"), ("speed_mps", "geometry: kept")),
        (("--scenario", "nowhere.yaml"), ("scenario", "nowhere.yaml")),
        (("--scenario", "moon"), ("scenario", "interference-x2")),
        (("--seed", "-1"), ("--seed", "whole numbers from 0")),
        (("--seed", "one"), ("--seed", "one")),
        (("--no-such-option",), ("--no-such-option",)),
        (("--worker", "3"), ("--worker",)),
    ],
)
def test_bad_options_end_with_one_sentence_and_no_files(
    run: Run, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
):
    sentence = refused(run("channels", "--count", 2, *options))
    for word in words:
        assert word in sentence
    assert list(tmp_path.iterdir()) == []


def test_unknown_and_missing_commands(run: Run):
    assert "evaluate" in refused(run("dance"))
    assert "COMMAND" in refused(run())


def test_out_must_not_be_a_file(run: Run, tmp_path: Path):
    (tmp_path / "taken").write_text("mine")
    assert "taken is a file" in refused(run("channels", "--out", "taken"))
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_file_in_the_way_of_out_is_one_sentence(run: Run, tmp_path: Path):
    (tmp_path / "taken").write_text("mine")
    assert "taken" in refused(run("channels", "--count", 2, "--out", "taken/below"))


def test_options_override_the_scenario_file(run: Run, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("workers: 3\nrate_min: [0.1, 0.2, 0.3]\npmax_dbw: -30\n")
    assert run("channels", "--count", 2, "--scenario", "mine.yaml", "--pmax-dbw", -10).status == 0
    expected = Scenario(workers=3, rate_min=(0.1, 0.2, 0.3), pmax_dbw=-10)
    assert metrics_of(tmp_path / "runs/channels")["scenario"] == expected.model_dump(mode="json")


def test_lists_and_none_on_the_command_line(run: Run, tmp_path: Path):
    options = ("--workers", 2, "--rate-min", "0.1,0.2", "--weights", "3,1")
    assert run("channels", "--count", 2, *options, "--coherence-time-s", "none").status == 0
    expected = Scenario(workers=2, rate_min=(0.1, 0.2), weights=(3, 1))
    assert metrics_of(tmp_path / "runs/channels")["scenario"] == expected.model_dump(mode="json")


def test_interrupt_has_its_own_status(run: Run, monkeypatch: pytest.MonkeyPatch):
    def interrupt(_args: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    command = types.SimpleNamespace(
        NAME="wait", HELP="", EXAMPLE="", add_arguments=lambda _parser: None, run=interrupt
    )
    monkeypatch.setattr(cli, "COMMANDS", (command,))
    ended = run("wait")
    assert ended.status == 130
    assert ended.err == "feduplink: interrupted.\n"


def test_python_dash_m(tmp_path: Path):
    ended = subprocess.run(
        [sys.executable, "-m", "feduplink", "channels", "--count", "no"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("feduplink: ")
    assert "Traceback" not in ended.stderr


def test_what_another_command_made_is_not_overwritten(run: Run, tmp_path: Path):
    assert run("channels", "--count", 3, "--workers", 2, "--out", "here").status == 0
    before = {path: path.read_bytes() for path in (tmp_path / "here").iterdir()}
    words = ("--policies", "max", "--workers", 2, "--channels-per-split", 3, "--out", "here")
    assert "holds a run of another command (feduplink channels" in refused(run("evaluate", *words))
    assert {path: path.read_bytes() for path in (tmp_path / "here").iterdir()} == before
    assert run("channels", "--count", 4, "--workers", 2, "--out", "here").status == 0
