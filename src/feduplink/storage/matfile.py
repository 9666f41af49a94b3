"""Reader of numeric variables in MAT files of versions 5 to 7.

Unlike SciPy's compiled reader, it does not crash the process on damaged files. Other variables,
such as text, structures and objects, are listed with their MATLAB class and never read.

A file consists of a header of 128 bytes and elements, each with a tag (type, size) and data, which
may be compressed. An array is an element that contains elements: flags, dimensions, name, real part
and imaginary part.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feduplink.errors import InputError

#: NumPy types of elements with numbers, and types of array and compressed elements.
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"} | {
    12: "i8",
    13: "u8",
}
_ARRAY, _COMPRESSED = 14, 15
#: MATLAB's classes of arrays: names of the others, NumPy types of the numeric ones.
_OPAQUE = 17
_OTHER_CLASSES = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse"} | {
    16: "function",
    _OPAQUE: "object",
}
_NUMERIC_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4"} | {
    14: "i8",
    15: "u8",
}
_LOGICAL_FLAG, _COMPLEX_FLAG = 0x200, 0x800
_HEADER_BYTES = 128
#: Number of decompressed bytes that contain flags, dimensions and name.
_START_BYTES = 1 << 16


@dataclass(frozen=True)
class MatVariable:
    """A variable of a MAT file.

    Attributes:
        name: name of the variable.
        shape: size in MATLAB.
        dtype: NumPy type, or MATLAB class of a variable that is not numeric.
        is_numeric: whether it can be read.
        is_complex: whether it has an imaginary part.
        read: function that returns the array, of this shape.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_numeric: bool
    is_complex: bool
    read: Callable[[], NDArray[Any]]


def mat_variables(path: Path) -> list[MatVariable]:
    """List the variables of a file.

    Args:
        path: MAT file of version 5 to 7.

    Returns:
        The variables, whose data are not yet read.

    Raises:
        InputError: if the file is truncated; in the form of :func:`reading_arrays`.
        ValueError: if the file is damaged otherwise.
    """
    content = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if order is None:
        raise InputError("has no byte order in its header")
    found = []
    at = _HEADER_BYTES
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        data = content[at + 8 : at + 8 + size]
        if len(data) < size:
            raise InputError("ends in the middle of a variable (truncated)")
        if kind == _COMPRESSED:
            found.append(_variable(_inflated, data, order))
        elif kind == _ARRAY:
            found.append(_variable(_plain, content[at : at + 8 + size], order))
        at += 8 + size
    return [variable for variable in found if variable.name]


def _plain(data: memoryview, max_bytes: int) -> memoryview:
    """First ``max_bytes`` of an uncompressed element; 0: all."""
    return data[:max_bytes] if max_bytes else data


def _inflated(data: memoryview, max_bytes: int) -> memoryview:
    """First ``max_bytes`` of a compressed element after decompression; 0: all."""
    return memoryview(zlib.decompressobj().decompress(data, max_bytes))


def _variable(
    inflate: Callable[[memoryview, int], memoryview], data: memoryview, order: str
) -> MatVariable:
    """Variable of an array element, whose data are not yet read."""
    parts = _parts(inflate(data, _START_BYTES), order)
    (flag_bits, *_) = np.frombuffer(next(parts)[1], f"{order}u4").tolist()
    number = flag_bits & 0xFF
    # Opaque objects have no dimensions.
    sizes = b"" if number == _OPAQUE else next(parts)[1]
    shape = tuple(np.frombuffer(sizes, f"{order}i4").tolist())
    name = bytes(next(parts)[1]).decode("ascii", errors="replace")
    dtype = _NUMERIC_CLASSES.get(number)
    is_numeric = dtype is not None and not flag_bits & _LOGICAL_FLAG and min(shape, default=-1) >= 0
    is_complex = bool(flag_bits & _COMPLEX_FLAG)

    def read() -> NDArray[Any]:
        _, _, _, *stored = islice(_parts(inflate(data, 0), order), 5 if is_complex else 4)
        numbers = [_numbers(kind, part, order).astype(dtype) for kind, part in stored]
        if any(part.size != math.prod(shape) for part in numbers):
            raise InputError(f"has a number of values in {name} that does not match {shape}")
        values = numbers[0] + 1j * numbers[1] if is_complex else numbers[0]
        return values.reshape(shape, order="F")

    words = dtype if is_numeric else _OTHER_CLASSES.get(number, "logical")
    return MatVariable(name, shape, str(words), is_numeric, is_complex, read)


def _parts(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Iterate over type and data of the elements in an array element, after its tag."""
    at = 8
    while True:
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:  # up to four bytes of data are packed into the tag
            kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            start, end = at + 8, at + 8 + -(-size // 8) * 8
        if start + size > len(data):
            raise InputError("ends in the middle of a variable (truncated)")
        yield kind, data[start : start + size]
        at = end


def _numbers(kind: int, data: memoryview, order: str) -> NDArray[Any]:
    """Numbers of an element as a one-dimensional array."""
    if kind not in _NUMBERS:
        raise InputError(f"has numbers of the unknown type {kind}")
    return np.frombuffer(data, f"{order}{_NUMBERS[kind]}")
