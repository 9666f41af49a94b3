from __future__ import annotations

import numpy as np
import torch

from feduplink.federated import Examples, FederatedData, LocalWork
from feduplink.federated.batches import draw_batches

SIZES = (5, 12, 3)


def data() -> FederatedData:
    workers = [Examples(torch.zeros(k, 1), torch.zeros(k)) for k in SIZES]
    return FederatedData.of(workers, workers[0])


def draw(work: LocalWork, present=(True, True, True), seed=0):
    return draw_batches(data(), work, np.array(present), np.random.default_rng(seed))


def seen_by(batches, worker: int) -> list[int]:
    return batches.rows[worker][batches.weight[worker] > 0].tolist()


def test_a_pass_over_the_data_shows_every_example_once():
    batches = draw(LocalWork(batch_size=4))
    assert batches.steps.tolist() == [2, 3, 1]
    assert sorted(seen_by(batches, 0)) == list(range(5))
    assert sorted(seen_by(batches, 1)) == list(range(5, 17))
    assert sorted(seen_by(batches, 2)) == list(range(17, 20))


def test_the_weights_of_a_minibatch_make_its_mean():
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


def test_an_absent_worker_does_nothing_and_changes_nothing_for_the_others():
    work = LocalWork(batch_size=4)
    full, without = draw(work), draw(work, (False, True, True))
    assert without.steps.tolist() == [0, 3, 1]
    assert seen_by(without, 0) == []
    assert seen_by(without, 1) == seen_by(full, 1)
    assert seen_by(without, 2) == seen_by(full, 2)


def test_same_generator_same_batches():
    work = LocalWork(batch_size=4)
    assert draw(work, seed=1).rows.equal(draw(work, seed=1).rows)
    assert not draw(work, seed=1).rows.equal(draw(work, seed=2).rows)
