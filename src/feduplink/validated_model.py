"""Settings that are checked when they are made, and refused in one sentence."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from feduplink.errors import InputError, did_you_mean


class ValidatedModel(BaseModel):
    """Immutable fields of known names and finite numbers; others raise an :class:`InputError`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(_first_problem(error, type(self))) from None


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
    return f"{field}: {message} (got {problem['input']!r})."
