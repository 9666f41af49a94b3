from __future__ import annotations

import getpass
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from feduplink.cli import main
from feduplink.storage.run_directory import command, part, provenance
from feduplink.version import __version__


def test_says_what_was_typed_and_when():
    before = datetime.now(UTC).replace(microsecond=0)
    with command(["demo", "--out", "my runs"]):
        entry = provenance()
    assert entry["command"] == "feduplink demo --out 'my runs'"
    assert before <= datetime.fromisoformat(entry["started"]) <= datetime.now(UTC)
    assert 0 <= entry["seconds"] < 60


def test_says_the_versions():
    entry = provenance()
    assert entry["feduplink"] == __version__
    assert entry["python"] == platform.python_version()
    assert entry["torch"] == torch.__version__
    assert entry["numpy"] == np.__version__
    assert entry["processors"] > 0


def test_a_part_has_its_own_clock_and_the_same_command(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    with command(["demo"]):  # at 0
        with part():  # at 1
            inner = provenance()
        outer = provenance()
    assert (inner["command"], inner["seconds"]) == ("feduplink demo", 1)
    assert (outer["command"], outer["seconds"]) == ("feduplink demo", 3)


def test_outside_a_command_nothing_is_invented():
    entry = provenance()
    assert entry["command"] is entry["started"] is entry["seconds"] is None


def test_a_failed_command_ends():
    try:
        with command(["demo"]):
            raise RuntimeError
    except RuntimeError:
        pass
    assert provenance()["command"] is None


def test_does_not_tell_whose_machine_it_was():
    with command(["demo"]):
        words = json.dumps(provenance()).split('"')
    assert platform.node() not in words
    assert getpass.getuser() not in words
    assert str(Path.home()) not in words
    assert str(Path.cwd()) not in words


def test_every_command_writes_it(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["channels", "--count", "2", "--out", "here"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/feduplink", *words])
    assert main() == 0
    metrics = json.loads((tmp_path / "here/metrics.json").read_text())
    assert metrics["provenance"]["command"] == "feduplink channels --count 2 --out here"
    assert metrics["provenance"].keys() == provenance().keys()
