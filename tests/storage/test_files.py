from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from feduplink.errors import InputError
from feduplink.storage.files import (
    UNFINISHED,
    only_writer,
    read_limited,
    replaced_atomically,
    write_json,
    write_text,
)


def test_a_failed_write_leaves_the_old_file_only(tmp_path):
    file = tmp_path / "metrics.json"
    write_json(file, {"objective": 0.9})
    before = file.read_bytes()

    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(file, {"objective": float("nan")})
    with pytest.raises(RuntimeError), replaced_atomically(file) as temporary:
        temporary.write_text("half of")
        raise RuntimeError

    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_missing_directories_are_made(tmp_path):
    file = tmp_path / "run" / "1" / "metrics.json"
    write_json(file, {})
    assert file.read_text() == "{}\n"


def test_the_content_is_flushed_before_the_file_is_renamed(tmp_path, monkeypatch):
    order: list[str] = []
    flushed, renamed = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        order.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        flushed(handle)

    def replace(path: Path, target: Path) -> Path:
        order.append("name")
        return renamed(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write_json(tmp_path / "metrics.json", {})
    assert order == ["content", "name", "directory"]


def test_the_next_write_removes_what_a_killed_one_left(tmp_path):
    file = tmp_path / "policy.safetensors"
    old = tmp_path / f".{file.name}.abc{UNFINISHED}"
    another = tmp_path / f".{file.name}.def{UNFINISHED}"
    for left in (old, another):
        left.write_text("half of")
    os.utime(old, (0, 0))
    write_text(file, "whole")
    # Another process may still be writing the other one.
    assert {path.name for path in tmp_path.iterdir()} == {file.name, another.name}


def test_the_only_writer_of_a_directory_removes_unfinished_files(tmp_path):
    inside = tmp_path / "kept" / f".x.json.abc{UNFINISHED}"
    inside.parent.mkdir()
    inside.write_text("half of")
    own = tmp_path / ".hidden"
    own.write_text("of the user")
    with only_writer(tmp_path):
        assert not inside.exists()
        assert own.exists()


def test_a_directory_has_a_single_writer(tmp_path):
    program = (
        "import sys; from pathlib import Path; from feduplink.storage.files import only_writer\n"
        "with only_writer(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(InputError, match="another process is writing to"),
            only_writer(tmp_path),
        ):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with only_writer(tmp_path):  # the lock ended with its holder
        pass


def test_a_directory_without_output_is_removed(tmp_path):
    with only_writer(tmp_path / "runs" / "train"):
        assert (tmp_path / "runs" / "train").is_dir()
    assert list(tmp_path.iterdir()) == []
    with only_writer(tmp_path / "runs" / "train"):
        (tmp_path / "runs" / "train" / "metrics.json").touch()
    assert (tmp_path / "runs" / "train" / "metrics.json").exists()


def test_files_that_are_not_regular_or_too_large_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        read_limited(tmp_path / "pipe", "scenario", 10)
    (tmp_path / "large").write_bytes(bytes(11))
    with pytest.raises(InputError, match="has 11 bytes; accepted: at most 10"):
        read_limited(tmp_path / "large", "scenario", 10)
    with pytest.raises(InputError, match="does not exist"):
        read_limited(tmp_path / "nothing", "scenario", 10)
