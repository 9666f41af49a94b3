"""The figures by name: what the module of each has, and where it is found."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

if TYPE_CHECKING:
    from feduplink.experiments.experiment_context import ExperimentContext
    from feduplink.storage.run_directory import Claim


class Result(Protocol):
    """What an experiment leaves: a pydantic model that also knows CSV."""

    @classmethod
    def model_validate_json(cls, json_data: bytes, /) -> Self:
        """Read a result that was kept."""

    def model_dump_json(self) -> str:
        """For keeping."""

    def to_csv(self) -> str:
        """The figures behind the drawing."""

    @classmethod
    def from_csv(cls, text: str, /) -> Self:
        """What :meth:`to_csv` wrote; what the claims do not rest on may be missing."""


class Experiment(Protocol):
    """What a module of a figure has."""

    @property
    def TITLE(self) -> str:
        """What the figure is called."""

    @property
    def DATA(self) -> str | None:
        """The data set of the paper that it needs."""

    @property
    def VERSION(self) -> int:
        """Of its kept results."""

    @property
    def CAPTION(self) -> str:
        """What it shows."""

    @property
    def RESULT(self) -> type[Result]:
        """The class of its result."""

    def run(self, context: ExperimentContext) -> Any:
        """Make the result."""

    def claims(self, result: Any, /) -> list[Claim]:
        """Judge what the paper says by the result."""


class _Figures(Mapping[str, Experiment]):
    """Experiments by name, each imported when it is first asked for."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Experiment:
        if name not in self._names:
            raise KeyError(name)
        module = importlib.import_module(f"feduplink.experiments.{name.replace('-', '_')}")
        return cast(Experiment, module)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


#: In the order of the paper, then ours.
EXPERIMENTS: Mapping[str, Experiment] = _Figures(
    "convergence",
    "interference",
    "pmax",
    "network-size",
    "csi-noise",
    "power-histogram",
    "arrivals",
    "airquality",
    "imdb",
    "mnist",
    "noniid-data",
    "noniid",
    "optimality-gap",
    "time-energy",
    "time-energy-airquality",
    "time-energy-imdb",
    "aggregation",
)


def claims_from_csv(experiment: Experiment, text: str) -> list[Claim]:
    """The claims judged on what the CSV file of a result holds.

    All claims are judged so, that whoever has the file alone finds the same to the last digit.
    """
    return experiment.claims(experiment.RESULT.from_csv(text))
