"""On a full disk commands end with one sentence and leave the old files intact."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from feduplink.reporting import style

from .forked import Ended, forked

SMALL = ("--workers", 3, "--channels-per-split", 30)
COMMANDS = {
    "channels": ("channels", "--workers", 3, "--count", 400),
    "evaluate": ("evaluate", *SMALL, "--policies", "max"),
    "optimum": ("optimum", *SMALL, "--budget-s", 0),
    "schedule": (
        *("schedule", "--workers", 3, "--channels-per-split", 4),
        *("--policies", "max", "--kappa", 0),
    ),
    "train": ("train", "--policy", "pdg", *SMALL, "--epochs", 3),
    "federate": ("federate", "--workers", 3, "--rounds", 2, "--policies", "max"),
}


def refused(ended: Ended) -> str:
    assert ended.status == 2, ended.said
    [sentence] = [line for line in ended.said.splitlines() if line.startswith("feduplink: ")]
    assert "Traceback" not in ended.said
    return sentence


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("most_bytes", [0, 3000])
def test_a_file_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, command: str, most_bytes: int
):
    out = tmp_path / "out"
    ended = forked(
        [*COMMANDS[command], "--out", out],
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
    )
    assert "File too large" in refused(ended)
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_schedules_that_cannot_be_written_are_one_sentence(tmp_path: Path):
    """HDF5 alone would end the interpreter."""
    out = tmp_path / "out"

    def no_figures_and_little_room() -> None:
        style.save_figure = lambda *_: None
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    ended = forked([*COMMANDS["schedule"], "--out", out], no_figures_and_little_room)
    assert refused(ended) == f"feduplink: {out / 'schedules.h5'}: File too large."
    assert [path.name for path in out.iterdir()] == ["schedule.md"]


def test_a_checkpoint_survives_a_full_disk(tmp_path: Path):
    out = tmp_path / "out"
    train = [*COMMANDS["train"], "--checkpoint-every", 1, "--out", out]
    assert forked(train).status == 0
    (out / "metrics.json").unlink()
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    ended = forked(
        [*train, "--epochs", 5, "--resume"],
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)),
    )
    refused(ended)
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    assert after == {**before, "history.csv": after["history.csv"]}
    assert forked([*train, "--epochs", 5, "--resume"]).status == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB in memory, which only root can mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_with_one_sentence_on_a_full_file_system(small_disk: Path, command: str):
    (small_disk / "filling").write_bytes(bytes(48_000))
    ended = forked([*COMMANDS[command], "--out", small_disk / "out"])
    assert "No space left on device" in refused(ended)
    assert list(small_disk.rglob(".*")) == []


def test_a_read_only_file_system_is_one_sentence(small_disk: Path):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    ended = forked([*COMMANDS["channels"], "--out", small_disk / "out"])
    assert refused(ended) == f"feduplink: {small_disk / 'out'}: Read-only file system."
