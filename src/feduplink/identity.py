"""How checkpoints identify the objects they were made with: by name, settings and numbers.

Source code is not part of an identity, so that an edit does not invalidate a checkpoint. A class of
the user's own is known by its name and attributes, whatever its methods compute. When our code
changes what a checkpoint means, its format number is increased by hand.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from torch import Tensor, nn

from feduplink.registry import Registry, object_path
from feduplink.tensorfile import checksum


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
