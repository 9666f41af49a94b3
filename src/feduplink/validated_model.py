"""Settings that are checked when they are made, and refused in one sentence."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from feduplink.errors import InputError, did_you_mean

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
    if problem["type"] == "extra_forbidden":
        names = list(model.model_fields)
        guess = did_you_mean(field, names)
        return f"{field}: no such field{guess} accepted: {', '.join(names)}."
    return f"{field}: {message} (got {_shown(problem['input'])})."


def _shown(value: object) -> str:
    """The value as it is written, unless that would fill a page."""
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
