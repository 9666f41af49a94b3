"""Settings checked when they are made, YAML with unique keys, and names of devices."""

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

#: Characters of a value that a sentence repeats.
_LONGEST = 120


class ValidatedModel(BaseModel):
    """Immutable fields of known names and finite numbers; others raise an :class:`InputError`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(_first_problem(error, type(self))) from None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated again.

        ``model_fields_set`` of the copy has the fields that were given here or there.
        """
        return type(self)(**{**self.model_dump(include=self.model_fields_set), **changes})

    @classmethod
    def check(cls, given: object, name: str) -> None:
        """Refuse an argument of this name that is not one."""
        if not isinstance(given, cls):
            raise InputError(
                f"{name}: {type(given).__name__} is not accepted; accepted: a "
                f"feduplink.{cls.__name__}."
            )

    @model_validator(mode="before")
    @classmethod
    def _split_texts(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """A text for a field that takes several values holds them with commas between them."""
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
    def _no_truth_for_a_number(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """True is 1 to Python; who writes it where a number belongs means something else."""
        for name, value in fields.items():
            field = cls.model_fields.get(name)
            if field is None or bool in (field.annotation, *get_args(field.annotation)):
                continue
            entries = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(entry, bool) for entry in entries):
                raise ValueError(f"{name}: {_shown(value)} is neither a number nor a text")
        return fields


def split_text(text: str) -> list[str]:
    """The values in a text, with commas between them."""
    return [part.strip() for part in text.split(",") if part.strip()]


def kinds_of(field: FieldInfo) -> tuple[Any, ...]:
    """The types of a field's values, without None."""
    union = get_origin(field.annotation) in (Union, types.UnionType)
    kinds = get_args(field.annotation) if union else (field.annotation,)
    return tuple(kind for kind in kinds if kind is not type(None))


def is_list(kind: Any) -> bool:
    """Whether a type is that of several values."""
    return get_origin(kind) in (tuple, list)


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """One sentence for the first problem pydantic found in the fields of ``model``."""
    problems = error.errors()
    # A field that may be one value or a list reports once for each; the one that got deepest,
    # to an entry of the list, is about what was meant.
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
    """The choice of names in an annotation that may also be None."""
    options = (annotation, *get_args(annotation))
    return next(option for option in options if get_origin(option) is Literal)


def _shown(value: object) -> str:
    """The value as it is written, unless that would fill a page."""
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


#: Written in C, if PyYAML was built so: ten times as fast.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Levels of lists and mappings within each other.
_DEEPEST = 8


class PlainLoader(_Loader):  # type: ignore[misc]
    """Reads numbers, texts, true, false and nothing; what looks like a date is a text.

    A key that occurs twice in a mapping is refused.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node whose keys are all different."""
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
    """Read YAML of plain values; raises a ``ValueError`` with the reason for other text.

    Refused while the text is scanned, before anything is made of it: anchors and aliases, with
    which a line can stand for gigabytes, tags, and deep nesting.
    """
    try:
        _check(text)
        return yaml.load(text, PlainLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None


def parse_mapping(text: str | bytes, what: str) -> dict[str, Any]:
    """Read a YAML mapping of names to values; ``what`` names the text in a refusal."""
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
    depth = 0
    for event in yaml.parse(text, PlainLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        if event.anchor is not None:  # of an alias, too
            raise ValueError("has an anchor or alias; accepted: every value written out")
        if (tag := getattr(event, "tag", None)) not in (None, "!"):
            raise ValueError(f"has the tag {tag}; accepted: values without tags")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise ValueError(f"is nested too deeply; accepted: {_DEEPEST} levels")


def import_extra(module: str, extra: str) -> Any:
    """Import a package of an extra; without it, a sentence with the line that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        raise InputError(
            f"{missing} is not installed; accepted after pip install 'feduplink[{extra}]'."
        ) from None


def usable_device(device: str | torch.device) -> torch.device:
    """The device of this name, if the machine has it.

    A ``torch.device`` of a type other than CPU and CUDA is returned unchecked.
    """
    import torch  # here: options are declared long before anything is computed

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
