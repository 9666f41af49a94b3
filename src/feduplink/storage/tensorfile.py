"""Files with tensors and JSON: named tensors, packed results, identities of checkpoints.

Loading parses a header and copies numbers; no content of the file is executed. :func:`pack`
serialises dataclasses of numbers, texts and tensors; :func:`unpack` creates only objects of classes
that its caller lists.

The identity of a checkpoint does not include source code: a user-defined class is identified by its
name and attributes. If a change of this package alters the meaning of a checkpoint, increase its
format number.
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
#: Key with the kind of value that a JSON object represents.
_KIND_KEY = "is"


@dataclass(frozen=True)
class TensorFile:
    """Content of a file.

    Attributes:
        tensors: tensors by name.
        header: JSON object.
    """

    tensors: dict[str, Tensor]
    header: dict[str, Any]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Tensors whose name begins with ``prefix``, by name without the prefix."""
        return {k.removeprefix(prefix): t for k, t in self.tensors.items() if k.startswith(prefix)}


def write_tensors(path: Path, kind: str, content: TensorFile) -> None:
    """Write tensors and header with a checksum, atomically.

    Args:
        path: file to write.
        kind: kind of file, which :func:`read_tensors` checks.
        content: tensors and header.
    """
    tensors = {name: t.detach().cpu().contiguous() for name, t in content.tensors.items()}
    header = {"kind": kind, **content.header}
    # A single metadata entry, because safetensors does not preserve the order of several.
    metadata = {_HEADER: json.dumps({_CHECKSUM: checksum(tensors, header), **header})}
    with replaced_atomically(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # raised also if the disk is full
            raise OSError(f"{path} cannot be written: {error}") from None


def read_tensors(path: Path, kind: str) -> TensorFile:
    """Read a file of :func:`write_tensors`.

    Args:
        path: file.
        kind: expected kind of file.

    Returns:
        Tensors and header.

    Raises:
        InputError: if the file is missing, damaged or of another kind.
    """
    check_regular(path, kind)
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(_HEADER, "null"))
            names = file.keys()  # a safetensors file is not iterable
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{kind}: {path} is damaged or not a safetensors file: {error}.") from None
    if not isinstance(header, dict):
        raise InputError(f"{kind}: {path} was not written by feduplink.")
    if header.pop(_CHECKSUM, None) != checksum(tensors, header):
        raise InputError(f"{kind}: {path} is damaged: its checksum does not match.")
    if header.get("kind") != kind:
        raise InputError(f"{kind}: {path} contains a {header.get('kind')}; accepted: a {kind}.")
    return TensorFile(tensors, header)


def pack(value: Any, names: Mapping[type, str | None] | None = None) -> TensorFile:
    """Serialise dataclasses, pydantic models, mappings, sequences, tensors, numbers and texts.

    Args:
        value: value to serialise.
        names: classes whose objects are saved by name, each with the attribute that contains the
            name; None as attribute: the class alone identifies the object.

    Returns:
        Content of a file, for :func:`unpack`.

    Raises:
        InputError: if the value contains an object of another type.
    """
    tensors: dict[str, Tensor] = {}

    def packed(item: Any) -> Any:
        for kind, attribute in (names or {}).items():
            if isinstance(item, kind):
                name = getattr(item, attribute) if attribute else None
                return {_KIND_KEY: "named", "class": kind.__name__, "name": name}
        if isinstance(item, np.ndarray):
            item = torch.from_numpy(np.ascontiguousarray(item))
            return {_KIND_KEY: "array", "tensor": packed(item)["name"]}
        if isinstance(item, Tensor):
            # A copy, because safetensors rejects tensors that share memory.
            tensors[name := f"t{len(tensors)}"] = item.detach().cpu().clone()
            return {_KIND_KEY: "tensor", "name": name}
        if isinstance(item, BaseModel):
            content = item.model_dump(mode="json")
            return {_KIND_KEY: "object", "class": type(item).__name__, "fields": packed(content)}
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            fields = {f.name: getattr(item, f.name) for f in dataclasses.fields(item) if f.init}
            return {_KIND_KEY: "object", "class": type(item).__name__, "fields": packed(fields)}
        if isinstance(item, Mapping):
            pairs = [[packed(k), packed(v)] for k, v in item.items()]
            return {_KIND_KEY: "mapping", "items": pairs}
        if isinstance(item, tuple):
            return {_KIND_KEY: "tuple", "items": [packed(entry) for entry in item]}
        if isinstance(item, list):
            return [packed(entry) for entry in item]
        if item is None or isinstance(item, bool | int | float | str):
            return item
        raise InputError(
            f"result: {type(item).__name__} cannot be saved; accepted: numbers, texts, tensors, "
            "dataclasses, and sequences and mappings of these."
        )

    content = packed(value)
    return TensorFile(tensors, {"content": content})


def unpack(
    file: TensorFile,
    classes: Iterable[type],
    find: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Any:
    """Inverse of :func:`pack`.

    Args:
        file: content of a file.
        classes: dataclasses and models that may be created.
        find: functions that return an object by its name, by class name.

    Returns:
        The value.
    """
    known = {kind.__name__: kind for kind in classes}

    def unpacked(item: Any) -> Any:
        if isinstance(item, list):
            return [unpacked(entry) for entry in item]
        if not isinstance(item, dict):
            return item
        match item[_KIND_KEY]:
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
        raise KeyError(item[_KIND_KEY])

    return unpacked(file.header["content"])


@contextlib.contextmanager
def fitting(file: Path, kind: str, to: str) -> Iterator[None]:
    """Raise an :class:`InputError` if a block fails because the content of a file does not fit.

    Args:
        file: path of the file.
        kind: kind of file, for the message.
        to: object that the content is used for, for the message.
    """
    try:
        yield
    except InputError:
        raise
    except (LookupError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"{kind}: {file} does not fit {to}: {reason}.") from None


def check_finite(path: Path, file: TensorFile) -> None:
    """Raise an :class:`InputError` if a tensor of a file contains NaN or infinity."""
    for name, tensor in file.tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(
                f"{file.header['kind']}: {path} contains NaN or infinity in {name}; accepted: "
                "finite numbers."
            )


def check_same(path: Path, file: TensorFile, expected: dict[str, Any]) -> None:
    """Raise an :class:`InputError` if a header differs from the expected one.

    Args:
        path: path of the file.
        file: its content.
        expected: expected entries of the header; the message names the first that differs.
    """
    for name, value in json.loads(json.dumps(expected)).items():  # converts tuples to lists
        found = file.header.get(name)
        if found == value:
            continue
        named = name.replace("_", " ")
        if isinstance(value, dict) and isinstance(found, dict):
            keys = sorted(k for k in value.keys() | found.keys() if value.get(k) != found.get(k))
            named += f" ({', '.join(keys)})"
        raise InputError(
            f"{file.header['kind']}: {path} was made with another {named}; accepted: the one it "
            "was made with."
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
    """Name and settings of an object, a function or a ``functools.partial``, for JSON.

    Settings are the fields of a dataclass, the arguments of a partial, the public attributes of a
    PyTorch module with a checksum of its weights, or the attributes of another object.

    Args:
        thing: object to identify.
        registry: registry with the name of its class; None: the name is ``package.module:Object``.

    Returns:
        Entries ``name``, ``settings`` and, for a module, ``weights``.
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
    """Descriptions of settings, by name."""
    return {name: _description(value) for name, value in settings.items()}


def _description(value: Any) -> Any:
    """Description for JSON: numbers and texts as such, tensors by checksum, others by class."""
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
