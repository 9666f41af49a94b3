"""Training histories: the record of every epoch, the best epoch, and tables of all of them."""

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
    """Figures after one epoch of training.

    Attributes:
        number: index of the epoch, counted from 0.
        is_validated: whether epochs are judged on validation channels.
    """

    is_validated: ClassVar[bool]
    number: int

    @property
    @abstractmethod
    def rank(self) -> tuple[float, ...]:
        """Sort key of the best epoch: the first one with the largest key is the best."""

    @property
    def done(self) -> int:
        """Amount of training done after this epoch, in the unit of the learning algorithm."""
        return self.number + 1

    @property
    def meets_constraints(self) -> bool:
        """Whether the epoch may count as the best one, for early stopping."""
        return True

    @abstractmethod
    def figures(self, best: Self) -> Mapping[str, float]:
        """Figures for a progress bar, given the best epoch so far."""

    @abstractmethod
    def row(self) -> dict[str, Any]:
        """Columns of this epoch in ``history.csv`` and in a data frame."""

    @abstractmethod
    def scalars(self) -> dict[str, float]:
        """Figures for a tracker such as TensorBoard, by tag."""


@dataclass(frozen=True)
class Epoch(EpochRecord):
    """Validation figures after one epoch of primal–dual learning.

    Attributes:
        number: index of the epoch, counted from 0.
        objective, participation, violation, feasible: as in a :class:`Judgement`.
        constraints: estimated expectation of every constrained measure by name, one per worker.
        worst: of each constrained measure, the expectation of the worker closest to its limit.

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
        """Record epoch ``number``, judged on the validation channels."""
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
        """Epoch from 1, objective and violation."""
        constraints = f"violation {self.violation:.1%}"
        if self.meets_constraints:
            constraints = "all constraints met"
        return f"epoch {self.number + 1}, objective {self.objective:.4f}, {constraints}"

    @property
    def rank(self) -> tuple[bool, float]:
        """Epochs that meet all constraints exactly by objective, before the others by violation."""
        return feasible_first(self.violation, self.objective)

    @property
    def meets_constraints(self) -> bool:
        """Whether every worker meets every constraint exactly, without tolerance."""
        return self.violation == 0.0

    def figures(self, best: Self) -> dict[str, float]:
        """The objective, and objective and violation of the best epoch."""
        return {
            "objective": self.objective,
            "best": best.objective,
            "best violation": best.violation,
        }

    def row(self) -> dict[str, Any]:
        """Epoch from 1, figures, and every constrained measure by worker, counted from 1."""
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
        """Figures, and every constrained measure of the worker closest to its limit."""
        figures = self._judged() | self.worst
        return {f"validation/{name}": value for name, value in figures.items()}

    def _judged(self) -> dict[str, float]:
        names = ("objective", "participation", "violation")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class NetworkEpoch(EpochRecord):
    """Training figures after some steps on fresh channels, which need no validation.

    Attributes:
        number: index of the epoch, counted from 0.
        steps: steps taken so far.
        last: figures of the last batch, by name.
    """

    is_validated = False

    number: int
    steps: int
    last: dict[str, float]

    def __str__(self) -> str:
        """Steps and figures."""
        figures = (f"{name} {value:.4g}" for name, value in self.last.items())
        return ", ".join([f"step {self.steps}", *figures])

    @property
    def rank(self) -> tuple[float]:
        """The last epoch is the best one: every batch is new, so that nothing is overfitted."""
        return (self.number,)

    @property
    def done(self) -> int:
        """Steps taken so far."""
        return self.steps

    def figures(self, best: Self) -> dict[str, float]:
        """Figures of the last batch."""
        return self.last

    def row(self) -> dict[str, Any]:
        """Steps and figures."""
        return {"steps": self.steps, **self.last}

    def scalars(self) -> dict[str, float]:
        """Figures of the last batch."""
        return {f"training/{name}": value for name, value in self.last.items()}


R = TypeVar("R", bound=EpochRecord)


def best_epoch(history: Sequence[R]) -> R:
    """The first epoch of the highest rank."""
    return max(history, key=lambda epoch: epoch.rank)


class History(list[R]):
    """The records of all epochs, in order."""

    @property
    def best(self) -> R:
        """The first epoch of the highest rank."""
        return best_epoch(self)

    def to_dataframe(self) -> DataFrame:
        """A data frame with one row per epoch and the columns of ``history.csv``."""
        rows = [epoch.row() for epoch in self]
        frame: DataFrame = import_extra("pandas", "pandas").DataFrame(rows)
        return frame
