"""The paper's figures, one module each, and those that it lacks.

A module has ``TITLE`` and ``CAPTION``; ``DATA``, the data set of the paper that it needs, or None;
``RESULT``, the class of its result, which knows JSON (it is a pydantic model) and CSV
(``to_csv()``, and ``from_csv(text)`` for as much as claims rest on); ``run(context)``, which makes
the result; and ``claims(result)``, which judges what the paper says by it. How results are drawn is
said in :mod:`feduplink.report`.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

from feduplink.experiments import (
    aggregation,
    airquality,
    arrivals,
    convergence,
    csi_noise,
    imdb,
    interference,
    mnist,
    network_size,
    noniid,
    noniid_data,
    optimality_gap,
    pmax,
    power_histogram,
    time_energy,
)
from feduplink.experiments.claims import Claim
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.scale import FULL, QUICK, Scale


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
    def CAPTION(self) -> str:
        """What it shows."""

    @property
    def RESULT(self) -> type[Result]:
        """The class of its result."""

    def run(self, context: ExperimentContext) -> Any:
        """Make the result."""

    def claims(self, result: Any, /) -> list[Claim]:
        """Judge what the paper says by the result."""


#: In the order of the paper, then ours.
EXPERIMENTS: dict[str, Experiment] = {
    "convergence": convergence,
    "interference": interference,
    "pmax": pmax,
    "network-size": network_size,
    "csi-noise": csi_noise,
    "power-histogram": power_histogram,
    "arrivals": arrivals,
    "airquality": airquality,
    "imdb": imdb,
    "mnist": mnist,
    "noniid-data": noniid_data,
    "noniid": noniid,
    "optimality-gap": optimality_gap,
    "time-energy": time_energy,
    "aggregation": aggregation,
}


def claims_from_csv(experiment: Experiment, text: str) -> list[Claim]:
    """The claims judged on what the CSV file of a result holds.

    All claims are judged so, that whoever has the file alone finds the same to the last digit.
    """
    return experiment.claims(experiment.RESULT.from_csv(text))


__all__ = [
    "EXPERIMENTS",
    "FULL",
    "QUICK",
    "Claim",
    "Experiment",
    "ExperimentContext",
    "Scale",
    "claims_from_csv",
]
