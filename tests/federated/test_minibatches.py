from __future__ import annotations

import numpy as np
import torch

from feduplink.federated import Examples, FederatedData, LocalWork, Minibatches, draw_batches


def examples(lengths: list[int]) -> Examples:
    """Sequence i is the number i + 1, ``lengths[i]`` times, then zeros."""
    inputs = torch.zeros(len(lengths), 20, dtype=torch.long)
    for row, length in enumerate(lengths):
        inputs[row, :length] = row + 1
    return Examples(inputs, torch.arange(len(lengths)), torch.tensor(lengths))


def gathered(workers: list[list[int]], batch_size: int) -> Minibatches:
    data = FederatedData.from_workers([examples(own) for own in workers], examples([1]))
    present = np.ones(len(workers), bool)
    work = LocalWork(batch_size=batch_size)
    drawn = draw_batches(data, work, present, np.random.default_rng(0), np.random.default_rng(1))
    return Minibatches.gather([(data.pool, drawn)])


def test_a_step_ends_with_its_longest_sequence():
    batches = gathered([[3, 3, 9, 9], [5, 5, 7, 7]], 2)
    assert batches.inputs.shape == (2, 2, 2, 9)
    for step in range(2):
        inputs, _, _ = batches.step(step)
        assert inputs.shape == (2, 2, int(batches.longest[:, step].max()))
        assert inputs.equal(batches.inputs[:, step, :, : inputs.shape[2]])
        for model in range(2):
            assert inputs[model].count_nonzero(1).max() == batches.longest[model, step]


def test_some_models_of_a_step_end_with_their_own_longest():
    batches = gathered([[2, 2], [6, 6], [4, 4]], 2)
    inputs, targets, weight = batches.step(0, torch.tensor([2, 0]))
    assert inputs.shape == (2, 2, 4)
    assert targets.equal(batches.targets[[2, 0], 0])
    assert weight.equal(batches.weight[[2, 0], 0])


def test_a_step_that_takes_too_much_is_cut_into_parts_of_like_models():
    batches = gathered([[2, 2], [6, 6], [4, 4], [1, 1]], 2)
    assert batches.largest_load == 2 * (2 + 6 + 4 + 1)
    assert batches.parts(0, 26) is None
    parts = [part.tolist() for part in batches.parts(0, 25)]
    assert parts == [[1, 2, 0], [3]]
    assert [part.tolist() for part in batches.parts(0, 14)] == [[1], [2, 0, 3]]
    assert [part.tolist() for part in batches.parts(0, 0)] == [[1], [2], [0], [3]]


def test_repeated_models_have_the_same_sequences():
    batches = gathered([[2, 2], [6, 6]], 2).repeated(3)
    assert batches.longest[:, 0].tolist() == [2, 6] * 3
    assert batches.largest_load == 3 * 2 * (2 + 6)


def test_examples_of_one_size_are_never_cut():
    workers = [Examples(torch.rand(4, 3), torch.zeros(4)) for _ in range(2)]
    data = FederatedData.from_workers(workers, workers[0])
    drawn = draw_batches(
        data, LocalWork(2), np.ones(2, bool), np.random.default_rng(0), np.random.default_rng(1)
    )
    batches = Minibatches.gather([(data.pool, drawn)])
    assert batches.longest is None
    assert batches.largest_load is None
    assert batches.parts(0, 0) is None
    assert batches.step(1)[0].equal(batches.inputs[:, 1])
