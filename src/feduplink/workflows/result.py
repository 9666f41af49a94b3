"""Results of workflows: immutable objects that print, plot, save and load themselves."""

from __future__ import annotations

import importlib.util
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from feduplink.errors import InputError
from feduplink.scenario import Scenario
from feduplink.storage.files import write_text
from feduplink.storage.run_directory import METRICS_FILE, write_metrics
from feduplink.tables import TextTable
from feduplink.validation import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from feduplink.reporting.style import StyledFigure
    from feduplink.storage.tensorfile import TensorFile

#: Classes of results by kind, the entry ``result`` of ``metrics.json``; filled by subclassing.
RESULTS: dict[str, type[Result]] = {}

RESULT_FILE = "result.safetensors"

#: Units of the numbers in ``metrics.json``, CSV and tensor files, regardless of ``set_units``.
FILE_UNITS = {
    "powers": "W (fields that end in dbw: dBW)",
    "times": "s",
    "energies": "J",
    "rates": "nats/s/Hz",
    "energy efficiencies": "nats/s/Hz/W",
}


class Result(ABC):
    """Base class of results of workflows; immutable.

    Attributes:
        kind: name of the class in :data:`RESULTS`, the entry ``result`` of ``metrics.json``.
        files: description of the files that :meth:`save` writes.
        table_file: name of the Markdown file with the table.
        parts: classes of this package's workflows that occur in the fields.

    >>> import feduplink as fu
    >>> result = fu.evaluate(fu.Scenario(workers=2), ["max"], channels_per_split=50)
    >>> isinstance(result, fu.Result), result.kind
    (True, 'evaluation')
    """

    kind: ClassVar[str]
    files: ClassVar[str] = METRICS_FILE
    table_file: ClassVar[str]
    parts: ClassVar[tuple[type, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Register a class that defines ``kind`` in :data:`RESULTS`."""
        if "kind" in vars(cls):
            RESULTS[cls.kind] = cls

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Content of ``metrics.json``, without its provenance.

        Returns:
            Values that JSON can represent, in SI units and nats.
        """

    @abstractmethod
    def table(self) -> TextTable:
        """Table of the result.

        Returns:
            The table, in the units of :func:`feduplink.units.set_units`.
        """

    @abstractmethod
    def plot(self, *args: Any, **kwargs: Any) -> Axes:
        """Plot the result.

        Args:
            args: positional arguments of the subclass.
            kwargs: keyword arguments of the subclass; ``ax``: matplotlib axes to draw in, None: a
                new figure.

        Returns:
            The axes.
        """

    @abstractmethod
    def records(self) -> Iterable[Mapping[str, Any]]:
        """Rows of :meth:`to_dataframe`.

        Returns:
            Mappings of columns to values, in SI units and nats.
        """

    def to_dataframe(self) -> DataFrame:
        """Tidy pandas table, with one observation per row; needs the extra ``pandas``.

        Returns:
            The table, in SI units and nats.
        """
        frame: DataFrame = import_extra("pandas", "pandas").DataFrame(list(self.records()))
        return frame

    def findings(self) -> list[str]:
        """Main findings, shown at the top of the report.

        Returns:
            Sentences; none by default.
        """
        return []

    def headline(self) -> str:
        """Line above the table.

        Returns:
            The number of channels and their origin, or an empty text.
        """
        return str(getattr(self, "origin", ""))

    def write_files(self, directory: Path) -> None:
        """Write tables and arrays; :meth:`save` writes metrics, tensors and figures.

        Args:
            directory: an existing directory.
        """
        write_text(directory / self.table_file, self.table().markdown())

    def to_tensors(self) -> TensorFile:
        """Serialise all fields.

        Returns:
            Content of the file :data:`RESULT_FILE`.
        """
        from feduplink.storage.tensorfile import pack

        values = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        return pack(values, _names())

    @classmethod
    def from_tensors(cls, content: TensorFile, scenario: Scenario, directory: Path) -> Self:
        """Inverse of :meth:`to_tensors`.

        Args:
            content: content of the file :data:`RESULT_FILE`.
            scenario: scenario of the result.
            directory: directory of the result.

        Returns:
            The result.
        """
        from feduplink.storage.tensorfile import unpack

        return cls(**unpack(content, [*_classes(), *cls.parts], _finders(scenario, directory)))

    def figures(self) -> Mapping[str, StyledFigure]:
        """Figures that :meth:`save` writes as PNG and SVG.

        Returns:
            Figures by name; none by default.
        """
        return {}

    def save(self, directory: str | Path) -> Path:
        """Write all files of the result.

        Figures need matplotlib; without it a warning is issued and no figures are written.

        Args:
            directory: directory for the files; created if necessary.

        Returns:
            The directory, for :func:`load_result`.
        """
        from feduplink.storage.tensorfile import write_tensors

        target = Path(directory)
        self.write_files(target)
        self._save_figures(target)
        write_tensors(target / RESULT_FILE, self.kind, self.to_tensors())
        head = {"result": self.kind, "findings": self.findings(), "units": FILE_UNITS}
        write_metrics(target, {**head, **self.metrics()})
        return target

    def _save_figures(self, directory: Path) -> None:
        """Write the figures, or warn that matplotlib is not installed."""
        if importlib.util.find_spec("matplotlib") is None:
            warnings.warn(
                "figures are not written: matplotlib is not installed; pip install "
                "'feduplink[plots]'",
                stacklevel=3,
            )
            return
        from feduplink.reporting.style import save_figure

        for name, figure in self.figures().items():
            save_figure(directory / f"{name}.png", figure)

    # Compared by identity: the comparison of tensors has no truth value.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __str__(self) -> str:
        """The table as plain text."""
        return "\n".join(filter(None, [self.headline(), self.table().plain()]))

    def __repr__(self) -> str:
        """As :meth:`__str__`."""
        return str(self)

    def _repr_html_(self) -> str:
        return self.table().html()


def load_result(directory: str | Path) -> Any:
    """Load the result of a finished job.

    Args:
        directory: directory that :meth:`Result.save` or a command wrote.

    Returns:
        The result, of the class that was saved.

    Raises:
        InputError: if the directory does not contain a result, or the file is damaged.

    >>> import tempfile
    >>> import feduplink as fu
    >>> result = fu.evaluate(fu.Scenario(workers=2), ["max"], channels_per_split=50)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     again = fu.load_result(result.save(directory))
    >>> again["max"].objective == result["max"].objective
    True
    """
    from feduplink.storage.tensorfile import fitting, read_tensors

    path = Path(directory)
    try:
        metrics = json.loads((path / METRICS_FILE).read_bytes())
    except (OSError, ValueError):
        metrics = {}
    kind = metrics.get("result")
    if kind not in RESULTS:
        raise InputError(
            f"result: {path} does not contain a result; accepted: a directory that evaluate, "
            "optimum, train, schedule, federate or sweep wrote."
        )
    content = read_tensors(path / RESULT_FILE, kind)
    with fitting(path / RESULT_FILE, kind, "this version"):
        return RESULTS[kind].from_tensors(content, Scenario(**metrics.get("scenario", {})), path)


def _classes() -> list[type]:
    """Classes of other packages that occur in the fields of results."""
    from feduplink import optimum
    from feduplink.federated import FederatedHistory, RunHistory, UplinkRecord
    from feduplink.judgement import ConstraintValue, Judgement
    from feduplink.lagrangian import Multipliers
    from feduplink.link import Schedule
    from feduplink.training import Epoch, NetworkEpoch

    dual = [optimum.DualSolution, optimum.DualStep, Multipliers]
    bounds = [optimum.Certificate, optimum.DistributionBound, optimum.Unreachable]
    rounds = [Schedule, UplinkRecord, FederatedHistory, RunHistory]
    judged = [Judgement, ConstraintValue, Epoch, NetworkEpoch]
    return [Scenario, optimum.Optimum, *dual, *bounds, *rounds, *judged]


def _names() -> dict[type, str | None]:
    """Classes saved by name, with the attribute of the name; :func:`_finders` restores them.

    The scenario determines problems and constraints; a policy has a separate file.
    """
    from feduplink.optimum.branch_and_bound import BranchingTree
    from feduplink.policies import Policy
    from feduplink.problem import Constraint, Problem

    return {Problem: None, Constraint: "name", BranchingTree: None, Policy: None}


def _finders(scenario: Scenario, directory: Path) -> dict[str, Any]:
    """Functions that restore objects saved by name, by class name."""
    from feduplink.policies import load_policy
    from feduplink.problem import Problem

    problem = Problem.from_scenario(scenario)
    constraints = {constraint.name: constraint for constraint in problem.constraints}
    return {
        "Problem": lambda _name: problem,
        "Constraint": constraints.__getitem__,
        "BranchingTree": lambda _name: None,
        "Policy": lambda _name: load_policy(directory),
    }
