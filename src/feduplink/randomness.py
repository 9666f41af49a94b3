"""Independent random streams derived from one seed.

Each purpose has a separate stream: drawing more numbers for one purpose does not change the others,
and the CSI noise of tuning, validation and test is independent.
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

#: Number of each stream, which enters its seed. All results depend on these numbers: a new stream
#: gets a new number, and no number is reused.
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
    """Derive the seed of a stream by ``numpy.random.SeedSequence``.

    Args:
        seed: seed of the run, an integer of 0 or more.
        stream: purpose of the numbers.
        index: number of the substream, such as a run or a block of channels.

    Returns:
        A seed of 63 bits; distinct streams and indices give independent seeds.

    Raises:
        InputError: if ``seed`` is negative or not an integer.
    """
    if not hasattr(seed, "__index__") or seed < 0:
        raise InputError(f"seed: {seed!r} is not accepted; accepted: an integer of 0 or more.")
    sequence = np.random.SeedSequence([seed, STREAM_IDS[stream], index])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def torch_generator(
    seed: int, stream: Stream, index: int = 0, device: str | torch.device = "cpu"
) -> torch.Generator:
    """PyTorch generator at the start of a stream; arguments as of :func:`stream_seed`."""
    return torch.Generator(device=device).manual_seed(stream_seed(seed, stream, index))


def numpy_generator(seed: int, stream: Stream, index: int = 0) -> np.random.Generator:
    """NumPy generator at the start of a stream; arguments as of :func:`stream_seed`."""
    return np.random.default_rng(stream_seed(seed, stream, index))


@contextlib.contextmanager
def own_arithmetic(device: torch.device) -> Iterator[None]:
    """Restore PyTorch's global random generator and matrix precision after the block.

    Within the block, a GPU rounds the factors of matrix products to TF32, which is precise enough
    for training.

    Args:
        device: device of the computation.
    """
    precision = torch.get_float32_matmul_precision()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(precision)
