"""Training histories: epoch records, selection of the best epoch, and data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from feduplink.judgement import Judgement, feasible_first
from feduplink.validation import import_extra

if TYPE_CHECKING:
    from pandas import DataFrame


class EpochRecord(ABC):
    """Abstract base class of epoch records.

    Attributes:
        number: index of the epoch, counted from 0.
        is_validated: whether the metrics are those of validation channels.
    """

    is_validated: ClassVar[bool]
    number: int

    @property
    @abstractmethod
    def rank(self) -> tuple[float, ...]:
        """Sort key: the best epoch is the first one with the largest key."""

    @property
    def done(self) -> int:
        """Amount of training up to this epoch, in the unit of the learning algorithm."""
        return self.number + 1

    @property
    def meets_constraints(self) -> bool:
        """Whether the epoch satisfies all constraints; early stopping requires it of the best."""
        return True

    @abstractmethod
    def figures(self, best: Self) -> Mapping[str, float]:
        """Metrics for a progress bar, by name.

        Args:
            best: best epoch so far.
        """

    @abstractmethod
    def row(self) -> dict[str, Any]:
        """Columns of this epoch in ``history.csv`` and in a data frame."""

    @abstractmethod
    def scalars(self) -> dict[str, float]:
        """Metrics for a tracker such as TensorBoard, by tag."""


@dataclass(frozen=True)
class Epoch(EpochRecord):
    """Validation metrics of one epoch of primal–dual learning.

    Attributes:
        number: index of the epoch, counted from 0.
        objective, participation, violation, feasible: as in a :class:`Judgement`.
        constraints: estimated expectations of the constrained measures by name, (L,) each.
        worst: expectation of each constrained measure for the worker closest to its limit.

    """

    is_validated = True

    number: int
    objective: float
    participation: float
    violation: float
    feasible: bool | None
    constraints: dict[str, tuple[float, ...]]
    worst: dict[str, float]

    @classmethod
    def from_judgement(cls, number: int, verdict: Judgement) -> Epoch:
        """Make the record of epoch ``number`` from its judgement on the validation channels."""
        return cls(
            number,
            verdict.objective,
            verdict.participation,
            verdict.violation,
            verdict.feasible,
            {name: tuple(r.expected.tolist()) for name, r in verdict.constraints.items()},
            {value.key: value.worst for value in verdict.constraints.values()},
        )

    def __str__(self) -> str:
        """Epoch, counted from 1, objective and violation."""
        constraints = f"violation {self.violation:.1%}"
        if self.meets_constraints:
            constraints = "feasible"
        return f"epoch {self.number + 1}, objective {self.objective:.4f}, {constraints}"

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key: feasible epochs by objective above infeasible ones by −violation."""
        return feasible_first(self.violation, self.objective)

    @property
    def meets_constraints(self) -> bool:
        """Whether every constraint holds for every worker, without tolerance."""
        return self.violation == 0.0

    def figures(self, best: Self) -> dict[str, float]:
        """Objective, and objective and violation of the best epoch."""
        return {
            "objective": self.objective,
            "best": best.objective,
            "best violation": best.violation,
        }

    def row(self) -> dict[str, Any]:
        """Metrics and constrained measures by worker; epochs and workers are counted from 1."""
        by_worker = {
            f"{name}_{worker}": value
            for name, values in self.constraints.items()
            for worker, value in enumerate(values, start=1)
        }
        return {
            "epoch": self.number + 1,
            **self._judged(),
            "feasible": self.feasible,
            **by_worker,
        }

    def scalars(self) -> dict[str, float]:
        """Metrics, and constrained measures of the worker closest to the limit."""
        figures = self._judged() | self.worst
        return {f"validation/{name}": value for name, value in figures.items()}

    def _judged(self) -> dict[str, float]:
        names = ("objective", "participation", "violation")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class NetworkEpoch(EpochRecord):
    """Training metrics of an epoch on fresh channels, without validation.

    Attributes:
        number: index of the epoch, counted from 0.
        steps: number of steps so far.
        last: metrics of the last batch, by name.
    """

    is_validated = False

    number: int
    steps: int
    last: dict[str, float]

    def __str__(self) -> str:
        """Number of steps and metrics."""
        figures = (f"{name} {value:.4g}" for name, value in self.last.items())
        return ", ".join([f"step {self.steps}", *figures])

    @property
    def rank(self) -> tuple[float]:
        """Sort key: the last epoch is the best, since fresh batches do not cause overfitting."""
        return (self.number,)

    @property
    def done(self) -> int:
        """Number of steps so far."""
        return self.steps

    def figures(self, best: Self) -> dict[str, float]:
        """Metrics of the last batch."""
        return self.last

    def row(self) -> dict[str, Any]:
        """Number of steps and metrics."""
        return {"steps": self.steps, **self.last}

    def scalars(self) -> dict[str, float]:
        """Metrics of the last batch."""
        return {f"training/{name}": value for name, value in self.last.items()}


R = TypeVar("R", bound=EpochRecord)


def best_epoch(history: Sequence[R]) -> R:
    """Return the first epoch of highest rank of a non-empty history."""
    return max(history, key=lambda epoch: epoch.rank)


class History(list[R]):
    """List of epoch records, in order."""

    @property
    def best(self) -> R:
        """First epoch of highest rank."""
        return best_epoch(self)

    def to_dataframe(self) -> DataFrame:
        """Data frame with one row per epoch and the columns of ``history.csv``.

        Raises:
            InputError: if pandas is not installed.
        """
        rows = [epoch.row() for epoch in self]
        frame: DataFrame = import_extra("pandas", "pandas").DataFrame(rows)
        return frame
