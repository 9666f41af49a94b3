"""A job for several values of one or two of its options.

>>> import feduplink as fu
>>> swept = fu.sweep(
...     fu.evaluate, fu.Scenario(workers=2), ["max"], over={"pmax_dbw": [-30, -20]},
...     channels_per_split=20, processes=1,
... )
>>> swept.table().columns
('policy', '-30', '-20')
"""

from __future__ import annotations

import csv
import inspect
import io
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feduplink.errors import InputError, unknown_name
from feduplink.process_pool import process_pool
from feduplink.progress import show_progress, track_each
from feduplink.scenario import Scenario
from feduplink.storage.files import write_json
from feduplink.storage.run_directory import METRICS_FILE
from feduplink.tables import TextTable
from feduplink.workflows.options import options_of, takes
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from feduplink.reporting.style import StyledFigure

#: The measure that is shown by default: the first of these that there is, else the first of all.
_DEFAULT_MEASURES = ("objective", "final_error")
#: What a run was called with, to find it again.
_CALL_FILE = "call.json"


@dataclass(frozen=True)
class SweptRow:
    """The measures of one policy in one run.

    Attributes:
        values: of the varied options.
        seed: of the run.
        policy: its name; empty for a job without policies.
        measures: by name.
    """

    values: tuple[Any, ...]
    seed: int
    policy: str
    measures: Mapping[str, float]


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Result):
    """The measures of all runs of a sweep.

    Attributes:
        verb: name of the job.
        options: what was varied, one or two names.
        rows: by combination of values, seed and policy.
        measure: the one that table and plot show.
        scenario: what the varied options change.
        directories: of the runs, relative to that of the sweep.
    """

    kind = "sweep"
    files = "sweep.csv (all measures), sweep.md, sweep.png and a directory per run"

    verb: str
    options: tuple[str, ...]
    rows: tuple[SweptRow, ...]
    measure: str
    scenario: Scenario
    directories: tuple[str, ...] = field(default=())

    @property
    def policies(self) -> list[str]:
        """Names of all policies."""
        return list(dict.fromkeys(row.policy for row in self.rows))

    @property
    def measures(self) -> list[str]:
        """Names of all measures."""
        return list(dict.fromkeys(name for row in self.rows for name in row.measures))

    def values(self, place: int) -> list[Any]:
        """Values of the first or second option, in the order given."""
        return list(dict.fromkeys(row.values[place] for row in self.rows))

    def get(self, policy: str, values: tuple[Any, ...], measure: str) -> float:
        """Mean of a measure over the seeds; NaN if there is none."""
        found = [
            row.measures.get(measure, math.nan)
            for row in self.rows
            if row.policy == policy and row.values == values
        ]
        return math.fsum(found) / len(found) if found else math.nan

    def feasible(self, policy: str, values: tuple[Any, ...]) -> bool | None:
        """The verdict over all seeds; None if inconclusive, True for a job without verdicts."""
        if "feasible" not in self.measures:
            return True
        return {1.0: True, 0.0: False}.get(self.get(policy, values, "feasible"))

    def table(self, measure: str | None = None) -> TextTable:
        """A column per value of the first option, a row per policy and value of the second."""
        measure = self._known(measure)
        first, *second = self.options
        columns = self.values(0)
        rows = []
        for other in [(value,) for value in self.values(1)] if second else [()]:
            for policy in self.policies:
                shown = [self.get(policy, (value, *other), measure) for value in columns]
                label = " ".join([policy, *(f"{second[0]}={value}" for value in other)]).strip()
                rows.append([label or measure, *map(_shown, shown)])
        return TextTable(f"{measure} against {first}", ("policy", *map(str, columns)), rows)

    def plot(self, measure: str | None = None, ax: Axes | None = None) -> Axes:
        """A line per policy against the first option; a panel per value of the second."""
        from feduplink.reporting.sweep import plot_sweep

        axes: Axes = plot_sweep(self.curves(self._known(measure)), self._known(measure), ax)
        return axes

    def curves(self, measure: str) -> dict[str, Any]:
        """The numbers of a plot: options, values, and by policy the measure and the verdicts."""
        second = self.values(1) if len(self.options) > 1 else []
        others: list[tuple[Any, ...]] = [(value,) for value in second] or [()]
        return {
            "options": [option.replace("_", " ") for option in self.options],
            "values": self.values(0),
            "panels": [
                {
                    "title": ", ".join(f"{self.options[1]} {value}" for value in other),
                    "curves": {
                        policy: [
                            (
                                self.get(policy, (value, *other), measure),
                                self.feasible(policy, (value, *other)),
                            )
                            for value in self.values(0)
                        ]
                        for policy in self.policies
                    },
                }
                for other in others
            ],
            "verdicts": "feasible" in self.measures,
        }

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per run and policy: varied options, seed, policy and all measures."""
        for row in self.rows:
            values = dict(zip(self.options, row.values, strict=True))
            yield {**values, "seed": row.seed, "policy": row.policy, **row.measures}

    def metrics(self) -> dict[str, Any]:
        """What was varied."""
        return {
            "title": f"{self.verb} against {' and '.join(self.options)}",
            "caption": self.table().title,
            "varied": {option: self.values(place) for place, option in enumerate(self.options)},
            "verb": self.verb,
            "figure": self.measure,
            "scenario": self.scenario.model_dump(mode="json"),
        }

    def write_files(self, directory: Path) -> None:
        """All measures as CSV, and the table in Markdown."""
        from feduplink.storage.files import write_text

        write_text(directory / "sweep.csv", self.to_csv())
        write_text(directory / "sweep.md", self.table().markdown())

    def figures(self) -> dict[str, StyledFigure]:
        """The measure against the values."""
        from feduplink.reporting.sweep import sweep_figure

        return {"sweep": sweep_figure(self.curves(self.measure), self.measure)}

    def to_csv(self) -> str:
        """A row per run and policy, a column per measure, with six digits."""
        several = len({row.seed for row in self.rows}) > 1
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        seeds = ["seed"] if several else []
        writer.writerow([*self.options, *seeds, "policy", *self.measures])
        for row in self.rows:
            shown = [_written(row.measures.get(name, math.nan)) for name in self.measures]
            writer.writerow([*row.values, *([row.seed] if several else []), row.policy, *shown])
        return text.getvalue()

    def _known(self, measure: str | None) -> str:
        if measure is not None and measure not in self.measures:
            raise unknown_name("figure", measure, self.measures)
        return measure or self.measure

    @classmethod
    def classes(cls) -> list[type]:
        """The rows."""
        return [SweptRow]


def sweep(
    verb: Callable[..., Any],
    scenario: Scenario,
    *arguments: Any,
    over: Mapping[str, Sequence[Any]],
    seeds: Iterable[int] | None = None,
    figure: str | None = None,
    processes: int | None = None,
    out: str | Path | None = None,
    **options: Any,
) -> Sweep:
    """Run a job for all combinations of the values of one or two options.

    Args:
        verb: the job: ``evaluate``, ``find_optimum``, ``train``, ``make_schedules``, ``federate``.
        scenario: the scenario of the job.
        arguments: further positional arguments of the job.
        over: values by name of a field of the scenario or of an option of the job.
        seeds: seeds to repeat every run with; table and plot show means.
        figure: the measure that table and plot show; by default the objective or the final error.
        processes: runs at the same time; by default one per processor if all arguments are names
            and numbers, else one.
        out: directory for the results of the runs; a run that is finished there is not repeated.
        options: options of the job.

    """
    if not 1 <= len(over) <= 2:
        raise InputError("vary: accepted: one option, or two different ones.")
    if any(
        len(values) == 0 or len(set(map(repr, values))) < len(values) for values in over.values()
    ):
        raise InputError("vary: accepted: one or more different values per option.")
    repeated = list(seeds) if seeds is not None else [options.pop("seed", 0)]
    runs = []
    for values in itertools.product(*over.values()):
        for seed in repeated:
            chosen = dict(zip(over, values, strict=True))
            name = ",".join(f"{option.replace('_', '-')}={v}" for option, v in chosen.items())
            name += f",seed={seed}" if len(repeated) > 1 else ""
            where = None if out is None else Path(out) / name.replace("/", "_")
            changed, further = _with_values(verb, scenario, chosen)
            call = _Call(verb, changed, arguments, {**options, **further, "seed": seed}, where)
            runs.append((tuple(values), seed, name, call))
    measures = _run_all([call for *_, call in runs], list(over), [r[0] for r in runs], processes)
    rows = tuple(
        SweptRow(values, seed, policy, row)
        for (values, seed, _, _), found in zip(runs, measures, strict=True)
        for policy, row in found.items()
    )
    names = list(dict.fromkeys(name for row in rows for name in row.measures))
    if figure is not None and figure not in names:
        raise unknown_name("figure", figure, names)
    default = next((name for name in _DEFAULT_MEASURES if name in names), names[0])
    return Sweep(
        verb.__name__,
        tuple(over),
        rows,
        figure or default,
        scenario,
        tuple(name for _, _, name, call in runs if call.directory is not None),
    )


@dataclass(frozen=True)
class _Call:
    """One run: a job, its arguments, and its directory."""

    verb: Callable[..., Any]
    scenario: Scenario
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    directory: Path | None

    def described(self) -> dict[str, Any]:
        """The call as JSON, to find its result again."""
        return {
            "verb": self.verb.__name__,
            "scenario": self.scenario.model_dump(mode="json"),
            "arguments": json.loads(json.dumps(self.arguments, default=repr)),
            "options": json.loads(json.dumps(self.options, default=repr)),
        }

    def is_plain(self) -> bool:
        """Whether all arguments are names and numbers, which another process understands."""
        try:
            json.dumps([self.arguments, self.options])
        except TypeError:
            return False
        return True

    def kept(self) -> dict[str, Any] | None:
        """The metrics of this very call, if it is finished."""
        if self.directory is None or not (self.directory / METRICS_FILE).exists():
            return None
        path = self.directory / _CALL_FILE
        if not path.exists() or json.loads(path.read_bytes()) != self.described():
            return None
        content: dict[str, Any] = json.loads((self.directory / METRICS_FILE).read_bytes())
        return content

    def run(self) -> dict[str, Any]:
        """Run the job, save its result, and return its metrics."""
        if (kept := self.kept()) is not None:
            return kept
        options = dict(self.options)
        if self.directory is not None and takes(self.verb, "out"):
            options["out"] = self.directory
        result = self.verb(self.scenario, *self.arguments, **options)
        if self.directory is not None and result is not None:
            result.save(self.directory)
        if result is not None:
            metrics: dict[str, Any] = result.metrics()
        else:  # a job that only writes
            metrics = json.loads((options["out"] / METRICS_FILE).read_bytes())
        if self.directory is not None:
            write_json(self.directory / _CALL_FILE, self.described())
        return metrics


def _with_values(
    verb: Callable[..., Any], scenario: Scenario, values: Mapping[str, Any]
) -> tuple[Scenario, dict[str, Any]]:
    """The scenario and the options of the job with these values; wrong ones are refused."""
    accepted = options_of(inspect.unwrap(verb)).model_fields
    fields: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in values.items():
        if name in Scenario.model_fields:
            fields[name] = value
        elif name in accepted:
            options[name] = value
        else:
            raise unknown_name("vary", name, [*accepted, *Scenario.model_fields])
    checked = options_of(inspect.unwrap(verb))(**options)
    return scenario.replace(**fields), {name: getattr(checked, name) for name in options}


def _run_all(
    calls: Sequence[_Call],
    names: Sequence[str],
    values: Sequence[tuple[Any, ...]],
    processes: int | None,
) -> list[dict[str, dict[str, float]]]:
    """The measures of every run, by policy; the first refusal is raised at the end."""
    if processes is None:
        processes = (os.cpu_count() or 1) if all(call.is_plain() for call in calls) else 1
    title = "runs of the sweep"
    found: list[dict[str, Any] | InputError] = []
    if min(processes, len(calls)) <= 1:
        found = [_attempt(call) for call in track_each(title, calls)]
    else:
        with process_pool(min(processes, len(calls)), _start_process) as pool:
            submitted = [pool.submit(_attempt, call) for call in calls]
            found = [future.result() for future in track_each(title, submitted)]
    for chosen, ended in zip(values, found, strict=True):
        if isinstance(ended, InputError):
            shown = ", ".join(f"{n} {v}" for n, v in zip(names, chosen, strict=True))
            raise InputError(f"sweep: {shown}: {ended}")
    return [_measures(metrics) for metrics in found if isinstance(metrics, dict)]


def _attempt(call: _Call) -> dict[str, Any] | InputError:
    try:
        return call.run()
    except InputError as error:
        return error


def _start_process() -> None:
    """In each process: one thread, and no progress bars, which the first process shows."""
    import torch

    torch.set_num_threads(1)
    show_progress(False)


def _measures(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The numbers of a job, by policy."""
    entries = metrics.get("policies", {})
    found = {name: _numbers(entry) for name, entry in entries.items() if isinstance(entry, dict)}
    for name in ("test", "optimum"):
        if isinstance(metrics.get(name), dict):
            found[metrics.get("policy", name) if name == "test" else name] = _numbers(metrics[name])
    return found or {"": _numbers({k: v for k, v in metrics.items() if k != "seed"})}


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in entry.items() if isinstance(v, int | float)}


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _written(value: float) -> str:
    """Six digits; more are noise of the channels that were drawn."""
    return "" if math.isnan(value) else f"{value:.6g}"
