"""The figures of several runs of one command, by the values of what was varied."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feduplink.errors import unknown_name
from feduplink.metrics import METRICS_FILE
from feduplink.text_table import TextTable

#: What is shown unless asked otherwise: the first of these that there is, else the first of all.
_FIRST = ("objective", "final_error")


@dataclass(frozen=True)
class SweptRow:
    """The figures of one policy at one combination of values."""

    values: tuple[str, ...]
    policy: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class SweptFigures:
    """All of them.

    Attributes:
        options: what was varied, one or two.
        rows: by combination of values, then by policy.
    """

    options: tuple[str, ...]
    rows: Sequence[SweptRow]

    @classmethod
    def read(cls, runs: Mapping[tuple[str, ...], Path], options: Sequence[str]) -> SweptFigures:
        """Of finished runs, by combination of values."""
        rows = [
            SweptRow(values, policy, figures)
            for values, directory in runs.items()
            for policy, figures in _figures(directory).items()
        ]
        return cls(tuple(options), rows)

    @property
    def policies(self) -> list[str]:
        """Names of all policies; of a run without policies, its own name is empty."""
        return list(dict.fromkeys(row.policy for row in self.rows))

    @property
    def names(self) -> list[str]:
        """Names of all figures."""
        return list(dict.fromkeys(name for row in self.rows for name in row.figures))

    def values(self, place: int) -> list[str]:
        """Values of the first or second option, in the order given."""
        return list(dict.fromkeys(row.values[place] for row in self.rows))

    def chosen(self, name: str | None) -> str:
        """The figure of this name; without one, that which matters most."""
        if name is None:
            return next((first for first in _FIRST if first in self.names), self.names[0])
        if name not in self.names:
            raise unknown_name("figure", name, self.names)
        return name

    def get(self, policy: str, values: tuple[str, ...], name: str) -> float:
        """One figure; NaN if there is none."""
        for row in self.rows:
            if row.policy == policy and row.values == values:
                return row.figures.get(name, math.nan)
        return math.nan

    def feasible(self, policy: str, values: tuple[str, ...]) -> bool | None:
        """Whether constraints are met; None if the channels cannot tell, True if there are none."""
        if "feasible" not in self.names:
            return True
        return {1.0: True, 0.0: False}.get(self.get(policy, values, "feasible"))

    def table(self, name: str) -> TextTable:
        """One figure: a column per value of the first option, a row per policy and second value."""
        first, *second = self.options
        columns = [*self.values(0)]
        rows = []
        for other in [(value,) for value in self.values(1)] if second else [()]:
            for policy in self.policies:
                figures = [self.get(policy, (value, *other), name) for value in columns]
                label = " ".join([policy, *(f"{second[0]}={value}" for value in other)]).strip()
                rows.append([label or name, *map(_shown, figures)])
        return TextTable(f"{name} against {first}", ["policy", *columns], rows)

    def to_csv(self) -> str:
        """A row per combination of values and policy, a column per figure."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.options, "policy", *self.names])
        for row in self.rows:
            figures = [_written(row.figures.get(name, math.nan)) for name in self.names]
            writer.writerow([*row.values, row.policy, *figures])
        return text.getvalue()


def _figures(directory: Path) -> dict[str, dict[str, float]]:
    """The numbers in the ``metrics.json`` of a run, by policy."""
    metrics = json.loads((directory / METRICS_FILE).read_bytes())
    found = {name: _numbers(entry) for name, entry in metrics.get("policies", {}).items()}
    for name in ("test", "optimum"):
        if isinstance(metrics.get(name), dict):
            found[metrics.get("policy", name) if name == "test" else name] = _numbers(metrics[name])
    return found or {"": _numbers({k: v for k, v in metrics.items() if k != "seed"})}


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in entry.items() if isinstance(v, int | float)}


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _written(value: float) -> str:
    """Six digits: more are noise of the channels that were drawn."""
    return "" if math.isnan(value) else f"{value:.6g}"
