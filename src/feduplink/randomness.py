"""Independent random streams that derive from one seed.

Every purpose has its own stream, so that drawing more numbers for one leaves the others unchanged,
and so that no realisation of the CSI noise that a policy was tuned or selected on is met again when
the policy is judged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch

from feduplink.errors import InputError

Stream = Literal[
    "train-channels",
    "validation-channels",
    "test-channels",
    "round-channels",
    "csi-noise",
    "tuning-noise",
    "calibration-noise",
    "validation-noise",
    "round-noise",
    "batches",
    "model",
    "policy",
    "data",
    "local-training",
    "arrivals",
    "search",
    "cell",
    "minibatch-order",
    "scene",
    "verdict-channels",
    "verdict-noise",
]

#: The number that a stream adds to the seed. Part of every result: a new stream takes a new number,
#: and a number is never given to another stream.
STREAM_IDS: dict[Stream, int] = {
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
}


def stream_seed(seed: int, stream: Stream, index: int = 0) -> int:
    """A 63-bit seed for one stream; distinct streams and indices give unrelated seeds."""
    if not hasattr(seed, "__index__") or seed < 0:
        raise InputError(f"seed: {seed!r} is not accepted; accepted: an integer of 0 or more.")
    sequence = np.random.SeedSequence([seed, STREAM_IDS[stream], index])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def torch_generator(
    seed: int, stream: Stream, index: int = 0, device: str | torch.device = "cpu"
) -> torch.Generator:
    """A torch generator at the start of the given stream."""
    return torch.Generator(device=device).manual_seed(stream_seed(seed, stream, index))


def numpy_generator(seed: int, stream: Stream, index: int = 0) -> np.random.Generator:
    """A NumPy generator at the start of the given stream."""
    return np.random.default_rng(stream_seed(seed, stream, index))


@contextlib.contextmanager
def own_arithmetic(device: torch.device) -> Iterator[None]:
    """Leave torch's global generator and precision as they were.

    On a GPU products round their factors to TF32, which training does not feel.
    """
    precision = torch.get_float32_matmul_precision()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(precision)
