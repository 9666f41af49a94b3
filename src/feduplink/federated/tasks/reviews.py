"""Task ``imdb``: sentiment of movie reviews with a recurrent network, practical on a GPU only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from feduplink.errors import InputError
from feduplink.federated.data.datasets import read_npz, require
from feduplink.federated.data.partition import held_out_and_shares
from feduplink.federated.data.reviews import SPECIAL_TOKENS, encode, read_reviews
from feduplink.federated.models.lstm import ReviewClassifier
from feduplink.federated.tasks.task import Examples, FederatedData, LocalWork, Task
from feduplink.scenario import data_sizes

WORK = LocalWork(
    batch_size=100,
    batches=10,
    learning_rate=2e-3,
    clip_norm=5.0,
    epsilon=1e-5,
    weight_decay=1e-4,
)


@dataclass(frozen=True)
class Size:
    """Size of the task; the defaults are those of the paper.

    Attributes:
        train: number of training reviews of all workers.
        test: number of test reviews.
        words: size of the vocabulary, the most frequent words.
        length: maximum number of tokens of a review; None: no limit.
        hidden: number of units of an LSTM layer per direction.

    """

    train: int = 17_500
    test: int = 7_500
    words: int = 5_000
    length: int | None = None
    hidden: int = 128


PAPER_SIZE = Size()


def imdb(
    *,
    workers: int,
    directory: Path | None = None,
    size: Size = PAPER_SIZE,
    work: LocalWork = WORK,
) -> Task:
    """Make the task of movie reviews as in the paper.

    Args:
        workers: number of workers L.
        directory: directory of the data sets; None uses that of ``FEDUPLINK_DATA``.
        size: size of data and model, by default 17,500 training and 7,500 test reviews.
        work: local training of a worker in one round.

    Returns:
        The task, with a :class:`ReviewClassifier` and binary cross-entropy.

    Raises:
        InputError: if the data sets ``imdb`` and ``glove`` are missing or damaged.
    """
    reviews_file = require("imdb", directory) / "imdb" / "imdb_50k.csv.xz"
    glove_file = require("glove", directory) / "glove" / "glove_6b_50d_imdb25k_f16.npz"
    words, vectors, known = read_word_vectors(glove_file, size.words)
    vocabulary = {word: row + SPECIAL_TOKENS for row, word in enumerate(words)}
    reviews = [review for review in read_reviews(reviews_file) if review.split == "train"]
    if len(reviews) < size.train + size.test:
        raise InputError(
            f"data: {reviews_file} has {len(reviews)} training reviews; accepted: "
            f"{size.train + size.test} or more."
        )
    tokens, lengths = encode((r.text for r in reviews), vocabulary, size.length)
    labels = torch.tensor([review.positive for review in reviews], dtype=torch.float32)
    pool = Examples(torch.from_numpy(tokens), labels, torch.from_numpy(lengths))
    sizes = data_sizes(workers)
    sizes = np.floor(sizes / sizes.sum() * size.train).astype(np.int64)

    def draw(rng: np.random.Generator) -> FederatedData:
        test, shares = held_out_and_shares(len(reviews), size.test, sizes, rng)
        return FederatedData(pool, shares, pool.take(test))

    return Task(
        name="imdb",
        model=lambda: ReviewClassifier(embedding_table(vectors, known), size.hidden),
        data=draw,
        loss=partial(functional.binary_cross_entropy_with_logits, reduction="none"),
        metric=sign_error_rate,
        work=work,
        rounds=50,
        metric_name="error rate",
    )


def sign_error_rate(scores: Tensor, labels: Tensor) -> Tensor:
    """Fraction of wrong predictions of labels 0 and 1 (N,) by the sign of the scores (N,)."""
    return ((scores > 0) != (labels > 0.5)).double().mean()


def embedding_table(vectors: Tensor, known: Tensor) -> Tensor:
    """Make the initial word vectors of the embedding.

    Args:
        vectors: GloVe vectors of the V words, (V, E).
        known: whether GloVe contains the word, (V,) bool; other words get normal random vectors.

    Returns:
        Vectors of unknown words and padding, which are zero, and of the V words, (2 + V, E).
    """
    random = torch.randn_like(vectors)
    words = torch.where(known[:, None], vectors, random)
    return torch.cat((torch.zeros(SPECIAL_TOKENS, vectors.shape[1]), words))


def read_word_vectors(path: Path, count: int) -> tuple[list[str], Tensor, Tensor]:
    """Read the ``count`` most frequent words.

    Args:
        path: file of the data set ``glove``.
        count: number of words.

    Returns:
        The words, their vectors (count, 50), and whether GloVe contains them, (count,) bool.

    Raises:
        InputError: if the file is damaged or has fewer words.
    """
    arrays = read_npz(path)
    try:
        words = bytes(arrays["tokens"]).decode("utf-8").split("\n")
        vectors = torch.from_numpy(arrays["vectors"][:count].astype(np.float32))
        known = torch.from_numpy(arrays["in_glove"][:count].astype(np.bool_))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"data: {path} is damaged: {error}.") from None
    if min(len(words), len(vectors)) < count:
        raise InputError(f"data: {path} has {len(words)} words; accepted: {count} or more.")
    return words[:count], vectors, known
