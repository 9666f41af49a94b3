"""Movie reviews as tokens: reader, tokeniser and vocabulary."""

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

from feduplink.storage.files import reading

#: Token ids of unknown words and of padding; those of the vocabulary follow.
UNKNOWN, PADDING = 0, 1
#: Number of token ids before those of the vocabulary.
SPECIAL_TOKENS = 2

#: Maximum size of a file in bytes, ten times that of 50,000 reviews.
_MAX_BYTES = 1 << 28

_TOKEN = re.compile(r"[a-z0-9]+(?=n't\b)|n't\b|'(?:s|m|re|ve|d|ll)\b|[a-z0-9]+|[^\sa-z0-9]")


@dataclass(frozen=True)
class Review:
    """Labelled review.

    Attributes:
        split: ``train`` or ``test``.
        positive: whether the review is positive.
        text: text of the review.
    """

    split: str
    positive: bool
    text: str


def read_reviews(path: Path) -> Iterator[Review]:
    """Read the reviews of ``imdb_50k.csv.xz`` in the order of the file.

    Raises:
        InputError: if the file is missing or damaged.
    """
    with (
        reading(path, "data", "damaged", _MAX_BYTES),
        lzma.open(path, "rt", encoding="utf-8", newline="") as file,
    ):
        for row in csv.DictReader(file, strict=True):
            yield Review(row["split"], row["label"] == "1", row["text"])


def tokens(text: str) -> Iterator[str]:
    """Split a review into words, clitics and punctuation marks, in lower case.

    >>> list(tokens("It isn't bad!"))
    ['it', 'is', "n't", 'bad', '!']
    """
    plain = text.lower().replace("<br />", " ").replace("’", "'")
    return (match.group() for match in _TOKEN.finditer(plain))


def most_frequent(texts: Iterable[str], count: int) -> list[tuple[str, int]]:
    """Return the ``count`` most frequent tokens with their counts, ties in alphabetical order."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokens(text))
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:count]


def encode(
    texts: Iterable[str], vocabulary: dict[str, int], length: int | None = None
) -> tuple[np.ndarray[Any, np.dtype[np.int16]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Encode N texts as token ids.

    Words outside the vocabulary become :data:`UNKNOWN`; so does a text without tokens.

    Args:
        texts: N texts.
        vocabulary: token id by word.
        length: maximum number of tokens of a text; None: no limit.

    Returns:
        Token ids padded with :data:`PADDING`, (N, T) int16, and numbers of tokens, (N,) int64.
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
