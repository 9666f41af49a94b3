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
    """One round's examples for R rows (lane by lane, worker by worker).

    Attributes:
        inputs: (steps, R, B, ...).
        targets: (steps, R, B, ...).
        weight: share of each example in its minibatch's mean, (steps, R, B).
        steps: minibatches of each row, R numbers.

    """

    inputs: Tensor
    targets: Tensor
    weight: Tensor
    steps: list[int]

    @classmethod
    def gather(cls, runs: Sequence[tuple[Examples, RoundBatches]]) -> Minibatches:
        """From every run's pool and what was drawn of it, run by run and worker by worker."""
        steps = max(len(drawn.rows) for _, drawn in runs)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for pool, drawn in runs:
            missing = (0, 0, 0, 0, 0, steps - len(drawn.rows))
            rows = functional.pad(drawn.rows, missing).to(pool.inputs.device)
            weight = functional.pad(drawn.weight, missing).to(pool.inputs.device)
            inputs, targets = (
                values.index_select(0, rows.flatten()).view(*rows.shape, *values.shape[1:])
                for values in (pool.inputs, pool.targets)
            )
            parts.append((inputs, targets, weight))
        joined = (torch.cat(tensors, dim=1) for tensors in zip(*parts, strict=True))
        inputs, targets, weight = parts[0] if len(parts) == 1 else joined
        counts = [count for _, drawn in runs for count in drawn.steps.tolist()]
        return cls(inputs, targets, weight, counts)

    def repeated(self, times: int) -> Minibatches:
        """The same examples for several lanes of one run: rows R become times · R."""
        if times == 1:
            return self

        def again(tensor: Tensor) -> Tensor:
            return tensor.repeat(1, times, *[1] * (tensor.ndim - 2))

        return Minibatches(
            again(self.inputs), again(self.targets), again(self.weight), self.steps * times
        )
