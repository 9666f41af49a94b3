"""Sweeps: a workflow for several values of one or two of its options.

>>> import feduplink as fu
>>> swept = fu.sweep(
...     fu.evaluate, fu.Scenario(workers=2), ["max"], over={"pmax_dbw": [-30, -20]},
...     channels_per_split=20,
... )
>>> swept.table().columns
('policy', '0', '10', 'verdict')
>>> swept.table().title
'objective against Pmax, dBm'
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feduplink.errors import InputError, unknown_name
from feduplink.process_pool import process_pool
from feduplink.progress import show_progress, track_each
from feduplink.scenario import Scenario
from feduplink.storage.files import write_json, write_text
from feduplink.storage.run_directory import METRICS_FILE
from feduplink.tables import TextTable
from feduplink.units import (
    DisplayUnit,
    display_unit,
    displayed_power,
    parse_power_dbw,
    power_unit,
)
from feduplink.workflows.options import options_of, takes
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from feduplink.reporting.style import StyledFigure
    from feduplink.reporting.sweep import SweptCurves, SweptPoint

#: Measures shown by default, in order of preference.
_DEFAULT_MEASURES = ("objective", "final_error")
#: Labels of options and measures whose field name is not suitable for display.
_LABELS = {
    "pmax_dbw": "Pmax",
    "rate_min": "rate threshold",
    "ee_min": "EE threshold",
    "cell_side_m": "cell side",
    "bandwidth_hz": "bandwidth",
    "carrier_hz": "carrier frequency",
    "noise_dbm_per_hz": "noise density",
}
_MEASURE_LABELS = {
    "weighted_per": "weighted PER",
    "rate_min": "mean rate of the worst worker",
    "energy_efficiency_min": "mean EE of the worst worker",
}
#: Internal units of fields by the suffix of their name, and of further fields by name.
_SUFFIXES = {"_m": "m", "_hz": "Hz", "_s": "s", "_j": "J", "_w": "W", "_db": "dB"}
_RATE, _EE = "nats/s/Hz", "nats/s/Hz/W"
_UNITS = {
    "rate_min": _RATE,
    "ee_min": _EE,
    "energy_efficiency_min": _EE,
    "noise_dbm_per_hz": "dBm/Hz",
    "noise_figure_db": "dB",
}
#: Names of the verdicts; silent policies count as infeasible.
_VERDICTS = {True: "feasible", False: "infeasible", None: "inconclusive"}
#: File with the arguments of a run; a finished run with equal arguments is not repeated.
_CALL_FILE = "call.json"


@dataclass(frozen=True)
class SweptRow:
    """Measures of one policy in one run.

    Attributes:
        values: values of the varied options.
        seed: seed of the run.
        policy: name of the policy; empty for a workflow without policies.
        measures: values of the measures, by name.
    """

    values: tuple[Any, ...]
    seed: int
    policy: str
    measures: Mapping[str, float]


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Result):
    """Result of :func:`sweep`: measures of all runs.

    Attributes:
        verb: name of the workflow.
        options: names of the one or two varied options.
        rows: measures by combination of values, seed and policy.
        measure: measure shown in table and plot.
        scenario: scenario before the variation.

    >>> import feduplink as fu
    >>> swept = fu.sweep(
    ...     fu.evaluate, fu.Scenario(workers=2), ["max"], over={"pmax_dbw": [-30, -20]},
    ...     channels_per_split=20,
    ... )
    >>> swept.values(0), swept.policies
    ([-30, -20], ['max'])
    >>> swept.get("max", (-20,), "participation")
    1.0
    """

    kind = "sweep"
    files = "sweep.csv (all measures), sweep.md, sweep.png and a directory per run"
    table_file = "sweep.md"
    parts = (SweptRow,)

    verb: str
    options: tuple[str, ...]
    rows: tuple[SweptRow, ...]
    measure: str
    scenario: Scenario

    @property
    def policies(self) -> list[str]:
        """Names of all policies."""
        return list(dict.fromkeys(row.policy for row in self.rows))

    @property
    def measures(self) -> list[str]:
        """Names of all measures."""
        return list(dict.fromkeys(name for row in self.rows for name in row.measures))

    def values(self, place: int) -> list[Any]:
        """Values of a varied option.

        Args:
            place: 0 for the first option, 1 for the second.

        Returns:
            The values, in the order given.
        """
        return list(dict.fromkeys(row.values[place] for row in self.rows))

    @property
    def panels(self) -> list[tuple[Any, ...]]:
        """Values of the second option as tuples; one empty tuple without a second option."""
        return [(value,) for value in self.values(1)] if len(self.options) > 1 else [()]

    def get(self, policy: str, values: tuple[Any, ...], measure: str) -> float:
        """Mean of a measure over the seeds.

        Args:
            policy: name of the policy.
            values: values of the varied options.
            measure: name of the measure.

        Returns:
            The mean, in the unit of ``metrics.json``; NaN without a value.
        """
        found = [
            row.measures.get(measure, math.nan)
            for row in self.rows
            if row.policy == policy and row.values == values
        ]
        return math.fsum(found) / len(found) if found else math.nan

    def feasible(self, policy: str, values: tuple[Any, ...]) -> bool | None:
        """Verdict over all seeds.

        Args:
            policy: name of the policy; the optimum is feasible on the test channels unless silent.
            values: values of the varied options.

        Returns:
            True if feasible for every seed or if the workflow has no verdicts, False if infeasible
            for every seed, otherwise None.
        """
        from feduplink.optimum import OPTIMUM

        if not self.has_verdicts:
            return True
        feasible = self.get(policy, values, "feasible")
        if policy == OPTIMUM:
            return feasible != 0.0
        return {1.0: True, 0.0: False}.get(feasible)

    @property
    def has_verdicts(self) -> bool:
        """Whether the workflow judges constraints; an inconclusive verdict is not a number."""
        return not {"feasible", "shortfall"}.isdisjoint(self.measures)

    def table(self, measure: str | None = None) -> TextTable:
        """Table of a measure, with a column per value of the first option.

        Rows are policies and values of the second option. Values of infeasible policies are in
        brackets; the last column contains the verdicts.

        Args:
            measure: name of the measure; None: :attr:`measure`.

        Returns:
            The table.
        """
        measure = self._known(measure)
        shown = self._shown_values(0)
        rows = []
        for panel in self.panels:
            for policy in self.policies:
                points = {text: (value, *panel) for value, text in shown.items()}
                label = " ".join([policy, self._panel_title(panel)]).strip()
                cells = [self._cell(policy, at, measure) for at in points.values()]
                verdict = [self._verdict(policy, points)] if self.has_verdicts else []
                rows.append([label or measure, *cells, *verdict])
        verdict = ["verdict"] if self.has_verdicts else []
        columns = ("policy", *shown.values(), *verdict)
        bracketed = any(cell.startswith("[") for _, *cells in rows for cell in cells)
        remarks = ["[ ]: infeasible, not to be compared with feasible values"] if bracketed else []
        shown_measure = self._measure_label(measure)
        comma = "," * ("," in shown_measure)  # after the unit
        title = f"{shown_measure}{comma} against {self._option_label(self.options[0])}"
        return TextTable(title, columns, rows, remarks)

    def _cell(self, policy: str, at: tuple[Any, ...], measure: str) -> str:
        """Value of a table cell; in brackets if infeasible, a dash if there is none."""
        value = self.get(policy, at, measure)
        if math.isnan(value):
            return "-"
        shown = f"{self._measure_unit(measure).displayed(value):.4g}"
        return f"[{shown}]" if self.feasible(policy, at) is False else shown

    def _verdict(self, policy: str, points: Mapping[str, tuple[Any, ...]]) -> str:
        """The common verdict, or the values with a verdict other than feasible.

        Args:
            policy: name of the policy.
            points: values of the options by the displayed value of the first one.
        """
        where: dict[str, list[str]] = {}
        for text, at in points.items():
            if not math.isnan(self.get(policy, at, self.measure)):
                silent = self.get(policy, at, "participation") == 0
                word = "silent" if silent else _VERDICTS[self.feasible(policy, at)]
                where.setdefault(word, []).append(text)
        if len(where) < 2:
            return "".join(where)
        exceptions = {word: values for word, values in where.items() if word != "feasible"}
        return "; ".join(f"{word} at {', '.join(vs)}" for word, vs in exceptions.items())

    def _option_unit(self, option: str) -> DisplayUnit:
        """Unit in which values of an option are displayed."""
        if option == "pmax_dbw":
            return DisplayUnit(power_unit(), offset=displayed_power(0.0))
        return self._unit(option)

    def _measure_unit(self, measure: str) -> DisplayUnit:
        """Unit in which a measure is displayed."""
        from feduplink.problem import objective_unit  # imported here, as it imports PyTorch

        if measure == "objective":
            varied = {"objective", "utility"} & set(self.options)
            return DisplayUnit("") if varied else objective_unit(self.scenario)
        return self._unit(measure)

    def _unit(self, name: str) -> DisplayUnit:
        """Displayed unit of a field, from :data:`_UNITS` or the suffix of its name."""
        by_suffix = [unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)]
        bandwidth = None if "bandwidth_hz" in self.options else self.scenario.bandwidth_hz
        return display_unit(_UNITS.get(name, "".join(by_suffix)), bandwidth)

    def _option_label(self, option: str) -> str:
        """Label and unit of an option, such as ``Pmax, dBm``."""
        return self._option_unit(option).label(_label(option, _LABELS), ", ")

    def _measure_label(self, measure: str) -> str:
        """Label and unit of a measure."""
        return self._measure_unit(measure).label(_label(measure, _MEASURE_LABELS), ", ")

    def _shown_values(self, place: int) -> dict[Any, str]:
        """Displayed values of the first or second option."""
        return {value: self._shown_value(place, value) for value in self.values(place)}

    def _shown_value(self, place: int, value: Any) -> str:
        """Displayed value of the first or second option."""
        number = self._number(place, value)
        return str(value) if number is None else f"{number:.4g}"

    def _number(self, place: int, value: Any) -> float | None:
        """Value of an option in its displayed unit; None for texts and lists."""
        option = self.options[place]
        try:
            given = parse_power_dbw(str(value)) if option == "pmax_dbw" else float(value)
        except (InputError, TypeError, ValueError):
            return None
        return self._option_unit(option).displayed(given)

    def _panel_title(self, panel: Sequence[Any]) -> str:
        """Value of the second option with its label, such as ``Pmax 10 dBm``."""
        titles = []
        for value in panel:
            unit = self._option_unit(self.options[1])
            text = unit.label(self._shown_value(1, value))
            titles.append(f"{_label(self.options[1], _LABELS)} {text}")
        return "".join(titles)

    def plot(self, measure: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot a measure against the first option: a line per policy, a panel per second value.

        Args:
            measure: name of the measure; None: :attr:`measure`.
            ax: matplotlib axes to draw in; None: a new figure.

        Returns:
            The axes.
        """
        from feduplink.reporting.sweep import plot_sweep

        axes: Axes = plot_sweep(self.curves(self._known(measure)), ax)
        return axes

    def curves(self, measure: str) -> SweptCurves:
        """Data of the plot of a measure.

        Args:
            measure: name of the measure.

        Returns:
            Means, ranges and verdicts by panel and policy, in displayed units.
        """
        from feduplink.reporting.sweep import SweptCurves

        numbers = [self._number(0, value) for value in self.values(0)]
        values = [*self._shown_values(0).values()] if None in numbers else numbers
        panels = {
            self._panel_title(panel): {
                policy: [self._point(policy, (value, *panel), measure) for value in self.values(0)]
                for policy in self.policies
            }
            for panel in self.panels
        }
        return SweptCurves(
            self._option_label(self.options[0]),
            values,
            self._measure_label(measure),
            panels,
            has_verdicts=self.has_verdicts,
            is_objective=measure == "objective",
        )

    def _point(self, policy: str, at: tuple[Any, ...], measure: str) -> SweptPoint:
        """Mean, range and verdict of a policy at one combination of values."""
        from feduplink.reporting.sweep import SweptPoint

        unit = self._measure_unit(measure)
        runs = [row for row in self.rows if row.policy == policy and row.values == at]
        found = [unit.displayed(row.measures.get(measure, math.nan)) for row in runs]
        return SweptPoint(
            unit.displayed(self.get(policy, at, measure)),
            min(found, default=math.nan),
            max(found, default=math.nan),
            self.feasible(policy, at),
            is_silent=self.get(policy, at, "participation") == 0,
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows per run and policy, with the varied options, seed, policy and all measures."""
        for row in self.rows:
            values = dict(zip(self.options, row.values, strict=True))
            yield {**values, "seed": row.seed, "policy": row.policy, **row.measures}

    def metrics(self) -> dict[str, Any]:
        """Workflow, varied options with their values, and scenario."""
        return {
            "title": f"{self.verb} against "
            + " and ".join(_label(option, _LABELS) for option in self.options),
            "caption": self.table().title,
            "varied": {option: self.values(place) for place, option in enumerate(self.options)},
            "verb": self.verb,
            "figure": self.measure,
            "scenario": self.scenario.model_dump(mode="json"),
        }

    def write_files(self, directory: Path) -> None:
        """Write the table and all measures as CSV."""
        super().write_files(directory)
        write_text(directory / "sweep.csv", self.to_csv())

    def figures(self) -> dict[str, StyledFigure]:
        """Plot of the measure against the values."""
        from feduplink.reporting.sweep import sweep_figure

        return {"sweep": sweep_figure(self.curves(self.measure))}

    def to_csv(self) -> str:
        """CSV text with a row per run and policy and a column per measure.

        Returns:
            The text, with six significant digits.
        """
        seed = ["seed"] if len({row.seed for row in self.rows}) > 1 else []
        columns = dict.fromkeys([*self.options, *seed, "policy", *self.measures])
        text = io.StringIO()
        writer = csv.DictWriter(text, [*columns], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row, record in zip(self.rows, self.records(), strict=True):
            # More than six digits would be sampling noise of the channels.
            shown = {
                name: "" if math.isnan(value) else f"{value:.6g}"
                for name, value in row.measures.items()
            }
            writer.writerow({**record, **shown})
        return text.getvalue()

    def _known(self, measure: str | None) -> str:
        """The measure, or the default for None; raises :class:`InputError` if it is unknown."""
        if measure is not None and measure not in self.measures:
            raise unknown_name("figure", measure, self.measures)
        return measure or self.measure


def _label(name: str, labels: Mapping[str, str]) -> str:
    """Label of an option or a measure; by default its name in words, without the unit."""
    if name in labels:
        return labels[name]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def sweep(
    verb: Callable[..., Any],
    scenario: Scenario,
    *arguments: Any,
    over: Mapping[str, Sequence[Any]],
    seeds: Iterable[int] | None = None,
    figure: str | None = None,
    processes: int = 1,
    out: str | Path | None = None,
    **options: Any,
) -> Sweep:
    """Run a workflow for all combinations of values of one or two options.

    Args:
        verb: the workflow: ``evaluate``, ``find_optimum``, ``train``, ``make_schedules`` or
            ``federate``.
        scenario: scenario of the workflow.
        arguments: further positional arguments of the workflow.
        over: values by name of a field of the scenario or of an option of the workflow.
        seeds: seeds of repeated runs, whose means are shown; None: one run per combination.
        figure: measure shown in table and plot; None: the objective or the final error.
        processes: number of processes for parallel runs, if all arguments are names and numbers.
            The main program must then be importable (``if __name__ == "__main__"``).
        out: directory for the results of the runs, where finished runs are not repeated; None:
            results are not saved.
        options: options of the workflow.

    Returns:
        Measures of all runs.

    Raises:
        InputError: if an option or value is not accepted.

    >>> import feduplink as fu
    >>> swept = fu.sweep(
    ...     fu.evaluate, fu.Scenario(workers=2), ["max"], over={"pmax_dbw": [-30, -20]},
    ...     channels_per_split=20,
    ... )
    >>> len(swept.rows), swept.options
    (2, ('pmax_dbw',))
    """
    if not 1 <= len(over) <= 2:
        raise InputError(f"vary: {len(over)} options were given; accepted: one or two.")
    if any(not 0 < len(values) == len(set(map(repr, values))) for values in over.values()):
        raise InputError("vary: accepted: one or more different values per option.")
    repeated = list(seeds) if seeds is not None else [options.pop("seed", 0)]
    runs = []
    for values in itertools.product(*over.values()):
        chosen = dict(zip(over, values, strict=True))
        changed, further = _with_values(verb, scenario, chosen)
        for seed in repeated:
            named = chosen if len(repeated) == 1 else {**chosen, "seed": seed}
            name = ",".join(f"{key.replace('_', '-')}={value}" for key, value in named.items())
            where = None if out is None else Path(out) / name.replace("/", "_")
            given = {**options, "seed": seed, **further}
            runs.append(_Run(verb, changed, arguments, given, values, name, where))
    rows = tuple(
        SweptRow(run.values, run.options["seed"], policy, measures)
        for run, metrics in zip(runs, _run_all(runs, processes), strict=True)
        for policy, measures in _measures(metrics).items()
    )
    names = list(dict.fromkeys(name for row in rows for name in row.measures))
    if figure is not None and figure not in names:
        raise unknown_name("figure", figure, names)
    default = next((name for name in _DEFAULT_MEASURES if name in names), names[0])
    swept = Sweep(verb.__name__, tuple(over), rows, figure or default, scenario)
    if out is not None:
        swept.save(out)
    return swept


@dataclass(frozen=True)
class _Run:
    """One run: a workflow with its arguments, the values of the varied options, a directory."""

    verb: Callable[..., Any]
    scenario: Scenario
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    values: tuple[Any, ...]
    name: str
    directory: Path | None

    def described(self) -> dict[str, Any]:
        """The call as JSON, for the comparison with :data:`_CALL_FILE`."""
        call = {
            "verb": self.verb.__name__,
            "scenario": self.scenario.model_dump(mode="json"),
            "arguments": self.arguments,
            "options": self.options,
        }
        return dict(json.loads(json.dumps(call, default=repr)))

    def is_plain(self) -> bool:
        """Whether all arguments are names and numbers, which can be sent to another process."""
        try:
            json.dumps([self.arguments, self.options])
        except TypeError:
            return False
        return True

    def metrics(self) -> dict[str, Any]:
        """Metrics of the run, read from its directory if an equal call has finished there."""
        if self.directory is None:
            return dict(self._result().metrics())
        call, described = self.directory / _CALL_FILE, self.described()
        if not (call.exists() and json.loads(call.read_bytes()) == described):
            call.unlink(missing_ok=True)
            result = self._result()
            if result is not None and not takes(self.verb, "out"):
                result.save(self.directory)
            write_json(call, described)
        return dict(json.loads((self.directory / METRICS_FILE).read_bytes()))

    def _result(self) -> Any:
        """Run the workflow."""
        out = {"out": self.directory} if self.directory and takes(self.verb, "out") else {}
        return self.verb(self.scenario, *self.arguments, **self.options, **out)


def _with_values(
    verb: Callable[..., Any], scenario: Scenario, values: Mapping[str, Any]
) -> tuple[Scenario, dict[str, Any]]:
    """Validate values and split them into a changed scenario and options of the workflow."""
    model = options_of(verb)
    accepted = [*model.model_fields, *Scenario.model_fields]
    for name in values:
        if name not in accepted:
            raise unknown_name("vary", name, accepted)
    fields = {name: value for name, value in values.items() if name in Scenario.model_fields}
    options = {name: value for name, value in values.items() if name not in fields}
    checked = model(**options)
    return scenario.replace(**fields), {name: getattr(checked, name) for name in options}


def _run_all(runs: Sequence[_Run], processes: int) -> list[dict[str, Any]]:
    """Metrics of every run; the first :class:`InputError` of a run is raised at the end."""
    title = "runs of the sweep"
    processes = min(processes, len(runs)) if all(run.is_plain() for run in runs) else 1
    if processes == 1:
        found = [_attempt(run) for run in track_each(title, runs)]
    else:
        with process_pool(processes, start_single_threaded) as pool:
            submitted = [pool.submit(_attempt, run) for run in runs]
            found = [future.result() for future in track_each(title, submitted)]
    for run, ended in zip(runs, found, strict=True):
        if isinstance(ended, InputError):
            raise InputError(f"sweep: {run.name}: {ended}")
    return [metrics for metrics in found if not isinstance(metrics, InputError)]


def _attempt(run: _Run) -> dict[str, Any] | InputError:
    """Metrics of a run, or its error."""
    try:
        return run.metrics()
    except InputError as error:
        return error


def start_single_threaded() -> None:
    """Initialise a process of a pool: one thread, and no progress bars (the parent has them)."""
    import torch

    torch.set_num_threads(1)
    show_progress(False)


def _measures(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Numbers in the metrics of a run, by policy."""
    entries = metrics.get("policies", {})
    found = {name: _numbers(entry) for name, entry in entries.items() if isinstance(entry, dict)}
    for name in ("test", "optimum"):
        if isinstance(metrics.get(name), dict):
            found[metrics.get("policy", name) if name == "test" else name] = _numbers(metrics[name])
    return found or {"": _numbers({k: v for k, v in metrics.items() if k != "seed"})}


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """Entries that are numbers, as floats."""
    return {name: float(v) for name, v in entry.items() if isinstance(v, int | float)}
