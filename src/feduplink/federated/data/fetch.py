"""Fetching the originals from their official homes, and building our files from them."""

from __future__ import annotations

import csv
import hashlib
import lzma
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from feduplink.errors import InputError
from feduplink.federated.data.registry import (
    DataSet,
    Download,
    FileState,
    file_state,
    require,
)
from feduplink.federated.data.reviews import most_frequent, read_reviews
from feduplink.files import replaced_atomically
from feduplink.observing import track

_BLOCK = 1 << 18
_TIMEOUT_S = 60
_EMBEDDED_WORDS = 25_000
_GLOVE_MEMBER = "glove.6B.50d.txt"


def fetch(entry: DataSet, directory: Path) -> None:
    """Bring the files of a set into ``directory``; those already intact are left alone.

    Nothing is put in place unless its checksum is right, so a broken connection or a changed
    original leaves the directory as it was.
    """
    if all(file_state(file, directory) is FileState.INTACT for file in entry.files):
        return
    for needed in entry.needs:
        require(needed, directory)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
        originals = [_download(item, Path(scratch)) for item in entry.downloads]
        built = Path(scratch, "built")
        try:
            _BUILDERS[entry.name](originals, built, directory)
        except (tarfile.TarError, zipfile.BadZipFile, KeyError, EOFError, ValueError) as error:
            raise InputError(
                f"data: what came from {entry.source} is no {entry.name}: {error}."
            ) from None
        for file in entry.files:
            if file_state(file, built) is not FileState.INTACT:
                raise InputError(
                    f"data: {file.path} built from {entry.downloads[0].url} does not have the "
                    "expected checksum; nothing was kept."
                )
        for file in entry.files:
            target = directory / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            (built / file.path).replace(target)


def _download(item: Download, scratch: Path) -> Path:
    target = scratch / item.url.rsplit("/", 1)[-1]
    digest = hashlib.sha256()
    try:
        with (
            urllib.request.urlopen(item.url, timeout=_TIMEOUT_S) as reply,
            target.open("wb") as out,
        ):
            length = reply.headers.get("Content-Length")
            received, total = 0, int(length) if length else None
            megabytes = None if total is None else total / 1e6
            with track(f"fetching {target.name}", megabytes, "MB") as tracker:
                while block := reply.read(_BLOCK):
                    out.write(block)
                    digest.update(block)
                    received += len(block)
                    tracker.advance(received / 1e6)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise InputError(f"data: cannot fetch {item.url}: {error}.") from None
    if total is not None and received < total:
        raise InputError(f"data: {item.url} broke off after {received} of {total} bytes.")
    if item.sha256 is not None and digest.hexdigest() != item.sha256:
        raise InputError(f"data: {item.url} does not have the expected checksum.")
    return target


def _build_mnist(originals: list[Path], built: Path, _directory: Path) -> None:
    target = built / "mnist"
    target.mkdir(parents=True)
    for original in originals:
        original.replace(target / original.name)


def _build_airquality(originals: list[Path], built: Path, _directory: Path) -> None:
    target = built / "airquality" / "AirQualityUCI.csv"
    target.parent.mkdir(parents=True)
    with (
        zipfile.ZipFile(originals[0]) as archive,
        archive.open("AirQualityUCI.csv") as source,
        target.open("wb") as out,
    ):
        shutil.copyfileobj(source, out)


def _build_imdb(originals: list[Path], built: Path, _directory: Path) -> None:
    """One row a review, ordered by split (train, test), label and id."""
    labels = {"neg": 0, "pos": 1}
    rows = []
    with tarfile.open(originals[0]) as archive:
        for member in archive:
            parts = Path(member.name).parts
            if len(parts) != 4 or parts[2] not in labels or not member.isfile():
                continue
            split, label, (number, rating) = parts[1], labels[parts[2]], parts[3][:-4].split("_")
            source = archive.extractfile(member)
            assert source is not None
            rows.append((split, label, int(number), int(rating), source.read().decode("utf-8")))
    rows.sort(key=lambda row: (row[0] != "train", row[1], row[2]))
    target = built / "imdb" / "imdb_50k.csv.xz"
    with (
        replaced_atomically(target) as temporary,
        lzma.open(temporary, "wt", encoding="utf-8", newline="") as out,
    ):
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("split", "label", "id", "rating", "text"))
        writer.writerows(rows)


def _build_glove(originals: list[Path], built: Path, directory: Path) -> None:
    """The vectors of the most frequent tokens of the IMDb training reviews; zero if unknown."""
    reviews = read_reviews(directory / "imdb" / "imdb_50k.csv.xz")
    frequent = most_frequent((r.text for r in reviews if r.split == "train"), _EMBEDDED_WORDS)
    row_of = {token: row for row, (token, _) in enumerate(frequent)}
    vectors = np.zeros((len(frequent), 50), np.float16)
    in_glove = np.zeros(len(frequent), np.bool_)
    for word, numbers in _glove_lines(originals[0]):
        if (row := row_of.get(word)) is not None:
            vectors[row] = np.array(numbers.split(), np.float32)
            in_glove[row] = True
    target = built / "glove" / "glove_6b_50d_imdb25k_f16.npz"
    target.parent.mkdir(parents=True)
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


_BUILDERS: dict[str, Callable[[list[Path], Path, Path], None]] = {
    "mnist": _build_mnist,
    "airquality": _build_airquality,
    "imdb": _build_imdb,
    "glove": _build_glove,
}
