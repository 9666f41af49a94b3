"""Whether a file of a data set is the one it should be.

A file that we build from an original archive is checked by its content, since a compressor's output
depends on its version.
"""

from __future__ import annotations

import hashlib
import lzma
from enum import StrEnum
from pathlib import Path

import numpy as np

from feduplink.federated.data.data_sets import DataFile
from feduplink.federated.data.npz_file import read_npz

#: The largest file of a set has a sixth of this when it is unpacked.
_MOST_BYTES = 1 << 29
_BLOCK = 1 << 20


class FileState(StrEnum):
    """What a look at one file shows."""

    MISSING = "missing"
    INTACT = "intact"
    DAMAGED = "checksum differs"


def file_state(file: DataFile, directory: Path) -> FileState:
    """Compare one file with its checksum."""
    path = directory / file.path
    if not path.is_file():
        return FileState.MISSING
    return FileState.INTACT if has_content(path, file.sha256) else FileState.DAMAGED


def has_content(path: Path, sha256: str) -> bool:
    """Whether a file can be read and has this digest."""
    try:
        return content_digest(path) == sha256
    except (OSError, EOFError, ValueError, lzma.LZMAError):
        return False


def content_digest(path: Path) -> str:
    """SHA-256 of a file; of what is inside for ``.xz`` and ``.npz``."""
    if path.suffix == ".npz":
        return _arrays_digest(path)
    digest, left = hashlib.sha256(), _MOST_BYTES
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            left -= len(block)
            if left < 0:
                raise ValueError("larger than any file of a data set")
    return digest.hexdigest()


def _arrays_digest(path: Path) -> str:
    """Of names, types, shapes and values of all arrays."""
    digest = hashlib.sha256()
    for name, found in sorted(read_npz(path).items()):
        array = np.ascontiguousarray(found)
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
