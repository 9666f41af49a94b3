"""Our files, made from the originals: ``(original, target, data directory)``."""

from __future__ import annotations

import csv
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from feduplink.federated.data.reviews import most_frequent, read_reviews

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
