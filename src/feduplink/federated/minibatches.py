"""Minibatches of the workers in every round: row indices, and examples for batched training."""

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
from feduplink.tensor_record import TensorRecord

#: Number of minibatches per block of shuffled sequences that is sorted by length.
_MINIBATCHES_PER_SORT = 100

#: Upper bound of the number of rounds per run, for the index of a round in a random stream.
_MAX_ROUNDS = 1 << 32

_Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class RoundBatches:
    """Minibatches of all workers of one run in one round.

    Attributes:
        rows: rows of the run's pool, (L, steps, B) int64; arbitrary where ``weight`` is 0.
        weight: weight of the example in the mean loss of its minibatch, (L, steps, B) float32.
        steps: number of minibatches of each worker, (L,) int64.

    """

    rows: Tensor
    weight: Tensor
    steps: Tensor


def round_index(run: int, number: int) -> int:
    """Compute the index of round ``number`` of run ``run`` in a random stream."""
    return run * _MAX_ROUNDS + number


def draw_round(
    data: FederatedData,
    work: LocalWork,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    seed: int,
    run: int,
    number: int,
) -> RoundBatches:
    """Draw the minibatches of a run in round ``number`` with :func:`draw_batches`.

    Args:
        data: data of the run.
        work: size and number of the minibatches.
        present: workers in the federation, (L,) bool.
        seed: seed of the random streams.
        run: index of the run, from 0.
        number: index of the round, from 0.
    """
    stream = numpy_generator(seed, "local-training", round_index(run, number))
    # Equal for all runs, so that they have their long sequences in the same steps.
    order = numpy_generator(seed, "minibatch-order", number)
    return draw_batches(data, work, present, stream, order)


def draw_batches(
    data: FederatedData,
    work: LocalWork,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    rng: np.random.Generator,
    order: np.random.Generator,
) -> RoundBatches:
    """Shuffle the data of every worker and divide it into minibatches.

    The last minibatch of a pass over the data may be smaller. Sequences are grouped by length, and
    all workers, as well as runs with equal ``order``, have their long minibatches in the same
    steps, which reduces padding. For each worker all orders of its minibatches are equally likely.

    Args:
        data: data of the run.
        work: size and number of the minibatches.
        present: workers in the federation, (L,) bool; absent ones have no minibatches.
        rng: generator of the content of the minibatches.
        order: generator of the order of minibatches of sequences.

    Returns:
        Minibatches of the L workers.
    """
    lengths = None if data.pool.lengths is None else data.pool.lengths.numpy()
    shares = [share.numpy() for share in data.shares]
    # Also drawn for absent workers, so that the minibatches of a worker do not depend on others.
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
    # The shortest sequence replaces missing examples, because it takes the least time.
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
    return _split(share[rng.choice(len(share), count, replace=False)], size)


def _of_similar_length(
    share: _Rows, lengths: _Rows, work: LocalWork, rng: np.random.Generator
) -> list[_Rows]:
    """Draw minibatches of sequences of similar length, in ascending order of length.

    The examples ``share`` with ``lengths`` (k,) are shuffled, sorted by length within blocks of
    :data:`_MINIBATCHES_PER_SORT` minibatches, and divided into minibatches.
    """
    size = work.batch_size
    batches, longest = [], []
    for block in _split(rng.permutation(len(share)), size * _MINIBATCHES_PER_SORT):
        rising = block[lengths[block].argsort(kind="stable")]
        batches += _split(share[rising], size)
        longest += [lengths[batch[-1]] for batch in _split(rising, size)]
    chosen = rng.permutation(len(batches))[: work.batches]
    return [batches[number] for number in sorted(chosen, key=lambda number: longest[number])]


def _in_common_order(drawn: list[list[_Rows]], order: np.random.Generator) -> list[list[_Rows]]:
    """Reorder every worker's minibatches, which are sorted by length, by common random numbers.

    A worker with m minibatches orders them by the ranks of the first m random numbers. These ranks
    are a uniformly random permutation for every m, and similar for similar m.
    """
    keys = order.random(max(len(batches) for batches in drawn))
    ranks = [keys[: len(batches)].argsort().argsort() for batches in drawn]
    return [[batches[rank] for rank in own] for batches, own in zip(drawn, ranks, strict=True)]


def _split(rows: _Rows, size: int) -> list[_Rows]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]


