"""HDF5 files: atomic writes, and validation on reading."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from feduplink.errors import InputError
from feduplink.storage.files import check_regular, replaced_atomically

#: Exceptions of h5py and NumPy for damaged files.
_ERRORS = (OSError, KeyError, TypeError, ValueError, RuntimeError, OverflowError, MemoryError)


@contextlib.contextmanager
def writing_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open a new file that replaces ``path`` atomically at the end of the block.

    If the disk is full, an ``OSError`` is raised and ``path`` is unchanged.

    Args:
        path: file to replace.

    Yields:
        The open file.
    """
    # The file is built in memory: if the disk is full HDF5 cannot close a file, and crashes the
    # interpreter at exit.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        yield file
    with replaced_atomically(path) as temporary:
        temporary.write_bytes(content.getbuffer())


@contextlib.contextmanager
def reading_hdf5(path: str | os.PathLike[str], what: str) -> Iterator[h5py.File]:
    """Open a file for reading; errors in the block are raised as :class:`InputError`.

    The message of an ``InputError`` in the block is the second part of a sentence, such as
    ``has no dataset H``; the path is prepended.

    Args:
        path: file.
        what: field or purpose of the file, at the beginning of error messages.

    Yields:
        The open file.
    """
    check_regular(Path(path), what)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except InputError as error:
        raise InputError(f"{what}: {path} {error}.") from None
    except _ERRORS as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(
            f"{what}: {path} cannot be read as HDF5 (truncated or another format): {reason}."
        ) from None


def dataset_in(file: h5py.File, name: str) -> h5py.Dataset:
    """Find a dataset without reading it; links and external storage are rejected.

    Args:
        file: open file.
        name: path of the dataset in the file.

    Returns:
        The dataset.

    Raises:
        InputError: if the file does not contain the dataset; in the form of :func:`reading_hdf5`.
    """
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        link = file.get("/".join(parts[:depth]), getlink=True)
        if link is None:
            raise InputError(f"has no dataset {name}")
        if not isinstance(link, h5py.HardLink):
            raise InputError(f"has a link instead of {name}")
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        raise InputError(f"has no dataset {name}")
    if dataset.external or dataset.is_virtual:
        raise InputError(f"has {name} in another file")
    return dataset


def attribute_of(holder: h5py.Group, name: str) -> str | float:
    """Read an attribute, a text of fixed length or a number.

    Texts of variable length are rejected, because HDF5 loops forever on a damaged heap.

    Args:
        holder: group or file with the attribute.
        name: name of the attribute.

    Returns:
        The text or number.

    Raises:
        InputError: if it is missing or of another type; in the form of :func:`reading_hdf5`.
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
    """Convert a text to HDF5 text of fixed length, for an attribute or a dataset."""
    return np.bytes_(text.encode() or b" ")
