"""The data sets the tasks use: licence, source, files and their checksums.

Files are looked for in one directory, given by the caller or by ``FEDUPLINK_DATA``. A file that
we build from an original archive is checked by its content, since a compressor's output depends
on its version.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from feduplink.errors import InputError

#: The environment variable that names the directory of the data sets.
DIRECTORY_VARIABLE = "FEDUPLINK_DATA"

_BLOCK = 1 << 20


class FileState(StrEnum):
    """What a look at one file shows."""

    MISSING = "missing"
    INTACT = "intact"
    DAMAGED = "checksum differs"


@dataclass(frozen=True)
class DataFile:
    """One file of a set.

    Attributes:
        path: below the data directory.
        sha256: of the file, or of its content if it ends with ``.xz`` or ``.npz``.

    """

    path: str
    sha256: str


@dataclass(frozen=True)
class Download:
    """One original: its address, and its checksum where the files built from it have none."""

    url: str
    sha256: str | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set with what a user must know before using it."""

    name: str
    title: str
    licence: str
    source: str
    files: tuple[DataFile, ...]
    downloads: tuple[Download, ...]
    needs: tuple[str, ...] = ()


DATA_SETS: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        DataSet(
            name="mnist",
            title="MNIST handwritten digits, 60,000 + 10,000 images of 28 x 28",
            licence="CC BY-SA 3.0",
            source="http://yann.lecun.com/exdb/mnist/",
            files=(
                DataFile(
                    "mnist/train-images-idx3-ubyte.gz",
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                DataFile(
                    "mnist/train-labels-idx1-ubyte.gz",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                DataFile(
                    "mnist/t10k-images-idx3-ubyte.gz",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                DataFile(
                    "mnist/t10k-labels-idx1-ubyte.gz",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
            # The author's own server refuses most clients; this is the copy PyTorch serves.
            downloads=tuple(
                Download(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}")
                for name in (
                    "train-images-idx3-ubyte.gz",
                    "train-labels-idx1-ubyte.gz",
                    "t10k-images-idx3-ubyte.gz",
                    "t10k-labels-idx1-ubyte.gz",
                )
            ),
        ),
        DataSet(
            name="airquality",
            title="UCI Air Quality, 9,357 hourly sensor readings",
            licence="CC BY 4.0",
            source="https://archive.ics.uci.edu/dataset/360/air+quality",
            files=(
                DataFile(
                    "airquality/AirQualityUCI.csv",
                    "13277ae5d8581e80b7be09d47c7d3d06fe9b8e957078f2cf6e859f955e62f996",
                ),
            ),
            downloads=(Download("https://archive.ics.uci.edu/static/public/360/air+quality.zip"),),
        ),
        DataSet(
            name="imdb",
            title="Large Movie Review Dataset, 50,000 labelled reviews",
            licence="research use; cite Maas et al., ACL 2011",
            source="https://ai.stanford.edu/~amaas/data/sentiment/",
            files=(
                DataFile(
                    "imdb/imdb_50k.csv.xz",
                    "360bf5c9c5a9f1c053e1906dd01e10de51bdf80a0f1a1c579fb2df3e1ec8b86e",
                ),
            ),
            downloads=(
                Download("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"),
            ),
        ),
        DataSet(
            name="glove",
            title="GloVe 6B, 50 dimensions, for the 25,000 most frequent tokens of IMDb",
            licence="PDDL 1.0",
            source="https://nlp.stanford.edu/projects/glove/",
            files=(
                DataFile(
                    "glove/glove_6b_50d_imdb25k_f16.npz",
                    "8e240ed21f2f329ef522dfdd1db91438d19edca182fd03069b5141c9bd316b81",
                ),
            ),
            downloads=(
                Download(
                    "https://nlp.stanford.edu/data/glove.6B.zip",
                    "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
                ),
            ),
            needs=("imdb",),
        ),
    )
}


def data_set(name: str) -> DataSet:
    """The set of this name."""
    if name not in DATA_SETS:
        raise InputError(f"data: no set is called {name!r}; accepted: {', '.join(DATA_SETS)}.")
    return DATA_SETS[name]


def data_directory(given: Path | None = None) -> Path | None:
    """The directory of the data sets: the given one, or that of ``FEDUPLINK_DATA``, or none."""
    if given is not None:
        return given
    variable = os.environ.get(DIRECTORY_VARIABLE)
    return Path(variable) if variable else None


def require(name: str, directory: Path | None = None) -> Path:
    """The directory that holds all files of a set, or one sentence on how to get them."""
    entry = data_set(name)
    root = data_directory(directory)
    advice = (
        f"fetch it with 'feduplink data --fetch {name} --data DIR' and name the directory with "
        f"--data DIR or {DIRECTORY_VARIABLE}=DIR"
    )
    if root is None:
        raise InputError(f"data: the set {name!r} needs a data directory; {advice}.")
    absent = [file.path for file in entry.files if not (root / file.path).is_file()]
    if absent:
        raise InputError(
            f"data: the set {name!r} is not in {root} ({absent[0]} is missing); {advice}."
        )
    return root


def file_state(file: DataFile, directory: Path) -> FileState:
    """Compare one file with its checksum."""
    path = directory / file.path
    if not path.is_file():
        return FileState.MISSING
    try:
        intact = content_digest(path) == file.sha256
    except (OSError, EOFError, ValueError, KeyError, lzma.LZMAError, zipfile.BadZipFile):
        intact = False
    return FileState.INTACT if intact else FileState.DAMAGED


def content_digest(path: Path) -> str:
    """SHA-256 of a file; of what is inside for ``.xz`` and ``.npz``."""
    digest = hashlib.sha256()
    for block in _READERS.get(path.suffix, _plain_blocks)(path):
        digest.update(block)
    return digest.hexdigest()


def _plain_blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _xz_blocks(path: Path) -> Iterator[bytes]:
    with lzma.open(path) as file:
        while block := file.read(_BLOCK):
            yield block


def _npz_blocks(path: Path) -> Iterator[bytes]:
    with np.load(path, allow_pickle=False) as arrays:
        for name in sorted(arrays.files):
            array = np.ascontiguousarray(arrays[name])
            yield f"{name}{array.dtype.str}{array.shape}".encode()
            yield array.tobytes()


_READERS: dict[str, Callable[[Path], Iterator[bytes]]] = {".xz": _xz_blocks, ".npz": _npz_blocks}
