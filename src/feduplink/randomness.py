"""Independent random streams that all derive from one seed.

Channels, data, model weights and arrivals each have a stream of their own, so that changing how
many numbers one of them draws leaves the others as they were.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

Stream = Literal[
    "train-channels",
    "validation-channels",
    "test-channels",
    "round-channels",
    "csi-noise",
    "batches",
    "model",
    "policy",
    "data",
    "local-training",
    "arrivals",
    "search",
    "cell",
]

_STREAMS: tuple[str, ...] = Stream.__args__  # type: ignore[attr-defined]


def stream_seed(seed: int, stream: Stream, index: int = 0) -> int:
    """A 63-bit seed for one stream; distinct streams and indices give unrelated seeds."""
    sequence = np.random.SeedSequence([seed, _STREAMS.index(stream), index])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def torch_generator(
    seed: int, stream: Stream, index: int = 0, device: str | torch.device = "cpu"
) -> torch.Generator:
    """A torch generator at the start of the given stream."""
    return torch.Generator(device=device).manual_seed(stream_seed(seed, stream, index))


def numpy_generator(seed: int, stream: Stream, index: int = 0) -> np.random.Generator:
    """A NumPy generator at the start of the given stream."""
    return np.random.default_rng(stream_seed(seed, stream, index))
