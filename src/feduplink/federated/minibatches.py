"""The examples of a round, gathered for the models that train side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from feduplink.federated.batches import RoundBatches
from feduplink.federated.task import Examples


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
