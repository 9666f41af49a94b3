"""Data sets of the tasks: licences, sources, checksums, download and conversion.

All files are in one directory, given by the caller or by ``FEDUPLINK_DATA``. The checksum of a
compressed file is that of its content, because the output of compressors depends on their version.
"""

from __future__ import annotations

import csv
import hashlib
import lzma
import os
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from feduplink.errors import InputError, unknown_name
from feduplink.federated.data.reviews import most_frequent, read_reviews
from feduplink.progress import progress_bars
from feduplink.storage.files import reading
from feduplink.validation import import_extra

#: Environment variable that contains the directory of the data sets.
DIRECTORY_VARIABLE = "FEDUPLINK_DATA"

#: Maximum size of a NumPy archive in bytes.
_MAX_NPZ_BYTES = 1 << 28
#: Number of words with vectors.
_NUM_WORDS = 25_000
#: File of the word vectors in the GloVe archive.
_GLOVE_MEMBER = "glove.6B.50d.txt"
#: File name of a labelled review in the archive: split, label, number and rating.
_REVIEW_NAME = re.compile(r"[^/]+/([^/]+)/(neg|pos)/(\d+)_(\d+)\.txt")

_DOWNLOAD_BLOCK_BYTES = 1 << 18
_TIMEOUT_S = 60


