"""Data sets of the tasks: licences, sources, checksums, download and conversion.

Files are looked for in one directory, given by the caller or by ``FEDUPLINK_DATA``.

A file that we build from an original archive is checked by its content, since a compressor's output
depends on its version.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import logging
import lzma
import os
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from feduplink.errors import InputError, unknown_name
from feduplink.federated.data.reviews import most_frequent, read_reviews
from feduplink.progress import Progress, track
from feduplink.storage.files import check_regular
from feduplink.validation import import_extra

#: Of all arrays together, unpacked.
_MAX_NPZ_BYTES = 1 << 28
#: What zipfile and NumPy raise where a file is not what it says.
_DAMAGED = (
    OSError,
    EOFError,
    KeyError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    SyntaxError,
    TypeError,
)


def read_npz(path: Path) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """All arrays by name; nothing in the file is executed."""
    check_regular(path, "data", _MAX_NPZ_BYTES)
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _MAX_NPZ_BYTES:
            raise ValueError(f"unpacks to {size} bytes; accepted: no more than {_MAX_NPZ_BYTES}")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except _DAMAGED as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"data: {path} is damaged: {reason}.") from None


_EMBEDDED_WORDS = 25_000
_GLOVE_MEMBER = "glove.6B.50d.txt"


def air_quality_table(original: Path, target: Path, _directory: Path) -> None:
    """The one table of the archive that has the name of the target."""
    with (
        zipfile.ZipFile(original) as archive,
        archive.open(target.name) as source,
        target.open("wb") as out,
    ):
        shutil.copyfileobj(source, out)


def review_table(original: Path, target: Path, _directory: Path) -> None:
    """One row per review, ordered by split (train, test), label and id."""
    labels = {"neg": 0, "pos": 1}
    rows = []
    with tarfile.open(original) as archive:
        for member in archive:
            parts = Path(member.name).parts
            if len(parts) != 4 or parts[2] not in labels or not member.isfile():
                continue
            split, label, (number, rating) = parts[1], labels[parts[2]], parts[3][:-4].split("_")
            source = archive.extractfile(member)
            assert source is not None
            rows.append((split, label, int(number), int(rating), source.read().decode("utf-8")))
    rows.sort(key=lambda row: (row[0] != "train", row[1], row[2]))
    with lzma.open(target, "wt", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("split", "label", "id", "rating", "text"))
        writer.writerows(rows)


def word_vectors(original: Path, target: Path, directory: Path) -> None:
    """The vectors of the most frequent tokens of the IMDb training reviews; zero if unknown."""
    reviews = read_reviews(directory / "imdb" / "imdb_50k.csv.xz")
    frequent = most_frequent((r.text for r in reviews if r.split == "train"), _EMBEDDED_WORDS)
    row_of = {token: row for row, (token, _) in enumerate(frequent)}
    vectors = np.zeros((len(frequent), 50), np.float16)
    in_glove = np.zeros(len(frequent), np.bool_)
    for word, numbers in _glove_lines(original):
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


def _glove_lines(archive: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(archive) as file, file.open(_GLOVE_MEMBER) as lines:
        for line in lines:
            word, _, numbers = line.decode("utf-8").partition(" ")
            yield word, numbers


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


#: The largest file of a set has a sixth of this when it is unpacked.
_MAX_UNPACKED_BYTES = 1 << 29
_HASH_BLOCK_BYTES = 1 << 20


class FileState(StrEnum):
    """What a look at one file shows."""

    MISSING = "missing"
    INTACT = "intact"
    DAMAGED = "checksum differs"


def file_state(file: DataFile, directory: Path) -> FileState:
    """Compare one file with its checksum."""
    path = directory / file.path
    if not path.is_file():
        return FileState.MISSING
    return FileState.INTACT if has_content(path, file.sha256) else FileState.DAMAGED


def has_content(path: Path, sha256: str) -> bool:
    """Whether a file can be read and has this digest."""
    try:
        return content_digest(path) == sha256
    except (OSError, EOFError, ValueError, lzma.LZMAError):
        return False


def content_digest(path: Path) -> str:
    """SHA-256 of a file; of what is inside for ``.xz`` and ``.npz``."""
    if path.suffix == ".npz":
        return _arrays_digest(path)
    digest, left = hashlib.sha256(), _MAX_UNPACKED_BYTES
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        while block := file.read(_HASH_BLOCK_BYTES):
            digest.update(block)
            left -= len(block)
            if left < 0:
                raise ValueError("larger than any file of a data set")
    return digest.hexdigest()


def _arrays_digest(path: Path) -> str:
    """Of names, types, shapes and values of all arrays."""
    digest = hashlib.sha256()
    for name, found in sorted(read_npz(path).items()):
        array = np.ascontiguousarray(found)
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


_DOWNLOAD_BLOCK_BYTES = 1 << 18
_TIMEOUT_S = 60


def fetch(entry: DataSet, directory: Path) -> None:
    """Bring the files of a set into ``directory``; those already intact are left alone.

    Nothing is put in place unless its checksum is right, so a broken connection or a changed
    original leaves at most fewer files, never a wrong one.
    """
    absent = [file for file in entry.files if file_state(file, directory) is not FileState.INTACT]
    if not absent:
        return
    for needed in entry.needs:
        require(needed, directory)
    directory.mkdir(parents=True, exist_ok=True)
    for file in absent:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
            made = _made(entry, file, Path(scratch), directory)
            target = directory / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            made.chmod(0o644)  # pooch gives its files to their owner alone
            made.replace(target)


def _made(entry: DataSet, file: DataFile, scratch: Path, directory: Path) -> Path:
    """The file in a place of its own, downloaded and if need be built; it is the right one."""
    if file.build is None:
        return _download(file.url, file.sha256, scratch)
    original = _download(file.url, file.original_sha256, scratch)
    made = scratch / "built" / Path(file.path).name
    made.parent.mkdir()
    try:
        file.build(original, made, directory)
    except (tarfile.TarError, zipfile.BadZipFile, KeyError, EOFError, ValueError) as error:
        raise InputError(f"data: what came from {file.url} is no {entry.name}: {error}.") from None
    if not has_content(made, file.sha256):
        raise InputError(
            f"data: {file.path} built from {file.url} does not have the expected checksum; "
            "nothing was kept."
        )
    return made


def _download(url: str, sha256: str | None, scratch: Path) -> Path:
    pooch = import_extra("pooch", "data")
    name = url.rsplit("/", 1)[-1]
    with track(f"fetching {name}", None, "MB") as progress:
        downloader = pooch.HTTPDownloader(
            progressbar=_Bar(progress),
            chunk_size=_DOWNLOAD_BLOCK_BYTES,
            timeout=_TIMEOUT_S,
            # A server that packs what it sends would have requests unpack our .gz files.
            headers={"Accept-Encoding": "identity"},
        )
        try:
            with _quiet(pooch.get_logger()):
                path = pooch.retrieve(url, sha256, "original", scratch, downloader=downloader)
        except OSError as error:  # the errors of requests among them
            raise InputError(f"data: cannot fetch {url}: {_reason(error)}.") from None
        except ValueError:
            raise InputError(f"data: {url} does not have the expected checksum.") from None
    return Path(path)


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """It logs every download, and asks for checksums, at level INFO."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """What was wrong at the bottom: requests and urllib3 wrap it several times."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error).removesuffix(".") or type(error).__name__


class _Bar:
    """The progress bar that pooch calls; reports to callbacks."""

    def __init__(self, progress: Progress) -> None:
        self.total = 0
        self._progress = progress
        self._done = 0

    def update(self, size: int) -> None:
        """So many bytes more; the last block counts as a whole one."""
        self._done += size
        received = min(self._done, self.total or self._done)
        self._progress.advance(received / 1e6, {"of MB": self.total / 1e6} if self.total else {})

    def reset(self) -> None:
        """Called at the end, before the whole is told at once."""
        self._done = 0

    def close(self) -> None:
        """Nothing to close."""


def data_state(entry: DataSet, root: Path | None, verify: bool) -> str:
    """``missing``, ``here``, or after verification ``intact`` or ``checksum differs``."""
    if root is None:
        return FileState.MISSING
    if not verify:
        here = all((root / file.path).is_file() for file in entry.files)
        return "here" if here else FileState.MISSING
    states = {file_state(file, root) for file in entry.files}
    for worst in (FileState.DAMAGED, FileState.MISSING):
        if worst in states:
            return worst
    return FileState.INTACT
