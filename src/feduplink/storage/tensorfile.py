"""Tensors and JSON in one file: tensors by name, packed results, identities of checkpoints.

Loading parses a header and copies numbers; no content of the file is executed. :func:`pack` turns
dataclasses of numbers, texts and tensors into such a file, :func:`unpack` creates only objects of
the classes that its caller names.

Source code is not part of an identity, so that an edit does not invalidate a checkpoint: a class of
the user's own is identified by its name and attributes. If our code changes the meaning of a
checkpoint, its format number is increased by hand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
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
#: Key of the kind of value that a JSON object of a packed value represents.
_MARK = "is"


@dataclass(frozen=True)
class TensorFile:
    """Contents of one file: named tensors and a JSON object."""

    tensors: dict[str, Tensor]
    header: dict[str, Any]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose name begins with ``prefix``, without it."""
        return {k.removeprefix(prefix): t for k, t in self.tensors.items() if k.startswith(prefix)}


def write_tensors(path: Path, kind: str, content: TensorFile) -> None:
    """Write ``content`` to ``path``; its ``kind`` is checked on reading."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in content.tensors.items()}
    header = {"kind": kind, **content.header}
    # One entry of metadata: the order of several changes from write to write.
    metadata = {_HEADER: json.dumps({_CHECKSUM: checksum(tensors, header), **header})}
    with replaced_atomically(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # also when the disk is full
            raise OSError(f"{path} cannot be written: {error}") from None


def read_tensors(path: Path, kind: str) -> TensorFile:
    """Read a file of this kind; others and damaged ones raise an :class:`InputError`."""
    check_regular(path, kind)
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(_HEADER, "null"))
            names = file.keys()  # the file itself is not iterable
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{kind}: {path} is damaged or not a safetensors file: {error}.") from None
    if not isinstance(header, dict):
        raise InputError(f"{kind}: {path} was not written by feduplink.")
    if header.pop(_CHECKSUM, None) != checksum(tensors, header):
        raise InputError(f"{kind}: {path} is damaged: its checksum does not match.")
    if header.get("kind") != kind:
        raise InputError(f"{kind}: {path} holds a {header.get('kind')}; accepted: a {kind}.")
    return TensorFile(tensors, header)


def pack(value: Any, names: Mapping[type, str | None] | None = None) -> TensorFile:
    """Pack dataclasses, pydantic models, mappings, sequences, tensors, numbers and texts.

    Args:
        value: to pack.
        names: classes whose objects :func:`unpack` finds by a name, each with the attribute that
            holds the name; None: the class suffices.

    """
    tensors: dict[str, Tensor] = {}

    def packed(item: Any) -> Any:
        for kind, attribute in (names or {}).items():
            if isinstance(item, kind):
                name = getattr(item, attribute) if attribute else None
                return {_MARK: "named", "class": kind.__name__, "name": name}
        if isinstance(item, np.ndarray):
            item = torch.from_numpy(np.ascontiguousarray(item))
            return {_MARK: "array", "tensor": packed(item)["name"]}
        if isinstance(item, Tensor):
            # A copy: a tensor file holds no two views of the same memory.
            tensors[name := f"t{len(tensors)}"] = item.detach().cpu().clone()
            return {_MARK: "tensor", "name": name}
        if isinstance(item, BaseModel):
            content = item.model_dump(mode="json")
            return {_MARK: "object", "class": type(item).__name__, "fields": packed(content)}
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            fields = {f.name: getattr(item, f.name) for f in dataclasses.fields(item) if f.init}
            return {_MARK: "object", "class": type(item).__name__, "fields": packed(fields)}
        if isinstance(item, Mapping):
            return {_MARK: "mapping", "items": [[packed(k), packed(v)] for k, v in item.items()]}
        if isinstance(item, tuple):
            return {_MARK: "tuple", "items": [packed(entry) for entry in item]}
        if isinstance(item, list):
            return [packed(entry) for entry in item]
        if item is None or isinstance(item, bool | int | float | str):
            return item
        raise InputError(f"result: {type(item).__name__} cannot be saved; accepted: numbers.")

    content = packed(value)
    return TensorFile(tensors, {"content": content})


def unpack(
    file: TensorFile,
    classes: Iterable[type],
    find: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Any:
    """Inverse of :func:`pack`.

    Args:
        file: to unpack.
        classes: dataclasses and models that may be created.
        find: functions by name of a class that find an object by its name.

    """
    known = {kind.__name__: kind for kind in classes}

    def unpacked(item: Any) -> Any:
        if isinstance(item, list):
            return [unpacked(entry) for entry in item]
        if not isinstance(item, dict):
            return item
        match item[_MARK]:
            case "tensor":
                return file.tensors[item["name"]]
            case "array":
                return file.tensors[item["tensor"]].numpy()
            case "tuple":
                return tuple(unpacked(entry) for entry in item["items"])
            case "mapping":
                return {unpacked(k): unpacked(v) for k, v in item["items"]}
            case "named":
                return (find or {})[item["class"]](item["name"])
            case "object":
                return known[item["class"]](**unpacked(item["fields"]))
        raise KeyError(item[_MARK])

    return unpacked(file.header["content"])


@contextlib.contextmanager
def fitting(file: Path, kind: str, to: str) -> Iterator[None]:
    """Raise an :class:`InputError` if tensors of a file do not fit where the block uses them.

    Args:
        file: with the tensors.
        kind: of file, for the message.
        to: where they are used, for the message.
    """
    try:
        yield
    except InputError:
        raise
    except (LookupError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"{kind}: {file} does not fit {to}: {reason}.") from None


def check_finite(path: Path, file: TensorFile) -> None:
    """Refuse a file with NaN or infinity among its numbers."""
    for name, tensor in file.tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(
                f"{file.header['kind']}: {path} has NaN or infinity in {name}; accepted: finite "
                "numbers."
            )


def check_same(path: Path, file: TensorFile, expected: dict[str, Any]) -> None:
    """Raise an :class:`InputError` that names the entry of the header that is not as expected."""
    for name, value in json.loads(json.dumps(expected)).items():  # as it was read
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
    """SHA-256 of the header and of the names, types, shapes and numbers of all tensors."""
    digest = hashlib.sha256(json.dumps(header).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def object_identity(thing: object, registry: Registry[Any] | None = None) -> dict[str, Any]:
    """Return name and settings of an object, a function or a ``functools.partial``, for JSON.

    Settings are the fields of a dataclass, the arguments of a partial, the public attributes of a
    torch module with a checksum of its weights, and the attributes of other objects.

    Args:
        thing: to identify.
        registry: with the name of its class; by default the name is ``package.module:Object``.
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
    """Numbers and text as they are, a tensor by its checksum, other objects by their class."""
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
