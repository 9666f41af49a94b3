"""Which examples every worker sees in a round, as one index array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from feduplink.federated.task import FederatedData, LocalWork
from feduplink.randomness import numpy_generator

#: Sequences are sorted by length within so many minibatches' worth of shuffled examples.
_MINIBATCHES_SORTED = 100

# Random streams are indexed by run and round; no run has this many rounds.
_ROUNDS_BOUND = 1 << 32

_Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class RoundBatches:
    """The minibatches of all workers of one run in one round.

    Attributes:
        rows: rows of the run's pool, (L, steps, B) int64; where ``weight`` is 0, any row.
        weight: share of the example in its minibatch's mean loss, (L, steps, B) float32.
        steps: minibatches of each worker, (L,) int64; those with fewer pause at the end.

    """

    rows: Tensor
    weight: Tensor
    steps: Tensor


def round_index(run: int, number: int) -> int:
    """The index of round ``number`` of a run in a random stream."""
    return run * _ROUNDS_BOUND + number


def draw_round(
    data: FederatedData,
    work: LocalWork,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    seed: int,
    run: int,
    number: int,
) -> RoundBatches:
    """The minibatches of run ``run`` in round ``number``, as :func:`draw_batches` draws them."""
    stream = numpy_generator(seed, "local-training", round_index(run, number))
    # Alike in all runs: their long sequences then come together.
    order = numpy_generator(seed, "minibatch-order", number)
    return draw_batches(data, work, present, stream, order)


def draw_batches(
    data: FederatedData,
    work: LocalWork,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    rng: np.random.Generator,
    order: np.random.Generator,
) -> RoundBatches:
    """Shuffle every worker's data and cut it into minibatches, as many as ``work`` says.

    Absent workers (``present`` (L,) false) get none. The last minibatch of a pass over the data
    may be smaller than the others. Sequences come in minibatches of similar length: ``rng`` draws
    which, ``order`` when. Workers, and runs that start with equal ``order``, have their long ones
    at the same time: to each of them any order is as likely as any other, and models that train
    side by side do not wait for the longest sequence of all in every step.
    """
    lengths = None if data.pool.lengths is None else data.pool.lengths.numpy()
    shares = [share.numpy() for share in data.shares]
    # Drawn for absent workers too, so that who is present changes nobody else's batches.
    drawn = [
        _shuffled(share, work, rng)
        if lengths is None
        else _of_similar_length(share, lengths[share], work, rng)
        for share in shares
    ]
    if lengths is not None:
        drawn = _in_common_order(drawn, order)
    steps = np.array([len(batches) for batches in drawn]) * present
    shape = (len(drawn), max(1, int(steps.max())), work.batch_size)
    # Where there is no example a short one stands, which costs least.
    rows = np.full(shape, 0 if lengths is None else lengths.argmin(), np.int64)
    weight = np.zeros(shape, np.float32)
    for worker in np.flatnonzero(present):
        for step, batch in enumerate(drawn[worker]):
            rows[worker, step, : len(batch)] = batch
            weight[worker, step, : len(batch)] = np.float32(1) / np.float32(len(batch))
    return RoundBatches(torch.from_numpy(rows), torch.from_numpy(weight), torch.from_numpy(steps))


def _shuffled(share: _Rows, work: LocalWork, rng: np.random.Generator) -> list[_Rows]:
    size = work.batch_size
    count = len(share) if work.batches is None else min(len(share), size * work.batches)
    return _cut(share[rng.choice(len(share), count, replace=False)], size)


def _of_similar_length(
    share: _Rows, lengths: _Rows, work: LocalWork, rng: np.random.Generator
) -> list[_Rows]:
    """Shuffle, sort long runs of examples by length, cut, and choose minibatches; short ones first.

    ``lengths``: of the examples of ``share``, (k,). Only examples of equal length change places
    where the data are no more than :data:`_MINIBATCHES_SORTED` minibatches.
    """
    size = work.batch_size
    batches, longest = [], []
    for run in _cut(rng.permutation(len(share)), size * _MINIBATCHES_SORTED):
        rising = run[lengths[run].argsort(kind="stable")]
        batches += _cut(share[rising], size)
        longest += [lengths[batch[-1]] for batch in _cut(rising, size)]
    chosen = rng.permutation(len(batches))[: work.batches]
    return [batches[number] for number in sorted(chosen, key=lambda number: longest[number])]


def _in_common_order(drawn: list[list[_Rows]], order: np.random.Generator) -> list[list[_Rows]]:
    """Of every worker the minibatches, short ones first, as one drawn order has them come.

    The k-th number drawn says how long the k-th minibatches are. Ranked among a worker's first m,
    they are a random permutation for every m; and the largest of them is at the same place for
    nearly all m.
    """
    keys = order.random(max(len(batches) for batches in drawn))
    ranks = [keys[: len(batches)].argsort().argsort() for batches in drawn]
    return [[batches[rank] for rank in own] for batches, own in zip(drawn, ranks, strict=True)]


def _cut(rows: _Rows, size: int) -> list[_Rows]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]
