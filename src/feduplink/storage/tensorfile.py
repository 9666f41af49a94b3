"""Tensors and JSON in one file, and the identity of what a checkpoint was made with.

Loading parses a header and copies numbers; nothing in the file is ever executed.

Source code is not part of an identity, so that an edit does not invalidate a checkpoint. A class of
the user's own is known by its name and attributes, whatever its methods compute. When our code
changes what a checkpoint means, its format number is increased by hand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from feduplink.errors import InputError
from feduplink.registry import Registry, object_path
from feduplink.storage.files import check_regular, replaced_atomically

_HEADER = "feduplink"
_CHECKSUM = "sha256"
#: Of the numbers in our files.
_TYPES = (torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool)


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
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # among them what the disk refuses
            raise OSError(f"{path} cannot be written: {error}") from None


def read_tensors(path: Path, kind: str) -> TensorFile:
    """Read a file of the given kind; a foreign or damaged one raises :class:`InputError`."""
    check_regular(path, kind)
    try:
        with safe_open(path, framework="pt") as file:
            written = (file.metadata() or {}).get(_HEADER, "null")
            names = file.keys()  # the file itself is not iterable
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{kind}: {path} is damaged or not a safetensors file: {error}.") from None
    header = _header(written)
    if header is None:
        raise InputError(f"{kind}: {path} was not written by feduplink.")
    if any(tensor.dtype not in _TYPES for tensor in tensors.values()):
        raise InputError(f"{kind}: {path} has a type of numbers that feduplink does not write.")
    if header.pop(_CHECKSUM, None) != checksum(tensors, header):
        raise InputError(f"{kind}: {path} is damaged: its checksum does not match.")
    if header.get("kind") != kind:
        raise InputError(f"{kind}: {path} holds a {header.get('kind')}; accepted: a {kind}.")
    return TensorFile(tensors, header)


@contextlib.contextmanager
def fitting(file: Path, kind: str, to: str) -> Iterator[None]:
    """Within the block tensors of a file are put to use; those that do not fit are refused.

    The sentence says which ``kind`` of file does not fit ``to`` what.
    """
    try:
        yield
    except InputError:
        raise
    except (LookupError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"{kind}: {file} does not fit {to}: {reason}.") from None


def check_finite(path: Path, file: TensorFile) -> None:
    """Refuse a file with NaN or infinity among its numbers: everything made of it would be."""
    for name, tensor in file.tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(
                f"{file.header['kind']}: {path} has NaN or infinity in {name}; accepted: finite "
                "numbers."
            )


def _header(text: str) -> dict[str, Any] | None:
    """The JSON object that the text is, every key once; None if it is none."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key occurs twice")
        return found

    try:
        header = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


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


def object_identity(thing: object, registry: Registry[Any] | None = None) -> dict[str, Any]:
    """Name and settings of an object, a function or a ``functools.partial``, for JSON.

    Settings are the fields of a dataclass, the arguments of a partial, else the attributes; of a
    torch module the public ones, beside a checksum of its weights.

    Args:
        thing: what is identified.
        registry: gives the name of its class, as the registered one; by default
            ``package.module:Object``.
    """
    if isinstance(thing, functools.partial):
        arguments = {"arguments": thing.args, **thing.keywords}
        return {"name": object_path(thing.func), "settings": _described(arguments)}
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    name = object_path(named) if registry is None else registry.name_of(named)
    attributes = getattr(thing, "__dict__", {})
    if isinstance(thing, nn.Module):
        public = {key: value for key, value in attributes.items() if not key.startswith("_")}
        weights = checksum(thing.state_dict(), {})
        return {"name": name, "settings": _described(public), "weights": weights}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        attributes = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    return {"name": name, "settings": _described(attributes)}


def _described(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _description(value) for name, value in settings.items()}


def _description(value: Any) -> Any:
    """Numbers and text as they are, a tensor by its checksum, what has no settings by its name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return checksum({"": value}, {})
    if isinstance(value, tuple | list):
        return [_description(item) for item in value]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if hasattr(value, "__qualname__"):
        return object_path(value)
    if isinstance(value, functools.partial | nn.Module) or dataclasses.is_dataclass(value):
        return object_identity(value)
    return object_path(type(value))
