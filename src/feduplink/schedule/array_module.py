"""Formulas for tensors of PyTorch and for arrays of NumPy alike.

Many rounds at once, slopes and GPUs are PyTorch's; for the few hundred numbers of a single round
each of its operations takes ten times as long as the arithmetic, and NumPy's do not. What is
written with the names that both share is written once.
"""

from __future__ import annotations

import functools
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


def identity(like: Array) -> Array:
    """The identity (L, L) of the kind and precision of an array (..., L)."""
    if isinstance(like, np.ndarray):
        return _identity_array(like.shape[-1], like.dtype)
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


@functools.cache
def _identity_array(size: int, dtype: np.dtype[Any]) -> Array:
    array = np.eye(size, dtype=dtype)
    array.flags.writeable = False
    return array


def sum_along(array: Array, axis: int = -1) -> Array:
    """The sum along a dimension; the method of NumPy's arrays takes half as long again."""
    return np.add.reduce(array, axis) if isinstance(array, np.ndarray) else array.sum(axis)


def largest(array: Array) -> Array:
    """The largest along the last dimension; ``numpy.amax`` takes thrice as long."""
    return np.maximum.reduce(array, -1) if isinstance(array, np.ndarray) else array.amax(-1)


def at_least(array: Array, lowest: float) -> Array:
    """The larger of every entry and a number; ``numpy.clip`` takes five times as long."""
    return np.maximum(array, lowest) if isinstance(array, np.ndarray) else array.clamp_min(lowest)


def at_most(array: Array, highest: float) -> Array:
    """The smaller of every entry and a number."""
    return np.minimum(array, highest) if isinstance(array, np.ndarray) else array.clamp_max(highest)


def stack_last(columns: Sequence[Array], like: Array) -> Array:
    """Arrays along a new last dimension, each in the shape of another one.

    ``numpy.stack`` takes thrice as long.
    """
    if not isinstance(like, np.ndarray):
        return torch.stack([column.expand_as(like) for column in columns], -1)
    stacked = np.empty((*like.shape, len(columns)), like.dtype)
    for place, column in enumerate(columns):
        stacked[..., place] = column
    return stacked


def take_rows(array: Array, index: Array) -> Array:
    """Rows (N, M, ...) of tensors (N, K, ...) by (N, M), or rows (M, ...) of an array by (M,)."""
    if isinstance(array, np.ndarray):
        return array[index]
    return array[torch.arange(len(index), device=index.device)[:, None], index]
