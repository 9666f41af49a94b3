"""What tells objects of the user's own apart in the header of a checkpoint."""

from __future__ import annotations

from typing import Any

_SIMPLE = (bool, int, float, str, type(None))


def qualified_name(thing: object) -> str:
    """The module and name of a class or function; of other objects that of their class."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


def object_identity(thing: object) -> dict[str, Any]:
    """An object's class and its attributes that are numbers or text, for JSON."""
    attributes = getattr(thing, "__dict__", {})
    return {
        "class": qualified_name(type(thing)),
        "settings": {name: v for name, v in attributes.items() if isinstance(v, _SIMPLE)},
    }
