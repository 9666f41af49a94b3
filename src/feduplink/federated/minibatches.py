"""Minibatches of every worker and round: their indices, and the examples of models that train side
by side.
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
from feduplink.tensor_record import TensorRecord

#: Number of minibatches within which shuffled sequences are sorted by length.
_MINIBATCHES_SORTED = 100

#: Upper bound of the number of rounds of a run; random streams are indexed by run and round.
_MAX_ROUNDS = 1 << 32

_Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class RoundBatches:
    """The minibatches of all workers of one run in one round.

    Attributes:
        rows: rows of the run's pool, (L, steps, B) int64; any row where ``weight`` is 0.
        weight: share of the example in its minibatch's mean loss, (L, steps, B) float32.
        steps: number of minibatches of each worker, (L,) int64.

    """

    rows: Tensor
    weight: Tensor
    steps: Tensor


def round_index(run: int, number: int) -> int:
    """Return the index of round ``number`` of a run in a random stream."""
    return run * _MAX_ROUNDS + number


def draw_round(
    data: FederatedData,
    work: LocalWork,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    seed: int,
    run: int,
    number: int,
) -> RoundBatches:
    """Draw the minibatches of a run in round ``number`` by :func:`draw_batches`."""
    stream = numpy_generator(seed, "local-training", round_index(run, number))
    # Equal for all runs, so that their long sequences come at the same time.
    order = numpy_generator(seed, "minibatch-order", number)
    return draw_batches(data, work, present, stream, order)


def draw_batches(
    data: FederatedData,
    work: LocalWork,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    rng: np.random.Generator,
    order: np.random.Generator,
) -> RoundBatches:
    """Shuffle every worker's data and cut it into minibatches.

    The last minibatch of a pass over the data may be smaller than the others. Sequences are grouped
    in minibatches of similar length. Workers, and runs with equal ``order``, get their long
    minibatches in the same steps, so that models that train side by side do not wait for the
    longest sequence in every step; for each of them all orders are equally likely.

    Args:
        data: of the run.
        work: size and number of the minibatches.
        present: workers in the federation, (L,); absent ones get no minibatches.
        rng: draws the content of the minibatches.
        order: draws the order of minibatches of sequences.
    """
    lengths = None if data.pool.lengths is None else data.pool.lengths.numpy()
    shares = [share.numpy() for share in data.shares]
    # Drawn for absent workers too, so that the minibatches of a worker do not depend on others.
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
    # The shortest sequence stands in for missing examples, since it costs least.
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
    """Draw minibatches of similar length, the short ones first.

    Examples are shuffled, sorted by length within :data:`_MINIBATCHES_SORTED` minibatches, and cut.
    ``lengths``: of the examples of ``share``, (k,).
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
    """Permute every worker's minibatches, which are sorted by length, by a common random order.

    The k-th minibatch of a worker with m minibatches has the length rank of the k-th of m random
    numbers. The ranks are a random permutation for every m, and the largest of the numbers is at
    the same place for nearly all m.
    """
    keys = order.random(max(len(batches) for batches in drawn))
    ranks = [keys[: len(batches)].argsort().argsort() for batches in drawn]
    return [[batches[rank] for rank in own] for batches, own in zip(drawn, ranks, strict=True)]


def _cut(rows: _Rows, size: int) -> list[_Rows]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]


@dataclass(frozen=True)
class Minibatches(TensorRecord):
    """Examples of a round for R models (simulation by simulation, worker by worker).

    Attributes:
        inputs: (R, steps, B, ...); sequences (R, steps, B, T, ...), T the longest of the round.
        targets: (R, steps, B, ...).
        weight: share of each example in its minibatch's mean, (R, steps, B).
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
        """Gather the examples from every run's pool, run by run and worker by worker."""
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
        """Return the same examples for several simulations of a run, times · R models."""
        return self if times == 1 else Minibatches.concat([self] * times)

    def step(self, number: int, models: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs, targets and weight (R, B, ...) of a step.

        Args:
            number: of the step.
            models: indices of the models; None: all. Sequences are cut at their longest.
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
        """Largest number of sequence elements of a step, padding included; None if no sequences."""
        if self.longest is None:
            return None
        return int(self.longest.sum(0).max()) * self.inputs.shape[2]

    def parts(self, number: int, room: float) -> list[Tensor] | None:
        """Split the models of a step into parts of at most ``room`` sequence elements.

        A part has at least one model. Models with long sequences are grouped together.

        Returns:
            Indices of the models of each part, (n,) int64; None if all fit in one part.
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
    """Longest length in the rows (L, steps, B) of each pool, (R, steps)."""
    found = [
        pool[part].amax(-1) for pool, part in zip(lengths, rows, strict=True) if pool is not None
    ]
    return torch.cat(found) if found else None


def _gathered(pools: list[Tensor], rows: list[Tensor]) -> Tensor:
    """Rows (L, steps, B) of each pool (N, ...), one pool after the other: (R, steps, B, ...)."""
    models = sum(len(part) for part in rows)
    picked = pools[0].new_empty(models, *rows[0].shape[1:], *pools[0].shape[1:])
    # Written in place, because joining the parts afterwards would copy everything again.
    places = torch.split(picked, [len(part) for part in rows])
    for pool, part, place in zip(pools, rows, places, strict=True):
        torch.index_select(pool, 0, part.flatten(), out=place.flatten(0, 2))
    return picked
