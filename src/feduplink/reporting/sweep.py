"""Results against the values of a sweep."""

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
from feduplink.reporting.style import (
    MUTED,
    StyledFigure,
    feasibility_note,
    figure,
    legend_columns,
    looks_of,
    marker_style,
    objective_label,
    set_objective_scale,
)
from feduplink.storage.run_directory import METRICS_FILE
from feduplink.tables import TextTable

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


#: Values that reach over this many times the smallest have a logarithmic axis.
_DECADES = 20.0


def plot_swept(swept: SweptFigures, name: str) -> StyledFigure:
    """A line per policy against the first option; a panel per value of the second."""
    first, *second = swept.options
    others = [(value,) for value in swept.values(1)] if second else [()]
    looks = looks_of(swept.policies)
    with figure(max(5.5, 3.6 * len(others)), 4.0, f"{name} against {first}") as drawing:
        panels = drawing.subplots(1, len(others), squeeze=False, sharey=True)[0]
        for axes, other in zip(panels, others, strict=True):
            places = _set_values(axes, swept.values(0))
            for policy, look in looks.items():
                heights = [swept.get(policy, (v, *other), name) for v in swept.values(0)]
                axes.plot(places, heights, look.line, color=look.colour, linewidth=1.0)
                axes.plot([], [], label=policy or None, **marker_style(look))
                for place, value, height in zip(places, swept.values(0), heights, strict=True):
                    met = swept.feasible(policy, (value, *other))
                    axes.plot(place, height, **marker_style(look, met))
            axes.set_xlabel(first)
            axes.set_title(", ".join(f"{second[0]} {value}" for value in other))
        panels[0].set_ylabel(_label(panels[0], swept, name))
        handles, labels = panels[0].get_legend_handles_labels()
        if labels:
            columns = min(legend_columns(len(labels)), 4 * len(others))
            drawing.legend(handles, labels, loc="outside lower center", ncols=columns)
        if "feasible" in swept.names:
            marks = [swept.feasible(row.policy, row.values) for row in swept.rows]
            drawing.suptitle(feasibility_note(marks), fontsize=8, color=MUTED)
    return drawing


def _set_values(axes: Any, values: list[str]) -> list[float]:
    """The places of the values on the axis: numbers as such, others one after the other."""
    try:
        places = [float(value) for value in values]
    except ValueError:
        axes.set_xticks(range(len(values)), values)
        return [float(place) for place in range(len(values))]
    if min(places) > 0 and max(places) >= _DECADES * min(places):
        axes.set_xscale("log")
    if len(values) <= 6:
        axes.set_xticks(places, values)
        axes.minorticks_off()
    return places


def _label(axes: Any, swept: SweptFigures, name: str) -> str:
    if name != "objective":
        return name.replace("_", " ")
    heights = [row.figures[name] for row in swept.rows if name in row.figures]
    return objective_label(set_objective_scale(axes, "y", heights))
