"""Commands that are killed, interrupted or asked to end, and a second one in the same place."""

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
def test_a_few_kills(tmp_path: Path, kind):
    """The full number of them: ``python -m attack.kills``."""
    found = list(kills.outcomes(kind, 2, tmp_path, first_only=True))
    assert [outcome for outcome in found if outcome.wrong] == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("train", 40), ("federate", 40), ("reproduce", 6)])
def test_many_kills(tmp_path: Path, kind, count: int):
    found = list(kills.outcomes(kind, count, tmp_path, seed=1))
    assert [outcome for outcome in found if outcome.wrong] == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_a_library_makes_another_error_of(tmp_path: Path, number, status: int):
    """pybind11 does, where one comes while it converts arguments: Matplotlib is built with it."""

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


def test_two_commands_do_not_write_to_one_place(tmp_path: Path):
    out = tmp_path / "out"
    with only_writer(out):
        ended = forked(["channels", *SMALL, "--out", out])
    assert ended.status == 2
    assert ended.said.startswith(f"feduplink: out: another process is writing to {out}; accepted")
    assert not out.exists()
    assert forked(["channels", *SMALL, "--out", out]).status == 0


def test_brackets_in_a_path_are_no_markup(tmp_path: Path):
    out = tmp_path / "a[/b]:smile:"
    ended = forked(["channels", *SMALL, "--out", out])
    assert ended.status == 0, ended.said
    assert f"in {out}/channels.h5" in ended.said


def test_leftovers_of_a_killed_command_go_with_the_next(tmp_path: Path):
    out = tmp_path / "out"

    def die_before_the_name() -> None:
        count_steps(2)  # the temporary file is there, and is about to be flushed

    assert forked(["channels", *SMALL, "--out", out], die_before_the_name).status == -9
    assert len(list(out.iterdir())) == 1
    assert forked(["channels", *SMALL, "--out", out]).status == 0
    assert {path.name for path in out.iterdir()} == {"channels.h5", "metrics.json"}