@dataclass(frozen=True)
class Minibatches(TensorRecord):
    """Examples of a round for R models, ordered by simulation and worker.

    Attributes:
        inputs: inputs, (R, steps, B, ...), or sequences (R, steps, B, T, ...) padded to the longest
            one of the round, T.
        targets: targets, (R, steps, B, ...).
        weight: weight of each example in the mean loss of its minibatch, (R, steps, B).
        steps: number of minibatches of each model, (R,) on the CPU.
        longest: length of the longest sequence in each minibatch, (R, steps) on the CPU; None if
            the examples are not sequences.

    """

    inputs: Tensor
    targets: Tensor
    weight: Tensor
    steps: Tensor
    longest: Tensor | None

    @classmethod
    def gather(cls, runs: Sequence[tuple[Examples, RoundBatches]]) -> Minibatches:
        """Gather the examples of one simulation per run.

        Args:
            runs: pool and minibatches of every run.

        Returns:
            Examples of R = runs · L models, ordered by run and worker.
        """
        device = runs[0][0].inputs.device
        most = max(drawn.rows.shape[1] for _, drawn in runs)
        rows = [_padded(drawn.rows, most) for _, drawn in runs]
        inputs = [pool.inputs for pool, _ in runs]
        longest = _longest([pool.lengths for pool, _ in runs], rows)
        if longest is not None:
            inputs = [part[:, : int(longest.max())] for part in inputs]
        there = [part.to(device) for part in rows]
        return cls(
            _gathered(inputs, there),
            _gathered([pool.targets for pool, _ in runs], there),
            torch.cat([_padded(drawn.weight, most) for _, drawn in runs]).to(device),
            torch.cat([drawn.steps for _, drawn in runs]),
            longest,
        )

    def repeated(self, times: int) -> Minibatches:
        """Repeat the examples for several policies, giving times · R models."""
        return self if times == 1 else Minibatches.concat([self] * times)

    def step(self, number: int, models: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Select the examples of a step.

        Args:
            number: index of the step, from 0.
            models: indices of the models, (R,); None means all.

        Returns:
            Inputs, targets and weights, (R, B, ...) each; sequences are padded to the longest one
            among them.
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
        """Maximum number of sequence elements per step, with padding; None without sequences."""
        if self.longest is None:
            return None
        return int(self.longest.sum(0).max()) * self.inputs.shape[2]

    def parts(self, number: int, max_load: float) -> list[Tensor] | None:
        """Split the models of a step into parts of limited size.

        Models with long sequences are grouped together. A part has at least one model.

        Args:
            number: index of the step, from 0.
            max_load: maximum number of sequence elements per part.

        Returns:
            Indices of the models of each part, (n,) int64; None if all models fit in one part.
        """
        if self.longest is None:
            return None
        load, order = self.longest[:, number].sort(descending=True, stable=True)
        parts, first, taken = [], 0, 0
        for place, steps in enumerate((load * self.inputs.shape[2]).tolist()):
            if place > first and taken + steps > max_load:
                parts.append(order[first:place])
                first, taken = place, 0
            taken += steps
        return [*parts, order[first:]] if parts else None


def _padded(drawn: Tensor, steps: int) -> Tensor:
    """Pad a tensor (L, s, B) with zeros to (L, steps, B)."""
    return functional.pad(drawn, (0, 0, 0, steps - drawn.shape[1]))


def _longest(lengths: list[Tensor | None], rows: list[Tensor]) -> Tensor | None:
    """Maximum sequence length in the rows (L, steps, B) of each pool, (R, steps)."""
    found = [
        pool[part].amax(-1) for pool, part in zip(lengths, rows, strict=True) if pool is not None
    ]
    return torch.cat(found) if found else None


def _gathered(pools: list[Tensor], rows: list[Tensor]) -> Tensor:
    """Rows (L, steps, B) of each pool (N, ...), concatenated over the pools: (R, steps, B, ...)."""
    models = sum(len(part) for part in rows)
    picked = pools[0].new_empty(models, *rows[0].shape[1:], *pools[0].shape[1:])
    # Written in place, because concatenation would copy all examples again.
    places = torch.split(picked, [len(part) for part in rows])
    for pool, part, place in zip(pools, rows, places, strict=True):
        torch.index_select(pool, 0, part.flatten(), out=place.flatten(0, 2))
    return picked
