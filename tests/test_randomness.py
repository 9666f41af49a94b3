from __future__ import annotations

import itertools

import torch

from feduplink.randomness import stream_seed, torch_generator


def test_streams_seeds_and_indices_are_all_distinct():
    seeds = [
        stream_seed(seed, stream, index)
        for seed, stream, index in itertools.product(
            range(4), ("train-channels", "test-channels", "batches"), range(4)
        )
    ]
    assert len(set(seeds)) == len(seeds)


def test_same_seed_same_numbers():
    first, again = (torch.rand(5, generator=torch_generator(3, "model")) for _ in range(2))
    assert torch.equal(first, again)
