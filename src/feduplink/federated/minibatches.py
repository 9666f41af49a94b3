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
    """One round's examples for R models (lane by lane, worker by worker).

    Attributes:
        inputs: (R, steps, B, ...).
        targets: (R, steps, B, ...).
        weight: share of each example in its minibatch's mean, (R, steps, B).
        steps: minibatches of each model, R numbers.

    """

    inputs: Tensor
    targets: Tensor
    weight: Tensor
    steps: list[int]

    @classmethod
    def gather(cls, runs: Sequence[tuple[Examples, RoundBatches]]) -> Minibatches:
        """From every run's pool and what was drawn of it, run by run and worker by worker."""
        device = runs[0][0].inputs.device
        most = max(drawn.rows.shape[1] for _, drawn in runs)
        rows = [_padded(drawn.rows, most).to(device) for _, drawn in runs]
        return cls(
            _picked([pool.inputs for pool, _ in runs], rows),
            _picked([pool.targets for pool, _ in runs], rows),
            torch.cat([_padded(drawn.weight, most) for _, drawn in runs]).to(device),
            [count for _, drawn in runs for count in drawn.steps.tolist()],
        )

    def repeated(self, times: int) -> Minibatches:
        """The same examples for several lanes of one run: R models become times · R."""
        if times == 1:
            return self

        def again(tensor: Tensor) -> Tensor:
            return tensor.repeat(times, *[1] * (tensor.ndim - 1))

        return Minibatches(
            again(self.inputs), again(self.targets), again(self.weight), self.steps * times
        )


def _padded(drawn: Tensor, steps: int) -> Tensor:
    """(L, s, B) as (L, steps, B), with zeros at the end."""
    return functional.pad(drawn, (0, 0, 0, steps - drawn.shape[1]))


def _picked(pools: list[Tensor], rows: list[Tensor]) -> Tensor:
    """Of each pool (N, ...) the rows (L, steps, B), one after the other: (R, steps, B, ...)."""
    models = sum(len(part) for part in rows)
    picked = pools[0].new_empty(models, *rows[0].shape[1:], *pools[0].shape[1:])
    # Straight to its place: joining the parts afterwards would copy everything again.
    places = torch.split(picked, [len(part) for part in rows])
    for pool, part, place in zip(pools, rows, places, strict=True):
        torch.index_select(pool, 0, part.flatten(), out=place.flatten(0, 2))
    return picked
