"""Which examples every worker sees in a round, as one index array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from feduplink.federated.task import FederatedData, LocalWork


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


def draw_batches(
    data: FederatedData,
    work: LocalWork,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    rng: np.random.Generator,
) -> RoundBatches:
    """Shuffle every worker's data and cut it into minibatches, as many as ``work`` says.

    Absent workers (``present`` (L,) false) get none. The last minibatch of a pass over the data
    may be smaller than the others.
    """
    size = work.batch_size
    taken = [
        len(share) if work.batches is None else min(len(share), size * work.batches)
        for share in data.shares
    ]
    steps = np.array([-(-count // size) for count in taken]) * present
    slots = max(1, int(steps.max())) * size
    rows = np.zeros((len(taken), slots), np.int64)
    filled = np.zeros((len(taken), slots), np.float32)
    for worker, (share, count) in enumerate(zip(data.shares, taken, strict=True)):
        # Drawn for absent workers too, so that who is present changes nobody else's batches.
        chosen = rng.choice(len(share), count, replace=False)
        if present[worker]:
            rows[worker, :count] = share.numpy()[chosen]
            filled[worker, :count] = 1
    weight = filled.reshape(len(taken), -1, size)
    weight /= np.maximum(weight.sum(-1, keepdims=True), 1)
    return RoundBatches(
        torch.from_numpy(rows.reshape(weight.shape)),
        torch.from_numpy(weight),
        torch.from_numpy(steps),
    )
