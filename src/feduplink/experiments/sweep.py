"""Policies against one parameter of the cell: the shape of four of the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel

from feduplink.experiments.settings import Figures, Setting
from feduplink.experiments.table import csv_text

Measure = Literal["objective", "weighted_per", "participation", "shortfall", "repaired_objective"]


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
    def of(
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

    def seeds(self, policy: str, place: int, measure: Measure) -> list[float]:
        """The measure of every seed at the ``place``-th value; NaN where it does not exist."""
        values = [getattr(figures, measure) for figures in self.policies[policy][place]]
        return [np.nan if value is None else float(value) for value in values]

    def mean(self, policy: str, place: int, measure: Measure) -> float:
        """Mean over the seeds; NaN without any."""
        values = self.seeds(policy, place, measure)
        return float(np.mean(values)) if values else np.nan

    def means(self, policy: str, measure: Measure) -> list[float]:
        """Mean over the seeds at every value."""
        return [self.mean(policy, place, measure) for place in range(len(self.values))]

    def missed(self, policy: str, place: int) -> bool:
        """Whether a constraint is shown to be missed with one seed or more."""
        return any(figures.feasible is False for figures in self.policies[policy][place])

    def below(self, better: str, worse: str, measure: Measure) -> list[bool | None]:
        """At every value where both exist, whether ``better`` is under ``worse`` on average.

        None where one of them is silent and has no such measure.
        """
        both = [
            place
            for place in range(len(self.values))
            if self.policies[better][place] and self.policies[worse][place]
        ]
        pairs = [(self.mean(better, n, measure), self.mean(worse, n, measure)) for n in both]
        return [None if np.isnan(one + other) else one < other for one, other in pairs]

    def told(self, policies: Sequence[str], measure: Measure) -> str:
        """The means in words, ``pdg 0.940, 0.880; pdm ...``; shares of errors in percent."""

        def shown(value: float) -> str:
            if np.isnan(value):
                return "–"
            return f"{100 * value:.1f} %" if measure == "weighted_per" else f"{value:.3f}"

        return "; ".join(
            f"{name} {', '.join(shown(value) for value in self.means(name, measure))}"
            for name in policies
        )

    def to_csv(self) -> str:
        """A row for every policy, value and run (a seed each)."""
        rows = (
            [name, f"{value:g}", run, *figures.model_dump().values()]
            for name, by_value in self.policies.items()
            for value, seeds in zip(self.values, by_value, strict=True)
            for run, figures in enumerate(seeds)
        )
        return csv_text(["policy", self.parameter, "run", *Figures.model_fields], rows)
