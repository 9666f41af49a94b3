"""What training looked like, epoch by epoch, and which epoch was best."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from feduplink.judgement import Judgement, feasible_first


@dataclass(frozen=True)
class Epoch:
    """The validation figures after one epoch.

    Attributes:
        number: counted from 0.
        objective, participation, violation, feasible: as in a :class:`Judgement`.
        constraints: what every constrained measure came to, by its name, one value per worker.
        worst: of each, that of the worker nearest to its limit, as in ``metrics.json``.

    """

    number: int
    objective: float
    participation: float
    violation: float
    feasible: bool | None
    constraints: dict[str, tuple[float, ...]]
    worst: dict[str, float]

    @classmethod
    def from_judgement(cls, number: int, verdict: Judgement) -> Epoch:
        """The record of epoch ``number`` judged on the validation channels."""
        return cls(
            number,
            verdict.objective,
            verdict.participation,
            verdict.violation,
            verdict.feasible,
            {name: tuple(r.expected.tolist()) for name, r in verdict.reached.items()},
            {reached.key: reached.worst for reached in verdict.reached.values()},
        )

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Epoch:
        """Inverse of :meth:`to_json`."""
        listed = {name: tuple(values) for name, values in fields["constraints"].items()}
        return cls(**{**fields, "constraints": listed})

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key of the best-epoch rule.

        Epochs in which all workers meet all constraints, without tolerance, come first, by
        objective; the others by how little they miss.
        """
        return feasible_first(self.violation, self.objective)

    @property
    def met(self) -> bool:
        """Whether every worker meets every constraint exactly."""
        return self.violation == 0.0


def best_epoch(history: list[Epoch]) -> Epoch:
    """The first epoch of the highest rank."""
    return max(history, key=lambda epoch: epoch.rank)
