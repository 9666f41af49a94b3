"""What a workflow returns: one frozen result, which prints, plots, saves and loads itself."""

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

#: Class of the result of every kind, as ``metrics.json`` names it; a class enters itself.
RESULTS: dict[str, type[Result]] = {}

RESULT_FILE = "result.safetensors"


class Result(ABC):
    """A job's result; immutable.

    Attributes:
        kind: name of the class in :data:`RESULTS`, the entry ``result`` of ``metrics.json``.
        files: the files that :meth:`save` writes, in words for the reader of a terminal.
        table_file: name of the file with the table in Markdown.
        parts: classes of objects in its fields, beside those of other packages.
    """

    kind: ClassVar[str]
    files: ClassVar[str] = METRICS_FILE
    table_file: ClassVar[str]
    parts: ClassVar[tuple[type, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Enter a class with a ``kind`` of its own into :data:`RESULTS`."""
        if "kind" in vars(cls):
            RESULTS[cls.kind] = cls

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """The content of ``metrics.json``, without its provenance."""

    @abstractmethod
    def table(self) -> TextTable:
        """The result as a table."""

    @abstractmethod
    def plot(self, *args: Any, **kwargs: Any) -> Axes:
        """Draw the result in the axes ``ax``, or in a new figure; returns the axes."""

    @abstractmethod
    def records(self) -> Iterable[Mapping[str, Any]]:
        """Rows of :meth:`to_dataframe`, as mappings of columns to values."""

    def to_dataframe(self) -> DataFrame:
        """The result as a tidy pandas table, one observation per row."""
        frame: DataFrame = import_extra("pandas", "pandas").DataFrame(list(self.records()))
        return frame

    def findings(self) -> list[str]:
        """What the numbers show, in sentences; they stand at the top of the page."""
        return []

    def headline(self) -> str:
        """A line above the table: the number of channels and their origin, if there are any."""
        return str(getattr(self, "origin", ""))

    def write_files(self, directory: Path) -> None:
        """Write tables and arrays, all but ``metrics.json``, :data:`RESULT_FILE` and figures."""
        write_text(directory / self.table_file, self.table().markdown())

    def to_tensors(self) -> TensorFile:
        """All fields, for :meth:`from_tensors`."""
        from feduplink.storage.tensorfile import pack

        values = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        return pack(values, _names())

    @classmethod
    def from_tensors(cls, content: TensorFile, scenario: Scenario, directory: Path) -> Self:
        """Inverse of :meth:`to_tensors`, for a result of this scenario in ``directory``."""
        from feduplink.storage.tensorfile import unpack

        return cls(**unpack(content, [*_classes(), *cls.parts], _finders(scenario, directory)))

    def figures(self) -> Mapping[str, StyledFigure]:
        """The figures that :meth:`save` writes as PNG and SVG, by name."""
        return {}

    def save(self, directory: str | Path) -> Path:
        """Write all files of the result; :func:`load_result` reads them back.

        Without matplotlib no figures are written, which a warning says.
        """
        from feduplink.storage.tensorfile import write_tensors

        target = Path(directory)
        self.write_files(target)
        self._save_figures(target)
        write_tensors(target / RESULT_FILE, self.kind, self.to_tensors())
        write_metrics(target, {"result": self.kind, "findings": self.findings(), **self.metrics()})
        return target

    def _save_figures(self, directory: Path) -> None:
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

    # Results hold tensors, which have no truth value when compared.
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
    """Read the result of a finished job, as :meth:`Result.save` or a command wrote it."""
    from feduplink.storage.tensorfile import fitting, read_tensors

    path = Path(directory)
    try:
        metrics = json.loads((path / METRICS_FILE).read_bytes())
    except (OSError, ValueError):
        metrics = {}
    kind = metrics.get("result")
    if kind not in RESULTS:
        raise InputError(
            f"result: {path} holds no result; accepted: a directory that evaluate, optimum, train, "
            "schedule, federate or sweep wrote."
        )
    content = read_tensors(path / RESULT_FILE, kind)
    with fitting(path / RESULT_FILE, kind, "this version"):
        return RESULTS[kind].from_tensors(content, Scenario(**metrics.get("scenario", {})), path)


def _classes() -> list[type]:
    """Classes of other packages in the fields of results, beside those found by name."""
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
    """Objects that the scenario describes are saved by name, a policy in a file of its own."""
    from feduplink.optimum.branch_and_bound import BranchingTree
    from feduplink.policies import Policy
    from feduplink.problem import Constraint, Problem

    return {Problem: None, Constraint: "name", BranchingTree: None, Policy: None}


def _finders(scenario: Scenario, directory: Path) -> dict[str, Any]:
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
