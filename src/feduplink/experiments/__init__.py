"""Experiments: the figures of the paper and further figures.

An experiment is a class with ``run(context)``, which computes a result; ``claims(result)``, which
judges the statements of the paper; ``plot(result)``; and ``version``, the format number of its
cached results. :func:`feduplink.experiments.reproduction.reproduce` runs experiments by name and
saves them.

To add a figure, write a subclass of :class:`Experiment` in a module of this package and list it in
:data:`EXPERIMENTS`.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from feduplink.storage.files import write_text

if TYPE_CHECKING:
    from feduplink.experiments.context import ExperimentContext
    from feduplink.reporting.style import StyledFigure
    from feduplink.storage.run_directory import Claim

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentResult"]


class ExperimentResult(BaseModel, ABC):
    """Base class of results: the numbers of a figure, saved as JSON and as a CSV table."""

    # Infinite and undefined values, such as the error of a diverged model, are preserved.
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")

    @abstractmethod
    def rows(self) -> Iterable[Mapping[str, object]]:
        """Rows of the CSV file, at least one, all with the same columns."""

    def to_csv(self) -> str:
        """CSV text of the rows; None is an empty cell, floats have six significant digits."""
        rows = list(self.rows())
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows(
            [f"{v:.6g}" if isinstance(v, float) else v for v in row.values()] for row in rows
        )
        return out.getvalue()

    def rounded(self) -> Self:
        """Copy with floats of six significant digits, as in the CSV file."""

        def six_digits(text: str) -> float:
            return float(f"{float(text):.6g}")

        fields = json.loads(self.model_dump_json(), parse_float=six_digits)
        return type(self).model_validate(fields)


ResultT = TypeVar("ResultT", bound=ExperimentResult)


@dataclass(frozen=True)
class Experiment(ABC, Generic[ResultT]):
    """Base class of experiments: computation, claims, plot and files of one figure.

    Attributes:
        name: name on the command line and of files.
        title: title of the figure.
        caption: description of the figure.
        result_type: class of the result.
        data: data set of the paper that the experiment needs; None: none.
        version: format number of cached results; increase it if a change of the code changes the
            numbers.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    caption: ClassVar[str]
    result_type: ClassVar[type[ExperimentResult]]
    data: ClassVar[str | None] = None
    version: ClassVar[int] = 1

    @abstractmethod
    def run(self, context: ExperimentContext) -> ResultT:
        """Compute the result.

        Args:
            context: scale, seed and directories.

        Returns:
            The numbers of the figure.
        """

    @abstractmethod
    def claims(self, result: ResultT) -> list[Claim]:
        """Judge the statements of the paper and further statements.

        Args:
            result: numbers of the figure.

        Returns:
            The claims with measured values and verdicts.
        """

    @abstractmethod
    def plot(self, result: ResultT, caption: str = "") -> StyledFigure:
        """Draw the figure; ``caption`` is its alternative text."""

    def save(self, result: ResultT, directory: Path, caption: str | None = None) -> None:
        """Write ``NAME.json``, ``NAME.csv``, ``NAME.png`` and ``NAME.svg``.

        Args:
            result: numbers of the figure.
            directory: directory for the files.
            caption: alternative text of the figure; None: :attr:`caption`.
        """
        from feduplink.reporting.style import save_figure

        drawing = self.plot(result, self.caption if caption is None else caption)
        save_figure(directory / f"{self.name}.png", drawing)
        write_text(directory / f"{self.name}.csv", result.to_csv())
        write_text(directory / f"{self.name}.json", result.model_dump_json())

    def load(self, directory: Path) -> ResultT:
        """Load the result that :meth:`save` wrote to ``directory``."""
        text = (directory / f"{self.name}.json").read_bytes()
        return cast(ResultT, self.result_type.model_validate_json(text))


class _LazyExperiments(UserDict[str, Any]):
    """Experiments by name, from ``module:Class``; modules are imported on access."""

    def __getitem__(self, name: str) -> Experiment[Any]:
        module, _, class_name = self.data[name].partition(":")
        found = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)
        return cast("Experiment[Any]", found())


#: Experiments by name: figures of the paper in its order, then further figures.
EXPERIMENTS: Mapping[str, Experiment[Any]] = _LazyExperiments(
    {
        "convergence": "convergence:Convergence",
        "interference": "parameter_sweeps:Interference",
        "pmax": "parameter_sweeps:MaximumPower",
        "network-size": "parameter_sweeps:NetworkSize",
        "csi-noise": "parameter_sweeps:CsiNoise",
        "power-histogram": "power_histogram:PowerHistogram",
        "arrivals": "arrivals:Arrivals",
        "airquality": "federated_tasks:AirQuality",
        "imdb": "federated_tasks:MovieReviews",
        "mnist": "federated_tasks:HandwrittenDigits",
        "noniid-data": "noniid:NoniidData",
        "noniid": "noniid:NoniidErrors",
        "optimality-gap": "optimality_gap:OptimalityGap",
        "time-energy": "time_energy:DigitsCosts",
        "time-energy-airquality": "time_energy:AirQualityCosts",
        "time-energy-imdb": "time_energy:MovieReviewsCosts",
        "aggregation": "federated_tasks:AggregationRules",
    }
)
