"""Outputs of many models on one test set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.task import Examples


@torch.no_grad()
def evaluate(stack: ModelStack, weights: Weights, test: Examples, at_once: int) -> Tensor:
    """Outputs (R, N, ...) of R models (R, *shape) on the N examples, ``at_once`` at a time.

    Sequences are taken in the order of their length and without the filling after the longest:
    ``at_once`` of mean length, fewer of long ones.
    """
    models = len(next(iter(weights.values())))

    def outputs(batches: Iterable[Tensor]) -> Tensor:
        return torch.cat([stack(weights, b.expand(models, *b.shape)) for b in batches], dim=1)

    if test.lengths is None:
        return outputs(torch.split(test.inputs, at_once))
    order = test.lengths.argsort(stable=True)
    sorted_outputs = outputs(_by_length(test.inputs, test.lengths, order, at_once))
    return sorted_outputs[:, order.argsort().to(sorted_outputs.device)]


def _by_length(inputs: Tensor, lengths: Tensor, order: Tensor, at_once: int) -> Iterator[Tensor]:
    """Rows of ``inputs`` in ``order``, in which ``lengths`` rise, cut into batches."""
    rising = lengths[order].tolist()
    room = at_once * sum(rising) / len(rising)
    first = 0
    for end in range(1, len(rising) + 1):
        if end == len(rising) or (end + 1 - first) * rising[end] > room:
            rows = order[first:end].to(inputs.device)
            yield inputs[rows, : rising[end - 1]]
            first = end
