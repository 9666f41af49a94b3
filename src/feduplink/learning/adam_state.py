"""What Adam remembers, as named tensors for a checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor


def adam_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and steps of every parameter, ``exp_avg.0`` and so on."""
    return {
        f"{name}.{i}": tensor
        for i, entry in optimizer.state_dict()["state"].items()
        for name, tensor in entry.items()
    }


def restore_adam(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Inverse of :func:`adam_tensors`."""
    saved = optimizer.state_dict()
    for key, tensor in tensors.items():
        name, index = key.rsplit(".", 1)
        saved["state"].setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict(saved)
