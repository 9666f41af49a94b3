"""Validation of settings, YAML files, optional dependencies and devices."""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING, Any, Literal, Self, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from feduplink.errors import InputError, did_you_mean, unknown_name

if TYPE_CHECKING:
    import torch

#: Maximum number of characters of a value quoted in an error message.
_MAX_QUOTED_LENGTH = 120


class ValidatedModel(BaseModel):
    """Base class of immutable settings, validated on construction.

    Unknown fields, NaN, infinity and booleans in place of numbers raise an :class:`InputError`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(_first_problem(error, type(self))) from None

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed.

        Args:
            changes: new values by field.

        Returns:
            The copy; its ``model_fields_set`` contains the fields set in the original or here.

        Raises:
            InputError: if a field is unknown or a value is invalid.
        """
        return type(self)(**{**self.model_dump(include=self.model_fields_set), **changes})

    @classmethod
    def check(cls, given: object, name: str) -> None:
        """Check the type of an argument.

        Args:
            given: the argument.
            name: its name, for the error message.

        Raises:
            InputError: if it is not an instance of this class.
        """
        if not isinstance(given, cls):
            raise InputError(
                f"{name}: {type(given).__name__} is not accepted; accepted: a "
                f"feduplink.{cls.__name__}."
            )

    @model_validator(mode="before")
    @classmethod
    def _split_texts(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Split a comma-separated text given for a field that takes several values."""
        return {
            name: split_text(value)
            if isinstance(value, str)
            and name in cls.model_fields
            and all(map(is_list, kinds_of(cls.model_fields[name])))
            else value
            for name, value in fields.items()
        }

    @model_validator(mode="before")
    @classmethod
    def _reject_booleans(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Reject booleans, which pydantic would convert to 0 and 1, in fields of numbers."""
        for name, value in fields.items():
            field = cls.model_fields.get(name)
            if field is None or bool in (field.annotation, *get_args(field.annotation)):
                continue
            entries = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(entry, bool) for entry in entries):
                raise ValueError(f"{name}: {_shown(value)} is neither a number nor a text")
        return fields


def split_text(text: str) -> list[str]:
    """Split a comma-separated text into its non-empty values, without surrounding spaces."""
    return [part.strip() for part in text.split(",") if part.strip()]


def kinds_of(field: FieldInfo) -> tuple[Any, ...]:
    """Types of the values of a field: the members of its union, without None."""
    union = get_origin(field.annotation) in (Union, types.UnionType)
    kinds = get_args(field.annotation) if union else (field.annotation,)
    return tuple(kind for kind in kinds if kind is not type(None))


def is_list(kind: Any) -> bool:
    """Whether a type is a tuple or list of values."""
    return get_origin(kind) in (tuple, list)


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe the first problem that pydantic found in the fields of ``model``, in a sentence."""
    problems = error.errors()
    # A field that takes one value or a list reports a problem for each alternative; the most
    # deeply nested location, an entry of the list, is the relevant one.
    same_field = [p for p in problems if p["loc"][:1] == problems[0]["loc"][:1]]
    problem = max(same_field, key=lambda p: len(p["loc"]))
    if isinstance(refusal := problem.get("ctx", {}).get("error"), InputError):
        return str(refusal)
    field = next((str(part) for part in problem["loc"]), "")
    message = problem["msg"].removeprefix("Value error, ").removesuffix(".")
    if not field:
        return f"{message}."
    if problem["type"] == "literal_error":
        accepted = get_args(_literal(model.model_fields[field].annotation))
        return str(unknown_name(field, str(problem["input"]), accepted))
    if problem["type"] == "extra_forbidden":
        names = list(model.model_fields)
        guess = did_you_mean(field, names)
        return f"{field}: no such field{guess} accepted: {', '.join(names)}."
    return f"{field}: {message} (got {_shown(problem['input'])})."


def _literal(annotation: Any) -> Any:
    """The ``Literal`` in an annotation that may also be None."""
    options = (annotation, *get_args(annotation))
    return next(option for option in options if get_origin(option) is Literal)


def _shown(value: object) -> str:
    """The value as Python writes it, truncated to 120 characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer beyond Python's limit of digits
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_QUOTED_LENGTH else f"{text[:_MAX_QUOTED_LENGTH]}..."


#: The loader written in C, ten times as fast, if PyYAML includes it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Maximum nesting depth of lists and mappings.
_MAX_DEPTH = 8


class PlainLoader(_Loader):  # type: ignore[misc]
    """YAML loader for numbers, texts, booleans and null; dates remain texts.

    Duplicate keys in a mapping are rejected.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping; raises ``ValueError`` for a duplicate key."""
        keys: set[str] = set()
        for key, _ in node.value:
            if (name := str(key.value)) in keys:
                raise ValueError(f"has {name} twice; accepted: every field once")
            keys.add(name)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> Any:
    """Parse YAML of plain values.

    Anchors and aliases, tags and nesting beyond eight levels are rejected before any object is
    constructed, because a few lines of them can expand to gigabytes.

    Args:
        text: YAML document.

    Returns:
        Its content: nested lists and mappings of plain values.

    Raises:
        ValueError: with the reason, if the text is not accepted.
    """
    try:
        _check(text)
        return yaml.load(text, PlainLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None


def parse_mapping(text: str | bytes, what: str) -> dict[str, Any]:
    """Parse a YAML mapping of names to values.

    Args:
        text: YAML document; bytes in UTF-8.
        what: description of the text, for error messages.

    Returns:
        The mapping.

    Raises:
        InputError: if the text is not such a mapping.
    """
    try:
        content = parse_yaml(text if isinstance(text, str) else text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is not text in UTF-8: {error}.") from None
    except ValueError as error:
        raise InputError(f"{what} {str(error).removesuffix('.')}.") from None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InputError(f"{what} must hold a mapping of field names to values.")
    return content


def _check(text: str) -> None:
    """Reject anchors, aliases, tags and deep nesting."""
    depth = 0
    for event in yaml.parse(text, PlainLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        if event.anchor is not None:  # set for an alias too
            raise ValueError("has an anchor or alias; accepted: every value written out")
        if (tag := getattr(event, "tag", None)) not in (None, "!"):
            raise ValueError(f"has the tag {tag}; accepted: values without tags")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise ValueError(f"is nested too deeply; accepted: {_MAX_DEPTH} levels")


def import_extra(module: str, extra: str) -> Any:
    """Import a module that needs an extra of this package.

    Args:
        module: module to import.
        extra: extra that installs it.

    Returns:
        The module.

    Raises:
        InputError: with the command that installs the extra, if a module is missing.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        raise InputError(
            f"{missing} is not installed; accepted after pip install 'feduplink[{extra}]'."
        ) from None


def usable_device(device: str | torch.device) -> torch.device:
    """Check that a device exists.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:N``. A ``torch.device`` of another type is returned
            unchecked.

    Returns:
        The device, with its index if it is a GPU.

    Raises:
        InputError: if the device is unknown or absent.
    """
    import torch  # imported here, as declaring options must not import PyTorch

    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise InputError(f"device: {device!r} is unknown; accepted: cpu, cuda, cuda:N.") from None
    if chosen.type not in ("cpu", "cuda"):
        if isinstance(device, torch.device):
            return chosen
        raise InputError(f"device: {device!r} is not supported; accepted: cpu, cuda, cuda:N.")
    if chosen.type == "cuda":
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise InputError(f"device: {device!r} is not on this machine; accepted here: cpu.")
        return torch.device("cuda", chosen.index or 0)
    return chosen
