"""What a policy has to achieve: objective, utility, weights and thresholds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from feduplink.constraint_text import ConstraintText
from feduplink.registry import MEASURES
from feduplink.scenario.part import ScenarioPart, float64

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

UtilityName = Literal["weighted-sum", "proportional-fairness"]

# Far above anything a cell reaches (40 nats/s/Hz is an SINR of 170 dB), low enough to catch
# a threshold given in the wrong unit.
_Rate = Annotated[float, Field(ge=0, le=40)]
_EnergyEfficiency = Annotated[float, Field(ge=0, le=1e6)]
_Weight = Annotated[float, Field(gt=0, le=1e9)]


class Goal(ScenarioPart):
    """The problem to solve; :class:`feduplink.Problem` is what computes with it."""

    per_worker: ClassVar[tuple[str, ...]] = ("rate_min", "ee_min", "weights")

    objective: str = Field(
        "psr", description="measure in the objective; a name or package.module:Class"
    )
    utility: UtilityName = Field("weighted-sum", description="utility g over the workers")
    weights: Literal["data", "uniform", "ones"] | tuple[_Weight, ...] = Field(
        "data", description="worker weights: data (k_i/K), uniform (1/L), ones, or a list"
    )
    rate_min: _Rate | tuple[_Rate, ...] = Field(
        0.70, description="threshold r0 on E[R|p>0], nats/s/Hz; one value or one per worker"
    )
    ee_min: _EnergyEfficiency | tuple[_EnergyEfficiency, ...] = Field(
        55.0, description="threshold e0 on E[EE|p>0], nats/s/Hz/W; one value or one per worker"
    )
    constraints: tuple[str, ...] = Field(
        (),
        description="further constraints, each NAME >= LIMIT or NAME <= LIMIT with the name of a "
        "measure or package.module:Class, and one limit or one per worker",
    )

    @field_validator("constraints", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        """One constraint need not be a list."""
        return [given] if isinstance(given, str) else given

    @model_validator(mode="after")
    def _check_measures(self) -> Self:
        objective, *constrained = self.measures
        MEASURES.check(objective, "objective")
        for name in constrained:
            MEASURES.check(name, "constraints")
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures in the objective and in further constraints."""
        further = (ConstraintText.parse(text, self.workers) for text in self.constraints)
        return (self.objective, *(constraint.measure for constraint in further))

    @cached_property
    def worker_weights(self) -> Tensor:
        """ω, (L,) float64. ``data`` and ``uniform`` sum to one."""
        if isinstance(self.weights, tuple):
            return float64(self.weights)
        if self.weights == "ones":
            return float64([1.0] * self.workers)
        if self.weights == "uniform":
            return float64([1 / self.workers] * self.workers)
        sizes = float64(data_sizes(self.workers).tolist())
        return sizes / sizes.sum()

    @cached_property
    def rate_thresholds(self) -> Tensor:
        """r0, (L,) float64, nats/s/Hz."""
        return float64(self.rate_min).expand(self.workers)

    @cached_property
    def ee_thresholds(self) -> Tensor:
        """e0, (L,) float64, nats/s/Hz/W."""
        return float64(self.ee_min).expand(self.workers)


def data_sizes(workers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The paper's draw of relative data sizes k_i, (L,) integers in [100, 1000)."""
    import numpy as np  # as PyTorch: not where a system is only described

    return np.random.RandomState(42).randint(100, 1000, workers).astype(np.int64)
