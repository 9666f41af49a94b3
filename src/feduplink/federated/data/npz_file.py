"""Arrays in an ``.npz`` file, whose sizes are looked at before anything is unpacked."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from feduplink.errors import InputError
from feduplink.files import check_regular

#: Of all arrays together, unpacked.
_MOST_BYTES = 1 << 28
#: What zipfile and NumPy raise where a file is not what it says.
_DAMAGED = (
    OSError,
    EOFError,
    KeyError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    SyntaxError,
    TypeError,
)


def read_npz(path: Path) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """All arrays by name; nothing in the file is executed."""
    check_regular(path, "data", _MOST_BYTES)
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _MOST_BYTES:
            raise ValueError(f"unpacks to {size} bytes; accepted: no more than {_MOST_BYTES}")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except _DAMAGED as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"data: {path} is damaged: {reason}.") from None
