"""Minibatches of every worker and round: indices, and the examples gathered for models that train
side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from feduplink.federated.tasks.task import Examples, FederatedData, LocalWork
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


@dataclass(frozen=True)
class Minibatches:
    """One round's examples for R models (simulation by simulation, worker by worker).

    Attributes:
        inputs: (R, steps, B, ...); sequences (R, steps, B, T, ...), T the longest of the round.
        targets: (R, steps, B, ...).
        weight: share of each example in its minibatch's mean, (R, steps, B).
        steps: minibatches of each model, R numbers.
        longest: of sequences, the longest in each minibatch, (R, steps) on the CPU; else None.

    """

    inputs: Tensor
    targets: Tensor
    weight: Tensor
    steps: list[int]
    longest: Tensor | None

    @classmethod
    def gather(cls, runs: Sequence[tuple[Examples, RoundBatches]]) -> Minibatches:
        """From every run's pool and what was drawn of it, run by run and worker by worker."""
        device = runs[0][0].inputs.device
        most = max(drawn.rows.shape[1] for _, drawn in runs)
        rows = [_padded(drawn.rows, most) for _, drawn in runs]
        inputs = [pool.inputs for pool, _ in runs]
        longest = _longest([pool.lengths for pool, _ in runs], rows)
        if longest is not None:
            inputs = [part[:, : int(longest.max())] for part in inputs]
        there = [part.to(device) for part in rows]
        return cls(
            _picked(inputs, there),
            _picked([pool.targets for pool, _ in runs], there),
            torch.cat([_padded(drawn.weight, most) for _, drawn in runs]).to(device),
            [count for _, drawn in runs for count in drawn.steps.tolist()],
            longest,
        )

    def repeated(self, times: int) -> Minibatches:
        """The same examples for several simulations of one run: R models become times · R."""
        if times == 1:
            return self

        def again(tensor: Tensor) -> Tensor:
            return tensor.repeat(times, *[1] * (tensor.ndim - 1))

        return Minibatches(
            again(self.inputs),
            again(self.targets),
            again(self.weight),
            self.steps * times,
            None if self.longest is None else again(self.longest),
        )

    def step(self, number: int, models: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, targets and weight (R, B, ...) of one step, of all models or of some.

        Sequences end with the longest of them.
        """
        inputs, targets, weight = (
            part[:, number] if models is None else part[models.to(part.device), number]
            for part in (self.inputs, self.targets, self.weight)
        )
        if self.longest is not None:
            longest = self.longest[:, number]
            inputs = inputs[:, :, : int((longest if models is None else longest[models]).max())]
        return inputs, targets, weight

    @property
    def largest_load(self) -> int | None:
        """Of sequences, the steps in time of all of them in the step that has most; else None."""
        if self.longest is None:
            return None
        return int(self.longest.sum(0).max()) * self.inputs.shape[2]

    def parts(self, number: int, room: float) -> list[Tensor] | None:
        """Models that are trained together in one step, (n,) int64 per part; None is all of them.

        As many as have no more than ``room`` steps in time between them, and at least one. Those
        with long sequences go together, so that the others are done soon.
        """
        if self.longest is None:
            return None
        load, order = self.longest[:, number].sort(descending=True, stable=True)
        parts, first, taken = [], 0, 0
        for place, steps in enumerate((load * self.inputs.shape[2]).tolist()):
            if place > first and taken + steps > room:
                parts.append(order[first:place])
                first, taken = place, 0
            taken += steps
        return [*parts, order[first:]] if parts else None


def _padded(drawn: Tensor, steps: int) -> Tensor:
    """(L, s, B) as (L, steps, B), with zeros at the end."""
    return functional.pad(drawn, (0, 0, 0, steps - drawn.shape[1]))


def _longest(lengths: list[Tensor | None], rows: list[Tensor]) -> Tensor | None:
    """Of each pool's lengths (N,) the longest in rows (L, steps, B): (R, steps)."""
    found = [
        pool[part].amax(-1) for pool, part in zip(lengths, rows, strict=True) if pool is not None
    ]
    return torch.cat(found) if found else None


def _picked(pools: list[Tensor], rows: list[Tensor]) -> Tensor:
    """Of each pool (N, ...) the rows (L, steps, B), one after the other: (R, steps, B, ...)."""
    models = sum(len(part) for part in rows)
    picked = pools[0].new_empty(models, *rows[0].shape[1:], *pools[0].shape[1:])
    # Straight to its place: joining the parts afterwards would copy everything again.
    places = torch.split(picked, [len(part) for part in rows])
    for pool, part, place in zip(pools, rows, places, strict=True):
        torch.index_select(pool, 0, part.flatten(), out=place.flatten(0, 2))
    return picked
