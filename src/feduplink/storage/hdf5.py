"""HDF5 files: written whole or not at all, and read no further than they can be trusted."""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from feduplink.errors import InputError
from feduplink.storage.files import check_regular, replaced_atomically

#: What h5py and NumPy raise where a file is not what it says.
_DAMAGED = (OSError, KeyError, TypeError, ValueError, RuntimeError, OverflowError, MemoryError)
#: So many times what is stored can come out of it: the most that deflate packs, and a little.
_MOST_PACKED = 1100


@contextlib.contextmanager
def writing_hdf5(path: Path) -> Iterator[h5py.File]:
    """A new file to write to, which appears under its name when the block ends.

    What the disk refuses is raised as the ``OSError`` that it is, and the old file stays.
    """
    with replaced_atomically(path) as temporary, _Sink(temporary, "w+b") as sink:
        try:
            with h5py.File(sink, "w") as file:
                yield file
        finally:
            if sink.error is not None:
                raise sink.error


class _Sink(io.FileIO):
    """A file whose first failure is kept, and which then takes everything.

    After a write that failed, HDF5 cannot close its file, and takes the interpreter down with it at
    the end.
    """

    error: OSError | None = None

    def write(self, content: Any) -> int:
        """All of it, as HDF5 expects."""
        left = memoryview(content).cast("B")
        size = len(left)
        try:
            while self.error is None and len(left):
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """To ``size`` bytes."""
        try:
            return super().truncate(size) if self.error is None else size or 0
        except OSError as error:
            self.error = error
            return size or 0


@contextlib.contextmanager
def reading_hdf5(path: str | os.PathLike[str], what: str) -> Iterator[h5py.File]:
    """A file to read from; what is wrong with it is an :class:`InputError` about ``what``.

    An ``InputError`` of the block goes on where a sentence about the file begins: ``has no ...``.
    """
    check_regular(Path(path), what)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except InputError as error:
        raise InputError(f"{what}: {path} {error}.") from None
    except _DAMAGED as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(
            f"{what}: {path} cannot be read as HDF5 (truncated or another format): {reason}."
        ) from None


def dataset_in(file: h5py.File, name: str) -> h5py.Dataset:
    """A dataset of this very file, of which nothing has been read yet.

    Refused, as :func:`reading_hdf5` wants it: links, which may lead to any file of
    the machine, storage elsewhere, and sizes that are declared but cannot be there.
    """
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        link = file.get("/".join(parts[:depth]), getlink=True)
        if link is None:
            raise InputError(f"has no dataset {name}")
        if not isinstance(link, h5py.HardLink):
            raise InputError(f"has a link in the place of {name}")
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        raise InputError(f"has no dataset {name}")
    if dataset.external or dataset.is_virtual:
        raise InputError(f"has {name} in another file")
    itemsize = dataset.dtype.itemsize
    at_once = math.prod(dataset.chunks) * itemsize if dataset.chunks else 0
    stored = min(dataset.id.get_storage_size(), file.id.get_filesize())
    if dataset.size and max(dataset.size * itemsize, at_once) > _MOST_PACKED * stored:
        raise InputError(
            f"declares {name} of shape {dataset.shape}, more than its {stored} bytes can hold"
        )
    return dataset


def attribute_of(holder: h5py.Group, name: str) -> str | float:
    """A text or number beside the data, kept in its own place.

    Texts of variable length are kept in a heap; HDF5 follows a damaged one without end, so they are
    refused, and :func:`fixed_text` makes others.
    """
    if name not in holder.attrs:
        raise InputError(f"has no attribute {name}")
    kind = holder.attrs.get_id(name).dtype
    if kind.kind not in "Sfiu":
        raise InputError(f"has {kind} in the attribute {name}; accepted: text of fixed length")
    value = np.asarray(holder.attrs[name])
    if value.ndim:
        raise InputError(f"has several values in the attribute {name}; accepted: one")
    return value.item().decode("utf-8") if kind.kind == "S" else float(value)


def fixed_text(text: str) -> np.bytes_:
    """For an attribute or a dataset: a text of this length."""
    return np.bytes_(text.encode() or b" ")
