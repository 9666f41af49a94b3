"""Arrays in what a node sent, looked at before anybody computes with them.

A node may send anything. Its arrays are NumPy's ``.npy`` files, whose headers name a shape: NumPy
would reserve memory for it before it finds that so many numbers are not there.
"""

from __future__ import annotations

import io
import math
import tokenize

import numpy as np
from flwr.app import Array, RecordDict
from numpy.lib import format as npy

#: Truth values, integers and real numbers.
_KINDS = "biuf"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
#: What NumPy and Flower raise where an array is not what it says.
_DAMAGED = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError)
#: Of a name that a node gave, in a message.
_MOST_CHARACTERS = 60


def fault_of_arrays(content: RecordDict) -> str | None:
    """Why the arrays of an upload cannot be used, in a few words; None if they can.

    They can if each is what it says it is and has neither NaN nor infinity.
    """
    for record in content.array_records.values():
        for name, array in record.items():
            try:
                _check(array)
            except _DAMAGED as error:
                reason = " ".join(str(error).split()).removesuffix(".")[:200]
                return f"array {name[:_MOST_CHARACTERS]!r} cannot be used: {reason}"
    return None


def _check(array: Array) -> None:
    stream = io.BytesIO(array.data)
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.kind not in _KINDS:
        raise ValueError(f"numbers of type {dtype}")
    if (shape, str(dtype)) != (array.shape, array.dtype) or min(shape, default=0) < 0:
        raise ValueError("its shape or type is not the one that it says")
    if math.prod(shape) * dtype.itemsize != len(array.data) - stream.tell():
        raise ValueError("not as many numbers as its shape says")
    if not np.isfinite(array.numpy()).all():
        raise ValueError("NaN or infinity")
