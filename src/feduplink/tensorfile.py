"""Tensors and JSON in one file: safetensors with a checksum, written whole or not at all.

Loading parses a header and copies numbers; nothing in the file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from feduplink.errors import InputError
from feduplink.files import replaced_atomically

_HEADER = "feduplink"
_CHECKSUM = "sha256"


@dataclass(frozen=True)
class TensorFile:
    """Contents of one file: named tensors and a JSON object."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose name begins with ``prefix``, without it."""
        return {k.removeprefix(prefix): t for k, t in self.tensors.items() if k.startswith(prefix)}


def write_tensors(path: Path, kind: str, content: TensorFile) -> None:
    """Write ``content`` under ``path``; ``kind`` says what it is and is checked on reading."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in content.tensors.items()}
    header = {"kind": kind, **content.header}
    # One entry of metadata: the order of several changes from write to write.
    metadata = {_HEADER: json.dumps({_CHECKSUM: checksum(tensors, header), **header})}
    with replaced_atomically(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def read_tensors(path: Path, kind: str) -> TensorFile:
    """Read a file of the given kind; a foreign or damaged one raises :class:`InputError`."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            expected = header.pop(_CHECKSUM)
            names = file.keys()  # the file itself is not iterable
            tensors = {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise InputError(f"{kind}: {path} does not exist.") from None
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        raise InputError(f"{kind}: {path} was not written by feduplink.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{kind}: {path} is damaged or not a safetensors file: {error}.") from None
    if expected != checksum(tensors, header):
        raise InputError(f"{kind}: {path} is damaged: its checksum does not match.")
    if header["kind"] != kind:
        raise InputError(f"{kind}: {path} holds a {header['kind']}; accepted: a {kind}.")
    return TensorFile(tensors, header)


def check_same(path: Path, file: TensorFile, expected: dict[str, Any]) -> None:
    """Raise an :class:`InputError` that names the entry of the header that is another one."""
    for name, value in json.loads(json.dumps(expected)).items():  # as a header gives it back
        found = file.header.get(name)
        if found == value:
            continue
        named = name.replace("_", " ")
        if isinstance(value, dict) and isinstance(found, dict):
            keys = sorted(k for k in value.keys() | found.keys() if value.get(k) != found.get(k))
            named += f" ({', '.join(keys)})"
        raise InputError(
            f"{file.header['kind']}: {path} was made with another {named}; accepted: the one it "
            "was started with."
        )


def checksum(tensors: dict[str, Tensor], header: dict[str, Any]) -> str:
    """SHA-256 of the header and of every tensor's name, type, shape and numbers."""
    digest = hashlib.sha256(json.dumps(header).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
