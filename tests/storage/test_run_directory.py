from __future__ import annotations

import getpass
import json
import platform
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import MakeRun
from feduplink import InputError, __version__
from feduplink.cli.command_line import main
from feduplink.storage.run_directory import (
    Claim,
    command,
    find_runs,
    part,
    provenance,
    read_metrics,
    reserved,
    write_metrics,
)

CLAIM = {"claim": "pdg beats max", "measured": "0.94 against 0.71", "verdict": "holds"}


def test_written_metrics_are_read_back(tmp_path: Path):
    write_metrics(tmp_path, {"title": "A run", "seed": 3, "claims": [CLAIM], "else": [1]})
    metrics = read_metrics(tmp_path)
    assert (metrics.title, metrics.seed) == ("A run", 3)
    assert metrics.claims == (Claim(**CLAIM),)
    assert metrics.provenance is not None


def test_metrics_without_provenance_are_read(tmp_path: Path):
    (tmp_path / "metrics.json").write_text('{"scenario": {"workers": 8}, "seed": 1}')
    assert read_metrics(tmp_path).provenance is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Invalid JSON"),
        ('{"scenario": {"workers"', "Invalid JSON"),
        ("\x00\x01", "Invalid JSON"),
        ("[1, 2]", "should be an object"),
        ('{"accuracy": 0.9}', "neither provenance nor scenario"),
        ('{"scenario": {}, "claims": 3}', "claims: "),
        (json.dumps({"scenario": {}, "claims": [{**CLAIM, "verdict": "maybe"}]}), "verdict: "),
        ('{"provenance": {"command": "other"}}', "provenance: "),
    ],
)
def test_invalid_metrics_are_refused_in_one_sentence(tmp_path: Path, text: str, words: str):
    (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(InputError, match=words) as refusal:
        read_metrics(tmp_path)
    assert "metrics.json" in str(refusal.value)
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)


def test_provenance_has_the_command_line_and_its_time():
    with command(["demo", "--out", "my runs"]):
        entry = provenance()
    assert entry["command"] == "feduplink demo --out 'my runs'"
    assert datetime.fromisoformat(entry["started"]).utcoffset() == timedelta(0)
    assert entry["seconds"] >= 0


def test_provenance_has_the_versions():
    entry = provenance()
    assert entry["feduplink"] == __version__
    assert entry["python"] == platform.python_version()
    assert entry["torch"] == torch.__version__
    assert entry["numpy"] == np.__version__
    assert entry["processors"] > 0


def test_a_part_of_a_command_has_its_own_clock(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    with command(["demo"]):  # at 0
        with part():  # at 1
            inner = provenance()
        outer = provenance()
    assert (inner["command"], inner["seconds"]) == ("feduplink demo", 1)
    assert (outer["command"], outer["seconds"]) == ("feduplink demo", 3)


def test_provenance_outside_a_command_has_no_command_or_time():
    entry = provenance()
    assert entry["command"] is entry["started"] is entry["seconds"] is None


def test_a_failed_command_is_not_recorded_afterwards():
    try:
        with command(["demo"]):
            raise RuntimeError
    except RuntimeError:
        pass
    assert provenance()["command"] is None


def test_provenance_has_no_names_of_hosts_users_or_directories():
    with command(["demo"]):
        words = json.dumps(provenance()).split('"')
    assert platform.node() not in words
    assert getpass.getuser() not in words
    assert str(Path.home()) not in words
    assert str(Path.cwd()) not in words


def test_commands_write_provenance(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["channels", "--count", "2", "--out", "here"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/feduplink", *words])
    assert main() == 0
    metrics = json.loads((tmp_path / "here/metrics.json").read_text())
    assert metrics["provenance"]["command"] == "feduplink channels --count 2 --out here"
    assert metrics["provenance"].keys() == provenance().keys()


def _found(directories: list[Path], below: Path) -> list[str]:
    return [str(run.directory.relative_to(below)) for run in find_runs(directories)]


def test_a_run_precedes_the_sorted_runs_in_its_subdirectories(make_run: MakeRun, tmp_path: Path):
    for name in ("all/b", "all", "all/a", "all/deep/down"):
        make_run(name)
    expected = ["all", "all/a", "all/b", "all/deep/down"]
    assert _found([tmp_path], tmp_path) == expected
    assert _found([tmp_path / "all"], tmp_path) == expected


def test_the_list_of_figures_gives_the_order(make_run: MakeRun, tmp_path: Path):
    make_run("paper", figures={"fig4": {}, "missing": {}, "fig3": {}})
    for name in ("fig3", "fig4", "extra"):
        make_run(f"paper/{name}")
    assert _found([tmp_path], tmp_path) == ["paper", "paper/fig4", "paper/fig3", "paper/extra"]


def test_every_run_is_found_once_and_reports_are_not(make_run: MakeRun, tmp_path: Path):
    make_run("b")
    make_run("a")
    make_run("a/page", report={"page": "report.html"})
    (tmp_path / "b/again").symlink_to(tmp_path / "b")
    assert _found([tmp_path / "b", tmp_path, tmp_path / "a"], tmp_path) == ["b", "a"]


def test_titles_default_to_the_directory(make_run: MakeRun):
    runs = find_runs([make_run("mine"), make_run("other", title="Policies compared")])
    assert [run.title for run in runs] == ["mine", "Policies compared"]


def test_a_directory_without_runs_is_refused(make_run: MakeRun, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    page = make_run("page", report={})
    for directory in (tmp_path / "empty", page):
        with pytest.raises(InputError, match=r"no metrics\.json of a run"):
            find_runs([make_run("good"), directory])
    with pytest.raises(InputError, match="not a directory"):
        find_runs([tmp_path / "nowhere"])


def test_a_directory_with_results_of_another_command_is_not_reserved(tmp_path: Path):
    with command(["train"]):
        write_metrics(tmp_path, {"seed": 1})
    with reserved(tmp_path, "train"):
        pass
    with (
        pytest.raises(InputError, match="contains a run of another command"),
        reserved(tmp_path, "evaluate"),
    ):
        pass
