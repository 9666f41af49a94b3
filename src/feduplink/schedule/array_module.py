"""Formulas for tensors of PyTorch and for arrays of NumPy alike.

Many rounds at once, slopes and GPUs are PyTorch's; for the few hundred numbers of a single round
each of its operations takes ten times as long as the arithmetic, and NumPy's do not. What is
written with the names that both share is written once.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch

#: A tensor or an array; whatever comes out is of the kind that went in.
Array: TypeAlias = Any


def array_module(array: Array) -> Any:
    """``torch`` or ``numpy``: whose operations an array takes."""
    return np if isinstance(array, np.ndarray) else torch
