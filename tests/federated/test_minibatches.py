from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
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


def test_step_is_padded_to_its_longest_sequence():
    batches = gathered([[3, 3, 9, 9], [5, 5, 7, 7]], 2)
    assert batches.inputs.shape == (2, 2, 2, 9)
    for step in range(2):
        inputs, _, _ = batches.step(step)
        assert inputs.shape == (2, 2, int(batches.longest[:, step].max()))
        assert inputs.equal(batches.inputs[:, step, :, : inputs.shape[2]])
        for model in range(2):
            assert inputs[model].count_nonzero(1).max() == batches.longest[model, step]


def test_part_of_a_step_is_padded_to_its_longest_sequence():
    batches = gathered([[2, 2], [6, 6], [4, 4]], 2)
    inputs, targets, weight = batches.step(0, torch.tensor([2, 0]))
    assert inputs.shape == (2, 2, 4)
    assert targets.equal(batches.targets[[2, 0], 0])
    assert weight.equal(batches.weight[[2, 0], 0])


def test_large_steps_are_split_into_parts_of_similar_length():
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


def test_steps_without_sequences_are_not_split():
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


SIZES = (5, 12, 3)


def data() -> FederatedData:
    workers = [Examples(torch.zeros(k, 1), torch.zeros(k)) for k in SIZES]
    return FederatedData.from_workers(workers, workers[0])


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """What to draw, and in which order."""
    return np.random.default_rng(seed), np.random.default_rng([seed, 1])


def draw(work: LocalWork, present=(True, True, True), seed=0):
    return draw_batches(data(), work, np.array(present), *generators(seed))


def seen_by(batches, worker: int) -> list[int]:
    return batches.rows[worker][batches.weight[worker] > 0].tolist()


def test_pass_over_the_data_contains_every_example_once():
    batches = draw(LocalWork(batch_size=4))
    assert batches.steps.tolist() == [2, 3, 1]
    assert sorted(seen_by(batches, 0)) == list(range(5))
    assert sorted(seen_by(batches, 1)) == list(range(5, 17))
    assert sorted(seen_by(batches, 2)) == list(range(17, 20))


