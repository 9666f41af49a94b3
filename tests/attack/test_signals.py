"""Killed, interrupted and terminated commands, and two commands with one output directory."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from feduplink.storage.files import only_writer

from . import kills
from .forked import forked
from .started_command import count_steps

SMALL = ("--workers", 3, "--count", 20)


@pytest.mark.parametrize("kind", ["train", "federate"])
def test_killed_commands_resume_to_the_same_results(tmp_path: Path, kind):
    """A sample of those of ``python -m attack.kills``."""
    found = list(kills.outcomes(kind, 2, tmp_path, first_only=True))
    assert [outcome for outcome in found if outcome.wrong] == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("train", 40), ("federate", 40), ("reproduce", 6)])
def test_many_killed_commands_resume_to_the_same_results(tmp_path: Path, kind, count: int):
    found = list(kills.outcomes(kind, count, tmp_path, seed=1))
    assert [outcome for outcome in found if outcome.wrong] == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_converted_to_another_error_ends_the_command(tmp_path: Path, number, status: int):
    """pybind11 converts an interrupt during the conversion of arguments to a TypeError."""

    def convert(*_args: object, **_options: object) -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except KeyboardInterrupt:
            raise TypeError("incompatible function arguments") from None

    def before() -> None:
        tempfile.mkstemp = convert  # type: ignore[assignment]

    ended = forked(["channels", *SMALL, "--out", tmp_path / "out"], before)
    assert (ended.status, ended.said) == (status, "feduplink: interrupted.\n")


def test_two_commands_do_not_write_to_one_directory(tmp_path: Path):
    out = tmp_path / "out"
    with only_writer(out):
        ended = forked(["channels", *SMALL, "--out", out])
    assert ended.status == 2
    assert ended.said.startswith(f"feduplink: out: another process is writing to {out}; accepted")
    assert not out.exists()
    assert forked(["channels", *SMALL, "--out", out]).status == 0


def test_brackets_in_a_path_are_printed_as_they_are(tmp_path: Path):
    out = tmp_path / "a[/b]:smile:"
    ended = forked(["channels", *SMALL, "--out", out])
    assert ended.status == 0, ended.said
    assert f"in {out}/channels.h5" in ended.said


def test_the_next_command_removes_files_of_a_killed_one(tmp_path: Path):
    out = tmp_path / "out"

    def die_before_the_name() -> None:
        count_steps(2)  # before the temporary file is flushed

    assert forked(["channels", *SMALL, "--out", out], die_before_the_name).status == -9
    assert len(list(out.iterdir())) == 1
    assert forked(["channels", *SMALL, "--out", out]).status == 0
    assert {path.name for path in out.iterdir()} == {"channels.h5", "metrics.json"}