def read_npz(path: Path) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Read all arrays of a NumPy archive by name.

    Raises:
        InputError: if the file is missing, damaged, too large, or contains pickled objects.
    """
    with (
        reading(path, "data", "damaged", _MAX_NPZ_BYTES),
        np.load(path, allow_pickle=False) as arrays,
    ):
        return {name: arrays[name] for name in arrays.files}


def air_quality_table(original: Path, target: Path, _directory: Path) -> None:
    """Extract the table with the file name of ``target`` from the archive ``original``."""
    with zipfile.ZipFile(original) as archive:
        target.write_bytes(archive.read(target.name))


def review_table(original: Path, target: Path, _directory: Path) -> None:
    """Convert the archive ``original`` to a table of the labelled reviews.

    Rows are sorted by split (train, test), label and number.
    """
    rows = []
    with tarfile.open(original) as archive:
        for member in archive:
            source = archive.extractfile(member)
            if source and (found := _REVIEW_NAME.fullmatch(member.name)):
                split, label, number, rating = found.groups()
                text = source.read().decode("utf-8")
                rows.append((split, int(label == "pos"), int(number), int(rating), text))
    rows.sort(key=lambda row: (row[0] != "train", row[1], row[2]))
    with lzma.open(target, "wt", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("split", "label", "id", "rating", "text"))
        writer.writerows(rows)


def word_vectors(original: Path, target: Path, directory: Path) -> None:
    """Extract the GloVe vectors of the most frequent tokens of the training reviews.

    Tokens that GloVe does not contain have zero vectors.
    """
    reviews = read_reviews(directory / "imdb" / "imdb_50k.csv.xz")
    frequent = most_frequent((r.text for r in reviews if r.split == "train"), _NUM_WORDS)
    row_of = {token: row for row, (token, _) in enumerate(frequent)}
    vectors = np.zeros((len(frequent), 50), np.float16)
    in_glove = np.zeros(len(frequent), np.bool_)
    with zipfile.ZipFile(original) as archive, archive.open(_GLOVE_MEMBER) as lines:
        for line in lines:
            word, _, numbers = line.decode("utf-8").partition(" ")
            if (row := row_of.get(word)) is not None:
                vectors[row] = np.array(numbers.split(), np.float32)
                in_glove[row] = True
    np.savez_compressed(
        target,
        vectors=vectors,
        in_glove=in_glove,
        counts=np.array([count for _, count in frequent], np.int32),
        tokens=np.frombuffer("\n".join(token for token, _ in frequent).encode(), np.uint8),
    )


#: Function that converts a downloaded file: ``(original, target, data directory)``.
Build = Callable[[Path, Path, Path], None]


@dataclass(frozen=True)
class DataFile:
    """File of a data set.

    Attributes:
        path: path relative to the data directory.
        sha256: SHA-256 checksum; see :func:`content_digest`.
        url: address of the original.
        build: function that converts the original to the file; None if they are equal.

    """

    path: str
    sha256: str
    url: str
    build: Build | None = None


@dataclass(frozen=True)
class DataSet:
    """Data set.

    Attributes:
        name: name of the data set on the command line.
        title: short description.
        licence: licence of the data.
        source: web page of the data.
        files: files of the data set.
        needs: names of data sets that are needed to build the files.
    """

    name: str
    title: str
    licence: str
    source: str
    files: tuple[DataFile, ...]
    needs: tuple[str, ...] = ()


# The copy of PyTorch, because the server of the author refuses most clients.
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_MNIST_SHA256 = {
    "train-images-idx3": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}

DATA_SETS: dict[str, DataSet] = {
    entry.name: entry
    for entry in (
        DataSet(
            name="mnist",
            title="MNIST handwritten digits, 60,000 + 10,000 images of 28 x 28",
            licence="CC BY-SA 3.0",
            source="http://yann.lecun.com/exdb/mnist/",
            files=tuple(
                DataFile(f"mnist/{name}-ubyte.gz", sha256, f"{_MNIST}/{name}-ubyte.gz")
                for name, sha256 in _MNIST_SHA256.items()
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
                    build=word_vectors,
                ),
            ),
            needs=("imdb",),
        ),
    )
}


def data_set(name: str) -> DataSet:
    """Look up a data set by name.

    Raises:
        InputError: if the name is unknown.

    >>> data_set("mnist").licence
    'CC BY-SA 3.0'
    """
    if name not in DATA_SETS:
        raise unknown_name("data", name, DATA_SETS)
    return DATA_SETS[name]


def data_directory(given: Path | None = None) -> Path | None:
    """Directory of the data sets: ``given``, or else that of ``FEDUPLINK_DATA``, or else None."""
    variable = os.environ.get(DIRECTORY_VARIABLE)
    return given or (Path(variable) if variable else None)


def require(name: str, directory: Path | None = None) -> Path:
    """Check that all files of a data set exist.

    Args:
        name: name of the data set.
        directory: directory of the data sets; None uses that of ``FEDUPLINK_DATA``.

    Returns:
        Directory of the data sets.

    Raises:
        InputError: if a file is missing; the message contains the command that downloads it.
    """
    entry = data_set(name)
    root = data_directory(directory)
    advice = (
        f"download it with 'feduplink data --fetch {name} --data DIR' and give the directory by "
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


class FileState(StrEnum):
    """State of a file or of a data set, in order of increasing severity."""

    PRESENT = "here"
    INTACT = "intact"
    MISSING = "missing"
    DAMAGED = "checksum differs"


def file_state(file: DataFile, directory: Path, verify: bool = True) -> FileState:
    """Check whether a file exists and has the expected checksum.

    Args:
        file: file of a data set.
        directory: directory of the data sets.
        verify: whether to compute the checksum of an existing file.
    """
    path = directory / file.path
    if not path.is_file():
        return FileState.MISSING
    if not verify:
        return FileState.PRESENT
    return FileState.INTACT if _has_content(path, file.sha256) else FileState.DAMAGED


def data_state(entry: DataSet, root: Path | None, verify: bool) -> FileState:
    """Return the worst :func:`file_state` of the files of a data set.

    Args:
        entry: data set.
        root: directory of the data sets; None means that all files are missing.
        verify: whether to compute the checksums of existing files.
    """
    if root is None:
        return FileState.MISSING
    states = {file_state(file, root, verify) for file in entry.files}
    return max(states, key=list(FileState).index)


def _has_content(path: Path, sha256: str) -> bool:
    """Whether a file can be read and has the checksum ``sha256``."""
    try:
        return content_digest(path) == sha256
    except (OSError, EOFError, ValueError, lzma.LZMAError):
        return False


def content_digest(path: Path) -> str:
    """Compute the SHA-256 checksum of a file.

    For ``.xz`` files it is that of the uncompressed content, for ``.npz`` files that of the arrays.
    """
    if path.suffix != ".npz":
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for name, found in sorted(read_npz(path).items()):
        array = np.ascontiguousarray(found)
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def fetch(entry: DataSet, directory: Path) -> None:
    """Download and convert the missing or damaged files of a data set.

    A file is only written if its checksum is correct.

    Args:
        entry: data set.
        directory: directory of the data sets.

    Raises:
        InputError: if a file cannot be downloaded or has a wrong checksum.
    """
    for file in entry.files:
        if file_state(file, directory) is FileState.INTACT:
            continue
        for needed in entry.needs:
            require(needed, directory)
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
            original = Path(scratch, "original")
            made = Path(scratch, Path(file.path).name)
            _download(file.url, original)
            try:
                if file.build:
                    file.build(original, made, directory)
                else:
                    original.rename(made)
            except (tarfile.TarError, zipfile.BadZipFile, KeyError, EOFError, ValueError) as error:
                raise InputError(
                    f"data: {file.url} is not the original of {entry.name}: {error}."
                ) from None
            if not _has_content(made, file.sha256):
                raise InputError(
                    f"data: {file.path} from {file.url} does not have the expected checksum; "
                    "the file was discarded."
                )
            target = directory / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            made.replace(target)


def _download(url: str, target: Path) -> None:
    pooch = import_extra("pooch", "data")
    download = pooch.HTTPDownloader(
        progressbar=bool(progress_bars()),
        chunk_size=_DOWNLOAD_BLOCK_BYTES,
        timeout=_TIMEOUT_S,
        # If the server compressed its response, requests would decompress our .gz files.
        headers={"Accept-Encoding": "identity"},
    )
    try:
        download(url, str(target), None)
    except OSError as error:  # base class of the exceptions of requests
        cause: BaseException = error  # requests and urllib3 wrap the cause several times
        while inner := cause.__cause__ or cause.__context__:
            cause = inner
        reason = str(cause).removesuffix(".") or type(cause).__name__
        raise InputError(f"data: cannot fetch {url}: {reason}.") from None
