"""Numeric arrays in HDF5, NPZ, NPY and MAT files.

The format is detected from the content of the file, not from its suffix. No object is unpickled.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp(), "cell.npz")
>>> np.savez(path, H=np.ones((5, 2, 2)))
>>> with reading_arrays(path, "channels") as file:
...     [(array.name, array.shape) for array in file.arrays()]
[('H', (5, 2, 2))]
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from feduplink.errors import InputError, did_you_mean
from feduplink.storage.files import check_regular
from feduplink.storage.hdf5 import dataset_in, reading_hdf5
from feduplink.storage.matfile import mat_variables

#: Kinds of NumPy types that are real numbers: floating point, signed and unsigned integers.
_REAL_KINDS = "fiu"
#: Maximum decompression ratio; that of deflate is 1032.
_MAX_RATIO = 1100
#: Size up to which an array is accepted regardless of the size of its file, bytes.
_MIN_CHECKED_BYTES = 1 << 20
#: Maximum number of arrays listed in an error message.
_MAX_LISTED = 12


@dataclass(frozen=True)
class StoredArray:
    """An array in an open file.

    Attributes:
        name: name in the file; empty in formats with a single array.
        shape: shape, in MATLAB's order of subscripts for a MAT file.
        dtype: name of the data type.
        kind: ``real``, ``complex``, or empty for other types.
        read: function that returns the array, of this shape.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    read: Callable[[], NDArray[Any]]

    def __str__(self) -> str:
        """Name, shape and type."""
        return f"{self.name} {self.shape} {self.dtype}".lstrip()


class ArrayFile(ABC):
    """An open file with arrays."""

    @abstractmethod
    def arrays(self) -> list[StoredArray]:
        """All arrays, in the order of the file."""

    def array(self, name: str) -> StoredArray:
        """Find an array by name.

        Args:
            name: name in the file.

        Returns:
            The array, not yet read.

        Raises:
            InputError: if the file does not contain it; :func:`reading_arrays` prepends the path.
        """
        known = {array.name: array for array in self.arrays()}
        if name not in known:
            guess = did_you_mean(name, known)
            raise InputError(f"has no array {name}{guess} it has {listed(known.values())}")
        return known[name]


def listed(arrays: Iterable[StoredArray]) -> str:
    """Names, shapes and types of arrays for an error message, at most twelve."""
    shown = [str(array) for array in arrays]
    further = [f"{len(shown) - _MAX_LISTED} more"] if len(shown) > _MAX_LISTED else []
    return ", ".join(shown[:_MAX_LISTED] + further) or "no arrays"


@contextlib.contextmanager
def reading_arrays(path: str | os.PathLike[str], what: str) -> Iterator[ArrayFile]:
    """Open a file of arrays; errors in the block are raised as :class:`InputError`.

    The message of an ``InputError`` in the block is the second part of a sentence, such as
    ``has no array H``; the path is prepended.

    Args:
        path: HDF5, NPZ, NPY or MAT file.
        what: field or purpose of the file, at the beginning of error messages.

    Yields:
        The open file.
    """
    source = Path(path)
    check_regular(source, what)
    opened = _format_of(source, what)
    if opened is _Hdf5File:
        with reading_hdf5(source, what) as file:
            yield _Hdf5File(file, source)
        return
    try:
        yield opened(source)
    except InputError as error:
        raise InputError(f"{what}: {path} {error}.") from None
    except Exception as error:  # NumPy and zipfile raise a dozen types for damaged files
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(
            f"{what}: {path} cannot be read as {opened.format} (truncated or another format): "
            f"{reason}."
        ) from None


def _format_of(path: Path, what: str) -> Any:
    """Reader class for the format of the file."""
    try:
        with path.open("rb") as file:
            start = file.read(128)
        is_hdf5 = h5py.is_hdf5(path)  # also detects HDF5 after the header of MATLAB
    except OSError as error:
        raise InputError(f"{what}: {path} cannot be read: {error.strerror}.") from None
    if is_hdf5 or (path.suffix in (".h5", ".hdf5") and start):
        return _Hdf5File
    for magic, reader in _MAGIC.items():
        if start.startswith(magic):
            return reader
    if not start:
        raise InputError(f"{what}: {path} is empty.")
    raise InputError(
        f"{what}: {path} is in an unknown format; accepted: HDF5, NPZ, NPY, or MAT of version 5 to "
        "7.3."
    )


