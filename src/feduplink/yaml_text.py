"""YAML, as much of it as settings need: mappings and lists of plain values, each key once."""

from __future__ import annotations

from typing import Any

import yaml

#: Written in C, if PyYAML was built so: ten times as fast.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Levels of lists and mappings within each other.
_DEEPEST = 8


class PlainLoader(_Loader):  # type: ignore[misc]
    """Reads numbers, texts, true, false and nothing; what looks like a date is a text."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> Any:
    """What the text says; a ``ValueError`` with the reason if it is not YAML of this kind.

    Refused while the text is scanned, before anything is made of it: anchors and aliases, with
    which a line can stand for gigabytes, tags, keys that occur twice, and deep nesting.
    """
    try:
        _check(text)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None
    try:
        return yaml.load(text, PlainLoader)
    except (yaml.YAMLError, ValueError) as error:  # the latter for a number of 5,000 digits
        raise ValueError(f"has a value that is none: {' '.join(str(error).split())}") from None


def _check(text: str) -> None:
    keys: list[_Keys | None] = []
    for event in yaml.parse(text, PlainLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        if event.anchor is not None:  # of an alias, too
            raise ValueError("has an anchor or alias; accepted: every value written out")
        if (tag := getattr(event, "tag", None)) not in (None, "!"):
            raise ValueError(f"has the tag {tag}; accepted: values without tags")
        if keys and (within := keys[-1]) is not None:
            within.add(event)
        if isinstance(event, yaml.CollectionStartEvent):
            keys.append(_Keys() if isinstance(event, yaml.MappingStartEvent) else None)
            if len(keys) > _DEEPEST:
                raise ValueError(f"is nested too deeply; accepted: {_DEEPEST} levels")


class _Keys:
    """The keys of a mapping whose events are told in turn: key, value, key, value."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._next_is_key = True

    def add(self, event: yaml.NodeEvent) -> None:
        if self._next_is_key:
            if not isinstance(event, yaml.ScalarEvent):
                raise ValueError("has a key that is no plain value")
            if event.value in self._seen:
                raise ValueError(f"has {event.value} twice; accepted: every field once")
            self._seen.add(event.value)
        self._next_is_key = not self._next_is_key
