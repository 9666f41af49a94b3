"""Formulas for tensors of PyTorch and for arrays of NumPy alike.

Many rounds at once, slopes and GPUs are PyTorch's; for the few hundred numbers of a single round
each of its operations takes ten times as long as the arithmetic, and NumPy's do not. What is
written with names that both share is written once: :func:`array_module` has the operations that
they call differently, as directly as can be, since of a few hundred numbers a call in between is
a tenth of an operation.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

_ONE = np.ones((), np.float32)
#: A tensor or an array; whatever comes out is of the kind that went in.
Array: TypeAlias = Any


def array_module(array: Array) -> Any:
    """``ArrayOperations`` or ``TensorOperations``: what an array takes."""
    return ArrayOperations if isinstance(array, np.ndarray) else TensorOperations


class ArrayOperations:
    """NumPy's. Its functions that are written in Python take several times as long as ufuncs."""

    exp, log, log1p, sqrt, sign = np.exp, np.log, np.log1p, np.sqrt, np.sign
    minimum, maximum, where, concatenate = np.minimum, np.maximum, np.where, np.concatenate
    contiguous = np.ascontiguousarray
    #: The larger, or smaller, of every entry and a number.
    at_least, at_most = np.maximum, np.minimum
    #: The sum and the largest along a dimension.
    sum_along, largest = np.add.reduce, np.maximum.reduce
    #: Σ a b along the last dimension.
    dot_along = np.vecdot

    @staticmethod
    @functools.cache
    def float64(number: float) -> Array:
        """A number of float64 formulas: Python's take NumPy as long again as the operation."""
        return np.array(number)

    @staticmethod
    @functools.cache
    def float32(number: float) -> Array:
        """A number of float32 formulas."""
        return np.array(number, np.float32)

    @staticmethod
    def rows(vector: Array, count: int) -> Array:
        """A vector (L,) of many formulas as that many rows, (count, L), as every one would do."""
        matrix = np.empty((count, len(vector)), vector.dtype)
        matrix[...] = vector
        return matrix

    @staticmethod
    def in_double(array: Array) -> Array:
        """The same in float64."""
        return array.astype(np.float64)

    @staticmethod
    def in_single(array: Array) -> Array:
        """The same in float32."""
        return array.astype(np.float32)

    @staticmethod
    def silu(inputs: Array) -> Array:
        """x / (1 + e^−x): 0 where that power is infinite, of which callers want no warning."""
        grown = np.exp(-inputs)
        np.add(grown, _ONE, out=grown)
        return np.divide(inputs, grown, out=grown)

    @staticmethod
    def with_ones(rows: Array, divisor: Array) -> Array:
        """Rows (M, W) divided by () or (M, 1), and a one behind each, (M, W + 1).

        A product with them has a bias.
        """
        count, width = rows.shape
        longer = np.empty((count, width + 1), rows.dtype)
        np.divide(rows, divisor, out=longer[:, :width])
        longer[:, width] = 1
        return longer

    @staticmethod
    def means(pairs: Array) -> tuple[Array, Array]:
        """Of entries (K, L, C) the means over L, (K, C), and over K, (L, C), by one product."""
        phases, workers, width = pairs.shape
        both = _mean_weights(phases, workers, pairs.dtype) @ pairs.reshape(-1, width)
        return both[:phases], both[phases:]

    @staticmethod
    def stack_first(parts: Sequence[Array], like: Array) -> Array:
        """Arrays along a new first dimension, each in the shape and precision of another one."""
        stacked = np.empty((len(parts), *like.shape), like.dtype)
        for place, part in enumerate(parts):
            stacked[place] = part
        return stacked

    @staticmethod
    def first_last(stacked: Array) -> Array:
        """(C, K, L) as (K, L, C)."""
        return stacked.transpose(1, 2, 0)

    @staticmethod
    def identity(like: Array) -> Array:
        """The identity (L, L) of the kind and precision of an array (..., L)."""
        return _identity_array(like.shape[-1], like.dtype)

    @staticmethod
    def indices(like: Array) -> Array:
        """0 to L − 1 of an array (..., L)."""
        return np.arange(like.shape[-1])

    @staticmethod
    def take_rows(array: Array, index: Array) -> Array:
        """Rows (M, ...) of an array (K, ...) by (M,)."""
        return array[index]

    @staticmethod
    def order_of(values: Array) -> Array:
        """The places of values from the least on, of equal ones the first first."""
        return values.argsort(kind="stable")