def _check_size(shape: tuple[int, ...], item_bytes: int, stored_bytes: int) -> None:
    """Reject a shape that a file of this size cannot contain, before memory is allocated."""
    declared = math.prod(shape) * item_bytes
    if declared > _MAX_RATIO * stored_bytes + _MIN_CHECKED_BYTES:
        raise InputError(
            f"declares an array of shape {shape} and {declared} bytes, which a file of "
            f"{stored_bytes} bytes cannot contain"
        )


def _kind(dtype: np.dtype[Any]) -> str:
    """``real``, ``complex``, or empty for other types."""
    if dtype.kind in _REAL_KINDS:
        return "real"
    return "complex" if dtype.kind == "c" or _is_pair(dtype) else ""


def _is_pair(dtype: np.dtype[Any]) -> bool:
    """Whether a type is MATLAB's compound type of complex numbers in HDF5."""
    fields: Mapping[str, Any] = dtype.fields or {}
    return set(fields) == {"real", "imag"} and all(f[0].kind in "fiu" for f in fields.values())


class _Hdf5File(ArrayFile):
    """HDF5 file; axes are reversed in files of MATLAB 7.3."""

    format = "HDF5"

    def __init__(self, file: h5py.File, path: Path) -> None:
        self.hdf5 = file
        self._bytes = path.stat().st_size
        with path.open("rb") as content:
            self._is_matlab = content.read(10) == b"MATLAB 7.3"

    def arrays(self) -> list[StoredArray]:
        found: list[StoredArray] = []

        def visit(name: str, item: Any) -> None:
            # MATLAB's internal tables have names with #.
            if isinstance(item, h5py.Dataset) and item.shape is not None and "#" not in name:
                found.append(self._stored(name, item))

        self.hdf5.visititems(visit)
        return found

    def array(self, name: str) -> StoredArray:
        if name.strip("/") not in self.hdf5:
            return super().array(name)
        return self._stored(name, dataset_in(self.hdf5, name.strip("/")))

    def _stored(self, name: str, dataset: h5py.Dataset) -> StoredArray:
        shape = tuple(map(int, dataset.shape))
        dtype = dataset.dtype
        kind = _kind(dtype)

        def read() -> NDArray[Any]:
            checked = dataset_in(self.hdf5, name)
            _check_size(shape, dtype.itemsize, self._bytes)
            values = np.asarray(checked)
            if _is_pair(dtype):
                values = values["real"] + 1j * values["imag"]
            return values.T if self._is_matlab else values

        words = "complex" if _is_pair(dtype) else str(dtype)
        return StoredArray(name, shape[::-1] if self._is_matlab else shape, words, kind, read)


class _NpyFile(ArrayFile):
    """File of ``numpy.save``, with one array."""

    format = "NPY"

    def __init__(self, path: Path) -> None:
        self._path = path

    def arrays(self) -> list[StoredArray]:
        with self._path.open("rb") as file:
            shape, dtype = _npy_header(file)
        size = self._path.stat().st_size

        def read() -> NDArray[Any]:
            _check_size(shape, dtype.itemsize, size)
            return np.asarray(np.load(self._path, allow_pickle=False))

        return [StoredArray("", shape, str(dtype), _kind(dtype), read)]


class _NpzFile(ArrayFile):
    """File of ``numpy.savez``, with several arrays."""

    format = "NPZ"

    def __init__(self, path: Path) -> None:
        self._path = path

    def arrays(self) -> list[StoredArray]:
        with zipfile.ZipFile(self._path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".npy")]
            return [self._stored(archive, member) for member in members]

    def _stored(self, archive: zipfile.ZipFile, member: str) -> StoredArray:
        size = self._path.stat().st_size
        with archive.open(member) as file:
            shape, dtype = _npy_header(file)

        def read() -> NDArray[Any]:
            _check_size(shape, dtype.itemsize, size)
            with zipfile.ZipFile(self._path) as archive, archive.open(member) as file:
                return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

        return StoredArray(member.removesuffix(".npy"), shape, str(dtype), _kind(dtype), read)


def _npy_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type in the header of an NPY file."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype


class _MatFile(ArrayFile):
    """MAT file of versions 5 to 7."""

    format = "MAT"

    def __init__(self, path: Path) -> None:
        self._path = path

    def arrays(self) -> list[StoredArray]:
        return [
            StoredArray(
                variable.name,
                variable.shape,
                variable.dtype,
                ("complex" if variable.is_complex else "real") if variable.is_numeric else "",
                variable.read,
            )
            for variable in mat_variables(self._path)
        ]


_MAGIC: dict[bytes, type[ArrayFile]] = {
    b"\x93NUMPY": _NpyFile,
    b"PK\x03\x04": _NpzFile,
    b"PK\x05\x06": _NpzFile,  # an archive without members
    b"MATLAB 5.0 MAT-file": _MatFile,
}
