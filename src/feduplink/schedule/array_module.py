"""Formulas for tensors of PyTorch and for arrays of NumPy alike.

Many rounds at once, slopes and GPUs are PyTorch's; for the few hundred numbers of a single round
each of its operations takes ten times as long as the arithmetic, and NumPy's do not. What is
written with the names that both share is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

#: A tensor or an array; whatever comes out is of the kind that went in.
Array: TypeAlias = Any


def array_module(array: Array) -> Any:
    """``torch`` or ``numpy``: whose operations an array takes."""
    return np if isinstance(array, np.ndarray) else torch


def in_double(array: Array) -> Array:
    """The same in float64."""
    return array.astype(np.float64) if isinstance(array, np.ndarray) else array.double()


def in_single(array: Array) -> Array:
    """The same in float32."""
    return array.astype(np.float32) if isinstance(array, np.ndarray) else array.float()


def array_like(values: Sequence[float], like: Array) -> Array:
    """Numbers as an array of the kind and precision of another."""
    if isinstance(like, np.ndarray):
        return np.asarray(values, like.dtype)
    return like.new_tensor(values)


def at_least(array: Array, lowest: float) -> Array:
    """The larger of every entry and a number; ``numpy.clip`` takes five times as long."""
    return np.maximum(array, lowest) if isinstance(array, np.ndarray) else array.clamp_min(lowest)


def at_most(array: Array, highest: float) -> Array:
    """The smaller of every entry and a number."""
    return np.minimum(array, highest) if isinstance(array, np.ndarray) else array.clamp_max(highest)


def stack_last(columns: Sequence[Array]) -> Array:
    """Arrays of one shape along a new last dimension; ``numpy.stack`` takes thrice as long."""
    if not isinstance(columns[0], np.ndarray):
        return torch.stack(list(columns), -1)
    stacked = np.empty((*columns[0].shape, len(columns)), columns[0].dtype)
    for place, column in enumerate(columns):
        stacked[..., place] = column
    return stacked


def take_rows(array: Array, index: Array) -> Array:
    """Rows (N, M, ...) of tensors (N, K, ...) by (N, M), or rows (M, ...) of an array by (M,)."""
    if isinstance(array, np.ndarray):
        return array[index]
    return array[torch.arange(len(index), device=index.device)[:, None], index]
