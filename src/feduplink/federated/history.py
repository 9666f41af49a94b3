"""Histories of federations: errors, arrivals, airtime and energy by round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from feduplink.federated.uplink import UplinkRecord
from feduplink.judgement import finite_or_none
from feduplink.tables import TextTable, three_digits
from feduplink.units import DisplayUnit, scaled_unit

Cost = Literal["rounds", "airtime_s", "energy_j"]
#: Costs that are recorded for every round.
_CostPerRound = Literal["airtime_s", "energy_j"]
_PER_ROUND: tuple[_CostPerRound, ...] = get_args(_CostPerRound)

#: Number of rounds over which the final error is averaged.
FINAL_ROUNDS = 10

#: SI units of time and energy.
_UNITS: dict[_CostPerRound, str] = {"airtime_s": "s", "energy_j": "J"}
#: What costs of rounds are called before "to target".
_NAMES: dict[Cost, str] = {"rounds": "rounds", "airtime_s": "time", "energy_j": "energy"}


@dataclass(frozen=True)
class FinishedRound:
    """Test errors after a round, as reported to callbacks.

    Attributes:
        number: number of rounds so far.
        errors: test errors of the global models by policy, one value per run.
    """

    number: int
    errors: dict[str, tuple[float, ...]]

    @property
    def mean_errors(self) -> dict[str, float]:
        """Mean errors over the runs, by policy."""
        return {name: sum(errors) / len(errors) for name, errors in self.errors.items()}


@dataclass(frozen=True)
class RunHistory:
    """History of one policy in one run, one value per round.

    Attributes:
        error: error of the global model on the test set.
        arrivals: number of uploads that arrived.
        transmitting: number of workers that transmitted.
        airtime_s: duration of the uploads, s; None if undefined (``ideal``).
        energy_j: energy of all workers, J; None if undefined.
        sent_bytes: number of bytes that all workers transmitted.
        arrived: whether each worker's upload arrived, L values per round.

    """

    error: tuple[float, ...]
    arrivals: tuple[int, ...]
    transmitting: tuple[int, ...]
    airtime_s: tuple[float | None, ...]
    energy_j: tuple[float | None, ...]
    sent_bytes: tuple[int, ...]
    arrived: tuple[tuple[bool, ...], ...] = ()

    @classmethod
    def from_uplink(cls, errors: list[float], record: UplinkRecord) -> RunHistory:
        """Combine the errors of the rounds so far with the record of all uploads."""
        done = len(errors)

        def or_none(values: Tensor) -> tuple[float | None, ...]:
            return tuple(None if value != value else value for value in values[:done].tolist())

        return cls(
            error=tuple(errors),
            arrivals=tuple(record.arrived[:done].sum(-1).tolist()),
            transmitting=tuple(record.transmitting[:done].sum(-1).tolist()),
            airtime_s=or_none(record.airtime_s),
            energy_j=or_none(record.energy_j),
            sent_bytes=tuple(round(value) for value in record.sent_bytes[:done].tolist()),
            arrived=tuple(map(tuple, record.arrived[:done].tolist())),
        )

    def cumulative(self, cost: Cost) -> np.ndarray[Any, np.dtype[np.float64]] | None:
        """Cumulative cost at the end of every round, in rounds, s or J; None if undefined."""
        if cost == "rounds":
            return np.arange(1.0, len(self.error) + 1)
        values = getattr(self, cost)
        if any(value is None for value in values):
            return None
        return np.cumsum(np.array(values, np.float64))

    def cost_to(self, error: float, cost: Cost) -> float | None:
        """Return the cost until the error is at most ``error`` for the first time.

        Args:
            error: target error.
            cost: ``rounds``, ``airtime_s`` or ``energy_j``.

        Returns:
            Cost in rounds, s or J; None if the target is not reached or the cost is undefined.

        >>> run = RunHistory((0.5, 0.2), (1, 1), (1, 1), (3.0, 4.0), (None, None), (1, 1))
        >>> run.cost_to(0.3, "airtime_s")
        7.0
        """
        reached = next((n for n, value in enumerate(self.error) if value <= error), None)
        spent = self.cumulative(cost)
        return None if reached is None or spent is None else float(spent[reached])

    def to_json(self) -> dict[str, list[float | int | None]]:
        """Convert all values but ``arrived`` to JSON lists; NaN and infinity become None."""
        return {
            name: [finite_or_none(value) for value in values]
            for name, values in asdict(self).items()
            if name != "arrived"
        }


class PolicyHistory(tuple[RunHistory, ...]):
    """Histories of all runs of one policy."""

    __slots__ = ()

    @property
    def delivered(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Delivery rate of each worker over all rounds and runs, (L,)."""
        rounds = np.array([row for run in self for row in run.arrived], np.float64)
        shares: np.ndarray[Any, np.dtype[np.float64]] = rounds.mean(0)
        return shares

    def delivery_entries(self) -> dict[str, Any]:
        """Delivery rates of the workers and their minimum, JSON-compatible.

        Empty if the arrivals were not recorded.
        """
        if not any(run.arrived for run in self):
            return {}
        shares = self.delivered.tolist()
        return {"delivered": shares, "delivered_least": min(shares)}


