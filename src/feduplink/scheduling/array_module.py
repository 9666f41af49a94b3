"""Array operations for formulas that run on PyTorch tensors and on NumPy arrays.

PyTorch handles many rounds at once, gradients and GPUs. For the few hundred numbers of a single
round the overhead of a PyTorch operation is ten times that of a NumPy operation, so single rounds
use NumPy. Formulas use the names both libraries share; :func:`array_module` returns the operations
whose names or signatures differ.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

_ONE = np.ones((), np.float32)
#: A tensor or an array; functions return the kind they are given.
Array: TypeAlias = Any


def array_module(array: Array) -> Any:
    """Return :class:`ArrayOperations` for a NumPy array, :class:`TensorOperations` for a tensor."""
    return ArrayOperations if isinstance(array, np.ndarray) else TensorOperations


class ArrayOperations:
    """Operations on NumPy arrays.

    Ufuncs where possible: NumPy functions written in Python take several times as long.
    """

    exp, log, log1p, sqrt, sign = np.exp, np.log, np.log1p, np.sqrt, np.sign
    minimum, maximum, where, concatenate = np.minimum, np.maximum, np.where, np.concatenate
    contiguous = np.ascontiguousarray
    #: Clamp every entry from below or from above.
    at_least, at_most = np.maximum, np.minimum
    #: Sum and maximum along a dimension.
    sum_along, max_along = np.add.reduce, np.maximum.reduce
    #: Σ a b along the last dimension.
    dot_last = np.vecdot

    @staticmethod
    @functools.cache
    def float64(number: float) -> Array:
        """A constant as a float64 array.

        NumPy takes twice as long for an operation with a Python number.
        """
        return np.array(number)

    @staticmethod
    @functools.cache
    def float32(number: float) -> Array:
        """A constant as a float32 array."""
        return np.array(number, np.float32)

    @staticmethod
    def rows(vector: Array, count: int) -> Array:
        """Repeat a vector (L,) as the rows of a contiguous matrix (count, L)."""
        matrix = np.empty((count, len(vector)), vector.dtype)
        matrix[...] = vector
        return matrix

    @staticmethod
    def to_float64(array: Array) -> Array:
        """Convert to float64."""
        return array.astype(np.float64)

    @staticmethod
    def to_float32(array: Array) -> Array:
        """Convert to float32."""
        return array.astype(np.float32)

    @staticmethod
    def silu(inputs: Array) -> Array:
        """x / (1 + e^−x); 0 where e^−x overflows, for which callers suppress the warning."""
        grown = np.exp(-inputs)
        np.add(grown, _ONE, out=grown)
        return np.divide(inputs, grown, out=grown)

    @staticmethod
    def with_ones(rows: Array, divisor: Array) -> Array:
        """Divide rows (M, W) by () or (M, 1) and append a column of ones, (M, W + 1).

        The last row of a matrix multiplied from the right is then a bias.
        """
        count, width = rows.shape
        extended = np.empty((count, width + 1), rows.dtype)
        np.divide(rows, divisor, out=extended[:, :width])
        extended[:, width] = 1
        return extended

    @staticmethod
    def means(pairs: Array) -> tuple[Array, Array]:
        """Means of entries (K, L, C) over L, (K, C), and over K, (L, C), by one matrix product."""
        phases, workers, width = pairs.shape
        both = _mean_weights(phases, workers, pairs.dtype) @ pairs.reshape(-1, width)
        return both[:phases], both[phases:]

    @staticmethod
    def stack_first(parts: Sequence[Array], like: Array) -> Array:
        """Stack arrays along a new first dimension, in the shape and precision of ``like``."""
        stacked = np.empty((len(parts), *like.shape), like.dtype)
        for place, part in enumerate(parts):
            stacked[place] = part
        return stacked

    @staticmethod
    def first_dim_last(stacked: Array) -> Array:
        """Move the first dimension of (C, K, L) to the end, (K, L, C)."""
        return stacked.transpose(1, 2, 0)

    @staticmethod
    def identity(like: Array) -> Array:
        """Identity matrix (L, L) in the precision of an array (..., L)."""
        return _identity_array(like.shape[-1], like.dtype)

    @staticmethod
    def indices(like: Array) -> Array:
        """Indices 0 to L − 1 of an array (..., L)."""
        return np.arange(like.shape[-1])

    @staticmethod
    def take_rows(array: Array, index: Array) -> Array:
        """Rows (M, ...) of an array (K, ...) at indices (M,)."""
        return array[index]

    @staticmethod
    def stable_argsort(values: Array) -> Array:
        """Indices that sort the values in ascending order; stable."""
        return values.argsort(kind="stable")


class TensorOperations:
    """Operations on PyTorch tensors."""

    exp, log, log1p, sqrt, sign = torch.exp, torch.log, torch.log1p, torch.sqrt, torch.sign
    minimum, maximum, where, concatenate = torch.minimum, torch.maximum, torch.where, torch.cat
    at_least, at_most = torch.clamp_min, torch.clamp_max
    sum_along, max_along = torch.sum, torch.amax
    to_float64, to_float32, contiguous = Tensor.double, Tensor.float, Tensor.contiguous
    silu = torch.nn.functional.silu

    @staticmethod
    def float64(number: float) -> float:
        """A constant in float64 formulas."""
        return number

    @staticmethod
    def float32(number: float) -> float:
        """A constant in float32 formulas."""
        return number

    @staticmethod
    def rows(vector: Tensor, count: int) -> Tensor:
        """Repeat vectors (..., L) as rows of matrices (..., count, L), without copies."""
        return vector[..., None, :].expand(*vector.shape[:-1], count, -1)

    @staticmethod
    def dot_last(one: Tensor, other: Tensor) -> Tensor:
        """Σ a b along the last dimension."""
        return (one * other).sum(-1)

    @staticmethod
    def with_ones(rows: Tensor, divisor: Tensor | float) -> Tensor:
        """Divide rows (M, W) by () or (M, 1) and append a column of ones, (M, W + 1)."""
        return torch.nn.functional.pad(rows / divisor, (0, 1), value=1.0)

    @staticmethod
    def means(pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Means of entries (N, K, L, C) over L, (N, K, C), and over K, (N, L, C)."""
        return pairs.mean(-2), pairs.mean(-3)

    @staticmethod
    def stack_first(parts: Sequence[Tensor], like: Tensor) -> Tensor:
        """Stack tensors along a new first dimension, in the shape of ``like``."""
        return torch.stack([part.expand_as(like) for part in parts])

    @staticmethod
    def first_dim_last(stacked: Tensor) -> Tensor:
        """Move the first dimension of (C, N, K, L) to the end, (N, K, L, C)."""
        return stacked.movedim(0, -1)

    @staticmethod
    def identity(like: Tensor) -> Tensor:
        """Identity matrix (L, L) on the device and in the precision of a tensor (..., L)."""
        return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)

    @staticmethod
    def indices(like: Tensor) -> Tensor:
        """Indices 0 to L − 1 of a tensor (..., L)."""
        return torch.arange(like.shape[-1], device=like.device)

    @staticmethod
    def take_rows(array: Tensor, index: Tensor) -> Tensor:
        """Rows (N, M, ...) of tensors (N, K, ...) at indices (N, M)."""
        return array[torch.arange(len(index), device=index.device)[:, None], index]

    @staticmethod
    def stable_argsort(values: Tensor) -> Tensor:
        """Indices that sort the values along the last dimension in ascending order; stable."""
        return values.argsort(stable=True)


@functools.cache
def _identity_array(size: int, dtype: np.dtype[Any]) -> Array:
    """Read-only identity matrix (size, size)."""
    array = np.eye(size, dtype=dtype)
    array.flags.writeable = False
    return array


@functools.cache
def _mean_weights(phases: int, workers: int, dtype: np.dtype[Any]) -> Array:
    """Matrix (K + L, K · L) from pairs of phase and worker to the K phase and L worker means."""
    over_workers = np.kron(np.eye(phases), np.ones(workers)) / workers
    over_phases = np.kron(np.ones(phases), np.eye(workers)) / phases
    return np.concatenate((over_workers, over_phases)).astype(dtype)
