"""What training looked like, epoch by epoch, and which epoch was best."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from feduplink.problem import Judgement


@dataclass(frozen=True)
class Epoch:
    """The validation figures after one epoch; the constraints are listed by worker."""

    number: int
    objective: float
    participation: float
    violation: float
    feasible: bool | None
    worker_rate: tuple[float, ...]
    worker_energy_efficiency: tuple[float, ...]

    @classmethod
    def of(cls, number: int, verdict: Judgement) -> Epoch:
        """The record of epoch ``number`` judged on the validation channels."""
        return cls(
            number,
            verdict.objective,
            verdict.participation,
            verdict.violation,
            verdict.feasible,
            tuple(verdict.worker_rate.tolist()),
            tuple(verdict.worker_energy_efficiency.tolist()),
        )

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Epoch:
        """Inverse of :meth:`to_json`."""
        listed = {name: tuple(v) for name, v in fields.items() if isinstance(v, list)}
        return cls(**{**fields, **listed})

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key of the best-epoch rule.

        Epochs in which all workers meet all constraints, without tolerance, come first, by
        objective; the others by how little they miss.
        """
        return (self.met, self.objective if self.met else -self.violation)

    @property
    def met(self) -> bool:
        """Whether every worker meets every constraint exactly."""
        return self.violation == 0.0


def best_epoch(history: list[Epoch]) -> Epoch:
    """The first epoch of the highest rank."""
    return max(history, key=lambda epoch: epoch.rank)