@dataclass(frozen=True, repr=False)
class FederatedHistory:
    """Histories of all policies of a comparison.

    Attributes:
        task: name of the task.
        metric_name: name of the test error.
        policies: histories of all runs, by policy.
    """

    task: str
    metric_name: str
    policies: dict[str, tuple[RunHistory, ...]]

    @property
    def rounds(self) -> int:
        """Number of rounds so far."""
        return max(len(run.error) for runs in self.policies.values() for run in runs)

    def final_errors(self, policy: str) -> list[float]:
        """Mean error over the last ten rounds, one value per run."""
        return [float(np.mean(run.error[-FINAL_ROUNDS:])) for run in self.policies[policy]]

    def final_error(self, policy: str) -> float:
        """Mean error over the last ten rounds of all runs."""
        return float(np.mean(self.final_errors(policy)))

    def median_cost(self, policy: str, cost: _CostPerRound) -> float | None:
        """Median cost of a round over all rounds and runs, s or J; None if undefined."""
        values = [value for run in self.policies[policy] for value in getattr(run, cost)]
        return None if None in values else float(np.median(values))

    def costs_to(self, policy: str, error: float, cost: Cost) -> list[float]:
        """Cost of every run to reach ``error``, infinite if the run does not reach it.

        See :meth:`RunHistory.cost_to`.
        """
        costs = (run.cost_to(error, cost) for run in self.policies[policy])
        return [math.inf if value is None else value for value in costs]

    def median_cost_to(self, policy: str, error: float, cost: Cost) -> float | None:
        """Median of :meth:`costs_to` over the runs; None if it is infinite."""
        return finite_or_none(float(np.median(self.costs_to(policy, error, cost))))

    def only(self, policies: Iterable[str]) -> FederatedHistory:
        """Return the histories of some of the policies."""
        return replace(self, policies={name: self.policies[name] for name in policies})

    def table(self, target: float | None = None) -> TextTable:
        """Table with one row per policy: final error, arrivals and costs per round.

        Args:
            target: target error; adds columns with the costs of reaching it.
        """
        runs = next(iter(self.policies.values()))
        rounds = len(runs[0].error)
        title = (
            f"{self.task}, {len(runs)} run{'s' if len(runs) > 1 else ''} of {rounds} "
            f"rounds; final error: mean of the last {min(FINAL_ROUNDS, rounds)}"
        )
        per_round = {
            cost: [self.median_cost(name, cost) for name in self.policies] for cost in _PER_ROUND
        }
        to_target: dict[Cost, list[float | None]] = {}
        if target is not None:
            title += f"; target: {self.metric_name} {target:.4g}"
            for cost in get_args(Cost):
                to_target[cost] = [self.median_cost_to(n, target, cost) for n in self.policies]
        units: dict[Cost, DisplayUnit] = {
            cost: scaled_unit(
                _UNITS[cost],
                [v for v in (*per_round[cost], *to_target.get(cost, ())) if v is not None],
            )
            for cost in _PER_ROUND
        }
        costs = [
            (units[cost].label("median\nround", ", "), _cells(per_round[cost], units[cost]))
            for cost in _PER_ROUND
        ]
        for cost, values in to_target.items():
            unit = units.get(cost)
            header = f"{_NAMES[cost]}\nto target"
            costs.append((unit.label(header, ", ") if unit else header, _cells(values, unit)))
        columns = ["policy", "final\nerror", "arrivals\nper round", *(name for name, _ in costs)]
        rows = []
        for place, (name, runs) in enumerate(self.policies.items()):
            arrivals = np.mean([count for run in runs for count in run.arrivals])
            shown = [cells[place] for _, cells in costs]
            rows.append([name, f"{self.final_error(name):.4f}", f"{arrivals:.2f}", *shown])
        return TextTable(title, columns, rows)

    def __repr__(self) -> str:
        """Table as plain text."""
        return self.table().plain()

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON: lists with one value per round, by policy and run."""
        return {
            name: {
                "final_error": finite_or_none(self.final_error(name)),
                "median_airtime_s": self.median_cost(name, "airtime_s"),
                "median_energy_j": self.median_cost(name, "energy_j"),
                **PolicyHistory(runs).delivery_entries(),
                "runs": [run.to_json() for run in runs],
            }
            for name, runs in self.policies.items()
        }


def _cells(values: Sequence[float | None], unit: DisplayUnit | None) -> list[str]:
    """Costs in a unit, or numbers of rounds without one; a dash for those that are not defined."""
    if unit is None:
        return ["-" if value is None else f"{value:g}" for value in values]
    return ["-" if v is None else three_digits(unit.displayed(v)) for v in values]
