"""Policies against one parameter of the cell: the shape of four of the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel

from feduplink.experiments.claims import lower, mean_and_error
from feduplink.experiments.judged_settings import Figures, Setting
from feduplink.experiments.table import csv_rows, csv_text

Quantity = Literal["objective", "weighted_per", "participation", "shortfall", "repaired_objective"]
Loss = Literal["objective", "weighted_per"]


class Sweep(BaseModel):
    """Figures by policy, by value of the parameter, by seed.

    A policy that does not exist at a value (``pdm`` with another number of workers) has an empty
    list there.
    """

    parameter: str
    values: list[float]
    logarithmic: bool
    policies: dict[str, list[list[Figures]]]

    @classmethod
    def from_settings(
        cls,
        parameter: str,
        values: Sequence[float],
        settings: Sequence[Sequence[Setting]],
        *,
        logarithmic: bool = False,
    ) -> Sweep:
        """From the settings of all seeds at every value."""
        names = dict.fromkeys(name for row in settings for one in row for name in one.policies)
        return cls(
            parameter=parameter,
            values=list(values),
            logarithmic=logarithmic,
            policies={
                name: [
                    [one.policies[name] for one in row if name in one.policies] for row in settings
                ]
                for name in names
            },
        )

    def seeds(self, policy: str, place: int, quantity: Quantity) -> list[float]:
        """The quantity of every seed at the ``place``-th value; NaN where it does not exist."""
        values = [getattr(figures, quantity) for figures in self.policies[policy][place]]
        return [np.nan if value is None else float(value) for value in values]

    def mean(self, policy: str, place: int, quantity: Quantity) -> float:
        """Mean over the seeds; NaN without any."""
        values = self.seeds(policy, place, quantity)
        return float(np.mean(values)) if values else np.nan

    def means(self, policy: str, quantity: Quantity) -> list[float]:
        """Mean over the seeds at every value."""
        return [self.mean(policy, place, quantity) for place in range(len(self.values))]

    def feasible(self, policy: str, place: int) -> bool | None:
        """False: infeasible with one seed or more; True: feasible with all; None: otherwise."""
        verdicts = [figures.feasible for figures in self.policies[policy][place]]
        if False in verdicts:
            return False
        return None if None in verdicts else True

    def losses(self, policy: str, place: int, quantity: Loss) -> list[float]:
        """What was lost with every seed: the weighted PER, or 1 − objective."""
        values = self.seeds(policy, place, quantity)
        return [1 - value for value in values] if quantity == "objective" else values

    def ahead(self, better: str, worse: str, quantity: Loss) -> list[bool | None]:
        """At every value where both exist, whether ``better`` loses less than ``worse``.

        Seed by seed: both have the same channels. None where chance may be behind the difference
        (:func:`~feduplink.experiments.claims.lower`), or where one of them is silent and has no
        such quantity.
        """
        both = [
            place
            for place in range(len(self.values))
            if self.policies[better][place] and self.policies[worse][place]
        ]
        pairs = [(self.losses(better, n, quantity), self.losses(worse, n, quantity)) for n in both]
        return [
            None if np.isnan([*one, *other]).any() else lower(one, other) for one, other in pairs
        ]

    def in_words(self, policies: Sequence[str], quantity: Quantity) -> str:
        """Means and standard errors over the seeds in words; shares of errors in percent."""
        return "; ".join(
            f"{name} "
            + ", ".join(
                _in_words(self.seeds(name, place, quantity), quantity)
                for place in range(len(self.values))
            )
            for name in policies
        )

    def verdicts(self, policy: str) -> str:
        """How many values and seeds are feasible, inconclusive and infeasible, in words."""
        found = [figures.feasible for seeds in self.policies[policy] for figures in seeds]
        return (
            f"{policy} feasible {found.count(True)}, inconclusive {found.count(None)}, infeasible "
            f"{found.count(False)} of {len(found)}"
        )

    def to_csv(self) -> str:
        """One row per policy, value and run; every run has a seed of its own."""
        rows = (
            [name, f"{value:g}", run, *figures.model_dump().values()]
            for name, by_value in self.policies.items()
            for value, seeds in zip(self.values, by_value, strict=True)
            for run, figures in enumerate(seeds)
        )
        return csv_text(["policy", self.parameter, "run", *Figures.model_fields], rows)

    @classmethod
    def from_csv(cls, text: str) -> Sweep:
        """What :meth:`to_csv` wrote, values ascending; whether ``logarithmic`` is lost."""
        rows = csv_rows(text, ["policy", "run", *Figures.model_fields])
        parameter = list(rows[0])[1]  # the second column
        values = sorted({row[parameter] for row in rows}, key=float)
        return cls(
            parameter=parameter,
            values=[float(value) for value in values],
            logarithmic=False,
            policies=figures_by_policy(rows, parameter, values),
        )


def figures_by_policy(
    rows: Sequence[Mapping[str, str]], column: str, values: Sequence[str]
) -> dict[str, list[list[Figures]]]:
    """Rows of a CSV file by policy, by which of ``values`` is in ``column``, by seed."""
    found: dict[str, list[list[Figures]]] = {}
    for row in rows:
        by_value = found.setdefault(row["policy"], [[] for _ in values])
        fields = {name: row[name] or None for name in Figures.model_fields}
        by_value[values.index(row[column])].append(Figures.model_validate(fields))
    return found


def _in_words(values: Sequence[float], quantity: Quantity) -> str:
    """Mean and standard error; a weighted PER in percent, a dash without a value."""
    if not values or np.isnan(values).any():
        return "–"
    if quantity == "weighted_per":
        return f"{mean_and_error([100 * value for value in values], 1)} %"
    return mean_and_error(values, 3)
