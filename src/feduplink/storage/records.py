"""Results as files: dataclasses of numbers, texts and tensors, packed into a tensor file.

Tensors keep their bits, numbers are written as JSON. Reading creates only objects of the classes
that the caller names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

from feduplink.errors import InputError
from feduplink.storage.tensorfile import TensorFile

#: Key of the kind of value that a JSON object represents.
_MARK = "is"


def pack(value: Any, names: Mapping[type, Callable[[Any], Any]] | None = None) -> TensorFile:
    """Pack dataclasses, pydantic models, mappings, sequences, tensors, numbers and texts.

    Args:
        value: to pack.
        names: functions by class that return the name by which :func:`unpack` finds an object.

    """
    tensors: dict[str, Tensor] = {}

    def packed(item: Any) -> Any:
        for kind, named in (names or {}).items():
            if isinstance(item, kind):
                return {_MARK: "named", "class": kind.__name__, "name": named(item)}
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
