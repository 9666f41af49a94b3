from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from feduplink.errors import InputError
from feduplink.storage.hdf5 import dataset_in, reading_hdf5, writing_hdf5

NAME = "input/gains"


def read(path: Path) -> np.ndarray:
    with reading_hdf5(path, "channels") as file:
        return dataset_in(file, NAME)[()]


def test_a_written_dataset_is_read_back(tmp_path: Path):
    values = np.random.default_rng(0).random((50, 3, 3))
    with writing_hdf5(tmp_path / "a.h5") as file:
        file.create_dataset(NAME, data=values, compression="gzip")
    assert np.array_equal(read(tmp_path / "a.h5"), values)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.h5"]


def soft(file: h5py.File) -> None:
    file["other"] = np.ones(3)
    file[NAME] = h5py.SoftLink("/other")


def dangling(file: h5py.File) -> None:
    file[NAME] = h5py.SoftLink("/nowhere")


def linked_group(file: h5py.File) -> None:
    file["input"] = h5py.ExternalLink("/etc/passwd", "/")


def external(file: h5py.File) -> None:
    file.create_dataset(NAME, (4,), "u1", external=[("/etc/passwd", 0, 4)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", (4,))
    file.create_virtual_dataset(NAME, layout)


def no_shape(file: h5py.File) -> None:
    file[NAME] = h5py.Empty("f4")


def group(file: h5py.File) -> None:
    file.create_group(NAME)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (soft, "has a link instead of"),
        (dangling, "has a link instead of"),
        (linked_group, "has a link instead of"),
        (external, "in another file"),
        (virtual, "in another file"),
        (no_shape, "has no dataset"),
        (group, "has no dataset"),
    ],
)
def test_links_and_other_files_are_refused(
    tmp_path: Path, make: Callable[[h5py.File], None], words: str
):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file)
    with pytest.raises(InputError, match=f"channels: .*a.h5 .*{words}"):
        read(tmp_path / "a.h5")


def test_a_pipe_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "a.h5")
    with pytest.raises(InputError, match="not a regular file"):
        read(tmp_path / "a.h5")


FULL = """
import resource, sys
from pathlib import Path
import numpy as np
from feduplink.storage.hdf5 import writing_hdf5
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    with writing_hdf5(Path(sys.argv[1])) as file:
        for name in "abc":
            file.create_dataset(name, data=np.random.rand(300, 300), compression="gzip")
except OSError as error:
    print(error)
"""


def test_a_full_disk_raises_an_error(tmp_path: Path):
    path = tmp_path / "a.h5"
    path.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"[Errno 27] File too large: '{path}'\n"
    assert [found.read_text() for found in tmp_path.iterdir()] == ["old"]