def test_weights_of_a_minibatch_sum_to_one():
    batches = draw(LocalWork(batch_size=4))
    assert batches.weight[0, 0].tolist() == [0.25] * 4
    assert batches.weight[0, 1].tolist() == [1.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(batches.weight[2, 0].tolist(), [1 / 3] * 3 + [0])


def test_a_number_of_batches_is_drawn_without_replacement():
    batches = draw(LocalWork(batch_size=4, batches=2))
    assert batches.rows.shape == (3, 2, 4)
    assert batches.steps.tolist() == [2, 2, 1]
    assert len(set(seen_by(batches, 1))) == 8
    assert set(seen_by(batches, 1)) <= set(range(5, 17))


def test_absent_worker_has_no_minibatches_and_does_not_affect_others():
    work = LocalWork(batch_size=4)
    full, without = draw(work), draw(work, (False, True, True))
    assert without.steps.tolist() == [0, 3, 1]
    assert seen_by(without, 0) == []
    assert seen_by(without, 1) == seen_by(full, 1)
    assert seen_by(without, 2) == seen_by(full, 2)


def test_a_worker_without_data_gets_no_minibatch():
    full = data()
    nobodys = replace(full, shares=(full.shares[0], full.shares[1][:0], full.shares[2]))
    work = LocalWork(batch_size=4)
    batches = draw_batches(nobodys, work, np.ones(3, bool), *generators(0))
    assert batches.steps.tolist() == [2, 0, 1]
    assert seen_by(batches, 1) == []


def test_equal_generators_give_equal_minibatches():
    work = LocalWork(batch_size=4)
    assert draw(work, seed=1).rows.equal(draw(work, seed=1).rows)
    assert not draw(work, seed=1).rows.equal(draw(work, seed=2).rows)


def sequences(*lengths: list[int]) -> FederatedData:
    longest = max(map(max, lengths))
    workers = [
        Examples(torch.zeros(len(own), longest), torch.zeros(len(own)), torch.tensor(own))
        for own in lengths
    ]
    return FederatedData.from_workers(workers, workers[0])


def draw_sequences(data: FederatedData, work: LocalWork, present=None, seed=0):
    present = np.ones(len(data.shares), bool) if present is None else np.array(present)
    return draw_batches(data, work, present, *generators(seed))


def test_sequences_of_similar_length_share_a_minibatch():
    lengths = np.random.default_rng(0).permutation(np.arange(1, 24)).tolist()
    data = sequences(lengths)
    batches = draw_sequences(data, LocalWork(batch_size=5))
    assert sorted(seen_by(batches, 0)) == list(range(23))
    found = {
        tuple(sorted(data.pool.lengths[rows[weight > 0]].tolist()))
        for rows, weight in zip(batches.rows[0], batches.weight[0], strict=True)
    }
    expected = [range(first, min(first + 5, 24)) for first in range(1, 24, 5)]
    assert found == {tuple(lengths) for lengths in expected}
    np.testing.assert_allclose(batches.weight[0].sum(-1), 1, rtol=1e-6)


def test_order_of_minibatches_and_of_equal_lengths_is_random():
    data = sequences([1] * 20 + [7] * 20)
    work = LocalWork(batch_size=10, batches=2)
    draws = [draw_sequences(data, work, seed=seed) for seed in range(40)]
    first = [int(data.pool.lengths[drawn.rows[0, 0, 0]]) for drawn in draws]
    assert 10 < first.count(7) < 30
    assert len({tuple(sorted(drawn.rows[0, 0].tolist())) for drawn in draws}) > 30
    assert all(drawn.steps.tolist() == [2] for drawn in draws)
    again = draw_sequences(data, work, seed=3)
    assert again.rows.equal(draws[3].rows)


def longest(batches, data: FederatedData, worker: int) -> list[int]:
    steps = int(batches.steps[worker])
    return data.pool.lengths[batches.rows[worker, :steps]].amax(-1).tolist()


def test_workers_and_runs_have_long_minibatches_in_the_same_steps():
    data = sequences(list(range(1, 25)), list(range(101, 125)))
    work = LocalWork(batch_size=4, batches=5)
    present = np.ones(2, bool)
    ranks = []
    for run in range(3):
        order = np.random.default_rng(7)
        drawn = draw_batches(data, work, present, np.random.default_rng(run), order)
        ranks += [np.argsort(longest(drawn, data, worker)).tolist() for worker in range(2)]
    assert len(ranks) == 6
    assert all(own == ranks[0] for own in ranks)


def test_every_order_of_minibatches_is_equally_likely():
    data = sequences(list(range(1, 11)), list(range(1, 7)))
    work = LocalWork(batch_size=2)
    drawn = [draw_sequences(data, work, seed=seed) for seed in range(600)]
    orders = Counter(tuple(longest(batches, data, 1)) for batches in drawn)
    assert len(orders) == 6
    # Expected 100 of each; the standard deviation is 9.1.
    assert all(60 < count < 140 for count in orders.values())


@pytest.mark.parametrize(("minibatches", "in_runs"), [(100, False), (120, True)])
def test_more_than_a_hundred_minibatches_are_sorted_in_blocks(minibatches: int, in_runs: bool):
    data = sequences(list(range(1, 3 * minibatches + 1)))
    work = LocalWork(batch_size=3)
    made = {tuple(sorted(b)) for b in draw_sequences(data, work).rows[0].tolist()}
    other = {tuple(sorted(b)) for b in draw_sequences(data, work, seed=1).rows[0].tolist()}
    assert (made != other) is in_runs
    assert sorted(row for batch in made for row in batch) == list(range(3 * minibatches))


def test_absent_workers_are_padded_with_the_shortest_sequence():
    data = sequences([9, 8, 7, 6], [5, 4, 3, 2, 2, 3])
    work = LocalWork(batch_size=2)
    full, without = draw_sequences(data, work), draw_sequences(data, work, (False, True))
    assert without.steps.tolist() == [0, 3]
    assert seen_by(without, 1) == seen_by(full, 1)
    assert data.pool.lengths[without.rows[0]].eq(2).all()
