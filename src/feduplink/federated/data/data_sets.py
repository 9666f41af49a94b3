"""The data sets the tasks use: licence, source, files and their checksums.

Files are looked for in one directory, given by the caller or by ``FEDUPLINK_DATA``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from feduplink.errors import InputError, unknown_name
from feduplink.federated.data.derived_files import air_quality_table, review_table, word_vectors

#: The environment variable that names the directory of the data sets.
DIRECTORY_VARIABLE = "FEDUPLINK_DATA"

#: Writes a file from its original: ``(original, target, data directory)``.
Build = Callable[[Path, Path, Path], None]


@dataclass(frozen=True)
class DataFile:
    """One file of a set.

    Attributes:
        path: below the data directory.
        sha256: of the file, or of its content if it ends with ``.xz`` or ``.npz``.
        url: where its original is.
        original_sha256: of the original; None where the file that is built from it is enough.
        build: writes the file from the original; None if that is the file itself.

    """

    path: str
    sha256: str
    url: str
    original_sha256: str | None = None
    build: Build | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set with what a user must know before using it."""

    name: str
    title: str
    licence: str
    source: str
    files: tuple[DataFile, ...]
    needs: tuple[str, ...] = ()


# The author's own server refuses most clients; this is the copy PyTorch serves.
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"

DATA_SETS: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        DataSet(
            name="mnist",
            title="MNIST handwritten digits, 60,000 + 10,000 images of 28 x 28",
            licence="CC BY-SA 3.0",
            source="http://yann.lecun.com/exdb/mnist/",
            files=tuple(
                DataFile(f"mnist/{name}", sha256, f"{_MNIST}/{name}")
                for name, sha256 in (
                    (
                        "train-images-idx3-ubyte.gz",
                        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    ),
                    (
                        "train-labels-idx1-ubyte.gz",
                        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    ),
                    (
                        "t10k-images-idx3-ubyte.gz",
                        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    ),
                    (
                        "t10k-labels-idx1-ubyte.gz",
                        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                    ),
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
                    "https://archive.ics.uci.edu/static/public/360/air+quality.zip",
                    build=air_quality_table,
                ),
            ),
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
                    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                    build=review_table,
                ),
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
                    "https://nlp.stanford.edu/data/glove.6B.zip",
                    "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
                    word_vectors,
                ),
            ),
            needs=("imdb",),
        ),
    )
}


def data_set(name: str) -> DataSet:
    """The set of this name."""
    if name not in DATA_SETS:
        raise unknown_name("data", name, DATA_SETS)
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
