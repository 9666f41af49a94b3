"""What the parts of a scenario have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from feduplink.validated_model import ValidatedModel

if TYPE_CHECKING:
    from torch import Tensor


class ScenarioPart(ValidatedModel):
    """Fields that belong together; immutable, and equal when all are equal."""

    #: Fields that may hold one value, or one per worker.
    per_worker: ClassVar[tuple[str, ...]] = ()

    workers: int = Field(8, ge=1, le=1024, description="number of workers L")

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


def float64(values: float | Sequence[float] | Tensor) -> Tensor:
    """Numbers as a tensor of double precision."""
    # Imported here: what describes a system is needed long before anything is computed, as for
    # the options of a command, and PyTorch takes seconds to import.
    import torch

    return torch.as_tensor(values, dtype=torch.float64)
