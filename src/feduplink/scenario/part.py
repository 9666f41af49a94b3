"""What the parts of a scenario have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from feduplink.errors import InputError


class ScenarioPart(BaseModel):
    """Fields that belong together; immutable, and equal when all are equal."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    #: Fields that may hold one value, or one per worker.
    per_worker: ClassVar[tuple[str, ...]] = ()

    workers: int = Field(8, ge=1, le=1024, description="number of workers L")

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError(first_problem(error, type(self))) from None

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        for part in type(self).__mro__:
            for name in vars(part).get("per_worker", ()):
                value = getattr(self, name)
                if isinstance(value, tuple) and len(value) != self.workers:
                    raise ValueError(
                        f"{name} has {len(value)} entries; accepted: one value, or one for each "
                        f"of the {self.workers} workers"
                    )
        return self

    def listed_per_worker(self, *fields: str) -> int | None:
        """The number of workers if any of these fields lists a value per worker, else None."""
        listed = any(isinstance(getattr(self, field), tuple) for field in fields)
        return self.workers if listed else None


def first_problem(error: ValidationError, model: type[BaseModel]) -> str:
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
        return f"{field}: no such field; accepted: {', '.join(model.model_fields)}."
    return f"{field}: {message} (got {problem['input']!r})."
