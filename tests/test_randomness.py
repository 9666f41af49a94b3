from __future__ import annotations

import itertools
from typing import get_args

import torch

from feduplink.randomness import STREAM_IDS, Stream, stream_seed, torch_generator


def test_streams_seeds_and_indices_are_all_distinct():
    seeds = [
        stream_seed(seed, stream, index)
        for seed, stream, index in itertools.product(
            range(4), ("train-channels", "test-channels", "batches"), range(4)
        )
    ]
    assert len(set(seeds)) == len(seeds)


def test_equal_seeds_give_equal_numbers():
    first, again = (torch.rand(5, generator=torch_generator(3, "model")) for _ in range(2))
    assert torch.equal(first, again)


def test_the_ids_of_streams_never_change():
    """The results that draw from a stream depend on its id."""
    assert {
        "train-channels": 0,
        "validation-channels": 1,
        "test-channels": 2,
        "round-channels": 3,
        "csi-noise": 4,
        "batches": 5,
        "model": 6,
        "policy": 7,
        "data": 8,
        "local-training": 9,
        "arrivals": 10,
        "search": 11,
        "cell": 12,
        "minibatch-order": 13,
        "scene": 14,
        "tuning-noise": 15,
        "calibration-noise": 16,
        "validation-noise": 17,
        "round-noise": 18,
        "verdict-channels": 19,
        "verdict-noise": 20,
    }.items() <= STREAM_IDS.items()
    assert set(STREAM_IDS) == set(get_args(Stream))
    assert len(set(STREAM_IDS.values())) == len(STREAM_IDS)


def test_the_seeds_of_streams_never_change():
    # Literals, so that results of earlier versions are reproduced.
    assert stream_seed(0, "train-channels") == 7896617691693857887
    assert stream_seed(3, "cell", 2) == 9107656216493162789