class TensorOperations:
    """PyTorch's."""

    exp, log, log1p, sqrt, sign = torch.exp, torch.log, torch.log1p, torch.sqrt, torch.sign
    minimum, maximum, where, concatenate = torch.minimum, torch.maximum, torch.where, torch.cat
    at_least, at_most = torch.clamp_min, torch.clamp_max
    sum_along, largest = torch.sum, torch.amax
    in_double, in_single, contiguous = Tensor.double, Tensor.float, Tensor.contiguous
    silu = torch.nn.functional.silu

    @staticmethod
    def float64(number: float) -> float:
        """A number of float64 formulas."""
        return number

    @staticmethod
    def float32(number: float) -> float:
        """A number of float32 formulas."""
        return number

    @staticmethod
    def rows(vector: Tensor, count: int) -> Tensor:
        """Vectors (..., L) as rows of matrices, (..., count, L), without copies."""
        return vector[..., None, :].expand(*vector.shape[:-1], count, -1)

    @staticmethod
    def dot_along(one: Tensor, other: Tensor) -> Tensor:
        """Σ a b along the last dimension."""
        return (one * other).sum(-1)

    @staticmethod
    def with_ones(rows: Tensor, divisor: Tensor | float) -> Tensor:
        """Rows (M, W) divided by () or (M, 1), and a one behind each, (M, W + 1)."""
        return torch.nn.functional.pad(rows / divisor, (0, 1), value=1.0)

    @staticmethod
    def means(pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Of entries (N, K, L, C) the means over L, (N, K, C), and over K, (N, L, C)."""
        return pairs.mean(-2), pairs.mean(-3)

    @staticmethod
    def stack_first(parts: Sequence[Tensor], like: Tensor) -> Tensor:
        """Tensors along a new first dimension, each in the shape of another one."""
        return torch.stack([part.expand_as(like) for part in parts])

    @staticmethod
    def first_last(stacked: Tensor) -> Tensor:
        """(C, N, K, L) as (N, K, L, C)."""
        return stacked.movedim(0, -1)

    @staticmethod
    def identity(like: Tensor) -> Tensor:
        """The identity (L, L) of the kind and precision of a tensor (..., L)."""
        return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)

    @staticmethod
    def indices(like: Tensor) -> Tensor:
        """0 to L − 1 of a tensor (..., L)."""
        return torch.arange(like.shape[-1], device=like.device)

    @staticmethod
    def take_rows(array: Tensor, index: Tensor) -> Tensor:
        """Rows (N, M, ...) of tensors (N, K, ...) by (N, M)."""
        return array[torch.arange(len(index), device=index.device)[:, None], index]

    @staticmethod
    def order_of(values: Tensor) -> Tensor:
        """The places of values from the least on along the last dimension, equal ones in turn."""
        return values.argsort(stable=True)


@functools.cache
def _identity_array(size: int, dtype: np.dtype[Any]) -> Array:
    array = np.eye(size, dtype=dtype)
    array.flags.writeable = False
    return array


@functools.cache
def _mean_weights(phases: int, workers: int, dtype: np.dtype[Any]) -> Array:
    """From the pairs of phases and workers to the mean of every phase, then of every worker."""
    over_workers = np.kron(np.eye(phases), np.ones(workers)) / workers
    over_phases = np.kron(np.ones(phases), np.eye(workers)) / phases
    return np.concatenate((over_workers, over_phases)).astype(dtype)
