"""Evaluation of many models on their test sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.tasks.task import Examples


@torch.no_grad()
def evaluate_models(
    stack: ModelStack, weights: Weights, tests: Sequence[Examples], at_once: int
) -> list[Tensor]:
    """Compute the outputs of many models on their test sets.

    Sequences are sorted by length and batched with sequences of similar length of all test sets,
    because the time of a recurrence depends on the longest sequence, not on their number.

    Args:
        stack: module of the R models.
        weights: weights of the R models, (R, *shape) per parameter.
        tests: S test sets; model r is evaluated on ``tests[r % S]``.
        at_once: batch size per test set; for sequences, the batch size at mean length.

    Returns:
        Outputs (N, ...) of each model on the N examples of its test set.
    """
    models = len(next(iter(weights.values())))
    lengths = [test.lengths for test in tests if test.lengths is not None]
    if lengths:
        return _evaluate_sequences(stack, weights, [t.inputs for t in tests], lengths, at_once)
    if all(test is tests[0] for test in tests):
        tests = tests[:1]
    outputs: list[Tensor] = [torch.empty(0)] * models
    for number, test in enumerate(tests):
        rows = slice(number, None, len(tests))
        some = {name: weight[rows] for name, weight in weights.items()}
        outputs[rows] = _outputs(stack, some, (b[None] for b in torch.split(test.inputs, at_once)))
    return outputs


def _evaluate_sequences(
    stack: ModelStack,
    weights: Weights,
    inputs: Sequence[Tensor],
    lengths: Sequence[Tensor],
    at_once: int,
) -> list[Tensor]:
    orders = [own.argsort(stable=True) for own in lengths]
    most = max(map(len, orders))
    # Smaller test sets are padded with copies of their shortest sequence.
    rows = torch.stack([torch.cat((own[:1].expand(most - len(own)), own)) for own in orders])
    rising = torch.stack([own[r] for own, r in zip(lengths, rows, strict=True)]).amax(0).tolist()
    outputs = _outputs(stack, weights, _by_length(inputs, rows, rising, at_once))
    back = [(own.argsort() + most - len(own)).to(inputs[0].device) for own in orders]
    return [output[back[r % len(back)]] for r, output in enumerate(outputs)]


def _outputs(stack: ModelStack, weights: Weights, batches: Iterable[Tensor]) -> Tensor:
    """Outputs of R models on batches (S, B, ...), of model r on row r % S: (R, N, ...)."""
    models = len(next(iter(weights.values())))

    def each(batch: Tensor) -> Tensor:
        return batch.expand(models // len(batch), *batch.shape).flatten(0, 1)

    return torch.cat([stack(weights, each(batch)) for batch in batches], dim=1)


def _by_length(
    inputs: Sequence[Tensor], rows: Tensor, rising: Sequence[int], at_once: int
) -> Iterator[Tensor]:
    """Batches (S, B, T) of the rows (S, N) of S test sets.

    ``rising`` is the longest length in each column of ``rows``, in ascending order.
    """
    max_elements = at_once * sum(rising) / len(rising)
    first = 0
    for end in range(1, len(rising) + 1):
        if end == len(rising) or (end + 1 - first) * rising[end] > max_elements:
            longest = rising[end - 1]
            yield torch.stack(
                [
                    own[chosen[first:end].to(own.device), :longest]
                    for own, chosen in zip(inputs, rows, strict=True)
                ]
            )
            first = end
