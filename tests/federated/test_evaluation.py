from __future__ import annotations

import torch
from torch import Tensor, nn

from feduplink.federated import Examples, evaluate_models
from feduplink.federated.models import ModelStack
from feduplink.federated.models.stacked import stacked


class Counting(nn.Module):
    """How many entries are not zero, times a weight; remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.shown: list[tuple[int, ...]] = []

    def stacked_forward(self, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        self.shown.append(tuple(inputs.shape))
        return weights["scale"][:, None] * inputs.count_nonzero(-1)


def two_models() -> tuple[ModelStack, dict[str, Tensor]]:
    stack = ModelStack(Counting())
    return stack, stacked([{"scale": torch.tensor(1.0)}, {"scale": torch.tensor(10.0)}])


def test_outputs_have_the_order_of_the_examples():
    lengths = torch.tensor([7, 1, 12, 3, 3, 10, 2])
    inputs = (torch.arange(12) < lengths[:, None]).short()
    stack, weights = two_models()
    outputs = evaluate_models(stack, weights, [Examples(inputs, torch.zeros(7), lengths)], 3)
    assert [out.tolist() for out in outputs] == [lengths.tolist(), (10 * lengths).tolist()]


def test_sequences_of_like_length_are_evaluated_together_and_trimmed():
    lengths = torch.tensor([2] * 6 + [10] * 3)
    inputs = (torch.arange(50) < lengths[:, None]).short()
    stack, weights = two_models()
    evaluate_models(stack, weights, [Examples(inputs, torch.zeros(9), lengths)], 3)
    # Three of the mean length 14/3 are 14 steps in time.
    assert stack.module.shown == [(2, 6, 2), (2, 1, 10), (2, 1, 10), (2, 1, 10)]


def test_examples_of_equal_size_are_evaluated_in_batches():
    stack, weights = two_models()
    evaluate_models(stack, weights, [Examples(torch.ones(7, 4), torch.zeros(7))], 3)
    assert stack.module.shown == [(2, 3, 4), (2, 3, 4), (2, 1, 4)]


def test_each_model_is_evaluated_on_its_own_test_set():
    one, other = (Examples(torch.ones(n, 4), torch.zeros(n)) for n in (5, 2))
    stack, weights = two_models()
    outputs = evaluate_models(stack, weights, [one, other], 3)
    assert [out.tolist() for out in outputs] == [[4] * 5, [40] * 2]
    shared = evaluate_models(stack, weights, [one, one], 3)
    assert [out.tolist() for out in shared] == [[4] * 5, [40] * 5]


def test_test_sets_of_sequences_are_evaluated_together():
    lengths = torch.tensor([4, 1, 9, 2, 3]), torch.tensor([8, 2, 5])
    tests = [
        Examples((torch.arange(9) < own[:, None]).short(), torch.zeros(len(own)), own)
        for own in lengths
    ]
    stack = ModelStack(Counting())
    scales = [1.0, 10.0, 100.0, 1000.0]  # two policies in two runs
    weights = stacked([{"scale": torch.tensor(scale)} for scale in scales])
    outputs = evaluate_models(stack, weights, tests, 3)
    for number, (output, scale) in enumerate(zip(outputs, scales, strict=True)):
        assert output.tolist() == (scale * lengths[number % 2]).tolist()
    assert all(shape[0] == 4 for shape in stack.module.shown)
    assert sum(shape[1] for shape in stack.module.shown) == 5
