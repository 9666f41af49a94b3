"""Movie reviews as tokens: the reader, the tokeniser, the vocabulary."""

from __future__ import annotations

import csv
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from feduplink.errors import InputError
from feduplink.storage.files import check_regular

#: Rows of the embedding before the words: unknown words, and the filling after a review.
UNKNOWN, PADDING = 0, 1
SPECIAL_TOKENS = 2

#: Of a file, packed or not: 50,000 reviews are a quarter of it.
_MOST_BYTES = 1 << 28

_TOKEN = re.compile(r"[a-z0-9]+(?=n't\b)|n't\b|'(?:s|m|re|ve|d|ll)\b|[a-z0-9]+|[^\sa-z0-9]")


@dataclass(frozen=True)
class Review:
    """One labelled review."""

    split: str
    positive: bool
    text: str


def read_reviews(path: Path) -> Iterator[Review]:
    """The reviews of ``imdb_50k.csv.xz``, in the order of the file."""
    check_regular(path, "data", _MOST_BYTES)
    left = _MOST_BYTES
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, strict=True):
                review = Review(row["split"], row["label"] == "1", row["text"])
                left -= len(review.text)
                if left < 0:
                    raise ValueError(f"unpacks to more than {_MOST_BYTES} characters")
                yield review
    except (lzma.LZMAError, OSError, EOFError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(f"data: {path} is damaged: {error}.") from None


def tokens(text: str) -> Iterator[str]:
    """Words, their clitics and single marks of a review, in lower case."""
    plain = text.lower().replace("<br />", " ").replace("’", "'")
    return (match.group() for match in _TOKEN.finditer(plain))


def most_frequent(texts: Iterable[str], count: int) -> list[tuple[str, int]]:
    """The ``count`` most frequent tokens with their counts; ties in alphabetical order."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokens(text))
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:count]


def encode(
    texts: Iterable[str], vocabulary: dict[str, int], length: int | None = None
) -> tuple[np.ndarray[Any, np.dtype[np.int16]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Rows of the embedding for the tokens of N texts, (N, T), and how many there are, (N,).

    Words outside the vocabulary become :data:`UNKNOWN`, what follows a review shorter than the
    longest :data:`PADDING`. A review without any token is one unknown word. With ``length`` only
    so many tokens of a text count. 16 bits per token: 25,000 whole reviews are 140 MB.
    """
    rows = [
        np.array([vocabulary.get(t, UNKNOWN) for t in islice(tokens(text), length)] or [UNKNOWN])
        for text in texts
    ]
    lengths = np.array([len(row) for row in rows], np.int64)
    table = np.full((len(rows), lengths.max()), PADDING, np.int16)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = row
    return table, lengths
