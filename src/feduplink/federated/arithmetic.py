"""Random numbers and precision of a federation, apart from those of the program around it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


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
