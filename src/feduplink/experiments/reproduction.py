"""Reproduction of the paper's figures: computation or cache, claims, plots and files."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from feduplink.errors import InputError, unknown_name
from feduplink.experiments import EXPERIMENTS, Experiment, ExperimentResult
from feduplink.progress import track
from feduplink.storage import run_directory
from feduplink.storage.run_directory import METRICS_FILE, Claim, FinishedRun
from feduplink.tables import TextTable
from feduplink.workflows.options import (
    CommandLine,
    DataDirectory,
    Device,
    Processes,
    Seed,
    workflow,
)

if TYPE_CHECKING:
    from feduplink.experiments.context import ExperimentContext

#: Name for all figures.
ALL = "all"
#: Directory of the cache, beside those of the figures.
_CACHE = "kept"
_FIRST_LOOK = (
    "A first look with fewer runs, rounds and channels than the paper's: the verdicts are those "
    "without --quick."
)


@dataclass(frozen=True)
class ReproducedFigure:
    """A figure with its numbers and verdicts.

    Attributes:
        experiment: experiment of the figure.
        context: scale, seed and data.
        result: numbers of the figure.
        claims: claims of the paper and further claims, with verdicts.
        runs_s: computation time, s, of this or of the cached run.
    """

    experiment: Experiment[Any]
    context: ExperimentContext
    result: ExperimentResult
    claims: tuple[Claim, ...]
    runs_s: float

    @property
    def substitution(self) -> str | None:
        """Description of the data set that replaces the paper's; None if none is replaced."""
        return self.context.substitution(self.experiment.data)

    @property
    def title(self) -> str:
        """Title, which names the paper's data set if it is replaced."""
        title = self.experiment.title
        return f"{title} (not {self.experiment.data})" if self.substitution else title

    @property
    def caption(self) -> str:
        """Description, which names the data set that replaces the paper's."""
        caption = self.experiment.caption
        return f"Data: {self.substitution}. {caption}" if self.substitution else caption

    def metrics(self) -> dict[str, Any]:
        """Content of ``metrics.json``."""
        return {
            "title": self.title,
            "caption": self.caption,
            "claims": [claim.model_dump() for claim in self.claims],
            "data": self.context.data_set(self.experiment.data),
            "substitution": self.substitution,
            "settings": {"scale": self.context.scale.name},
            "runs_s": round(self.runs_s, 1),
            "seed": self.context.seed,
        }

    def save(self, directory: Path) -> None:
        """Write the figure, its numbers and ``metrics.json``."""
        self.experiment.save(self.result, directory, self.caption)
        run_directory.write_metrics(directory, self.metrics())


@dataclass(frozen=True)
class Reproduction:
    """Figures of one scale and seed.

    Attributes:
        figures: figures by name.
        skipped: reasons by name of the figures whose data are missing.
        context: scale and seed.
    """

    figures: Mapping[str, ReproducedFigure]
    skipped: Mapping[str, str]
    context: ExperimentContext

    def metrics(self) -> dict[str, Any]:
        """Content of ``metrics.json``."""
        return _summary(self.context, {name: found.title for name, found in self.figures.items()})

    def table(self) -> TextTable:
        """Table with a row per claim: figure, claim and verdict."""
        first_look = self.context.scale.first_look
        return TextTable(
            "The paper's figures",
            ("figure", "claim", "first look" if first_look else "verdict"),
            [
                (name, claim.claim, claim.verdict)
                for name, found in self.figures.items()
                for claim in found.claims
            ],
            [_FIRST_LOOK] if first_look else [],
        )

    def __repr__(self) -> str:
        """The table."""
        return self.table().plain()

    def _repr_html_(self) -> str:
        return self.table().html()

    def save(self, directory: Path) -> Path:
        """Write every figure to a subdirectory, and a page.

        The page includes figures of the same scale and seed that are already in ``directory``.

        Args:
            directory: directory for the files.

        Returns:
            Path of the page.
        """
        for name, found in self.figures.items():
            found.save(directory / name)
        return _save_page(directory, self.context)


@workflow
def reproduce(
    figures: Annotated[
        tuple[str, ...],
        Field(description=f"Figures to reproduce: {ALL}, or any of {', '.join(EXPERIMENTS)}"),
        CommandLine(metavar="FIGURE", positional=True, default=ALL),
    ] = (ALL,),
    *,
    quick: Annotated[
        bool, Field(description="Run at a small scale, in minutes: a first look without verdicts")
    ] = False,
    data: DataDirectory = None,
    processes: Processes = None,
    out: Path | None = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> Reproduction:
    """Reproduce figures of the paper and judge its claims.

    With ``out``, every figure is saved as soon as it is finished, and intermediate results are
    cached: a later call reuses them, and an interrupted one continues. Figures whose data are
    missing are skipped.

    Args:
        figures: names of experiments, or ``all``.
        quick: run at a small scale.
        data: directory of the data sets; None: that of ``FEDUPLINK_DATA``.
        processes: number of processes; None: one per processor.
        out: directory for the figures and the cache; None: nothing is written.
        seed: first of several seeds.
        device: device of local training.

    Returns:
        The figures with their verdicts.

    Raises:
        InputError: if a figure is unknown, the device is not available, or the data of all figures
            are missing.
    """
    from feduplink.experiments.context import FULL, QUICK, ExperimentContext
    from feduplink.validation import usable_device

    unknown = [name for name in figures if name not in (ALL, *EXPERIMENTS)]
    if unknown:
        raise unknown_name("figures", unknown[0], [ALL, *EXPERIMENTS])
    names = list(EXPERIMENTS) if ALL in figures else list(dict.fromkeys(figures))
    usable_device(device)
    with ExitStack() as stack:
        directory = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        context = ExperimentContext(
            directory / _CACHE,
            QUICK if quick else FULL,
            seed,
            device,
            data,
            processes or os.cpu_count() or 1,
        )
        return run_experiments([EXPERIMENTS[name] for name in names], context, out)


def run_experiments(
    experiments: Sequence[Experiment[Any]], context: ExperimentContext, out: Path | None = None
) -> Reproduction:
    """Run experiments.

    Args:
        experiments: experiments to run.
        context: scale, seed and directories.
        out: directory for the figures; None: nothing is written beside the cache.

    Returns:
        The figures with their verdicts.

    Raises:
        InputError: if the data of all experiments are missing.
    """
    _warn_of_substitution(experiments, context)
    figures: dict[str, ReproducedFigure] = {}
    skipped: dict[str, str] = {}
    for experiment in experiments:
        with run_directory.part(), track(experiment.name):
            try:
                found = _reproduce_figure(experiment, context)
            except InputError as error:
                skipped[experiment.name] = str(error)
                continue
            if out is not None:
                found.save(out / experiment.name)
        figures[experiment.name] = found
    if not figures and skipped:
        raise InputError(list(skipped.values())[-1])
    if out is not None:
        _save_page(out, context)
    return Reproduction(figures, skipped, context)


def _warn_of_substitution(
    experiments: Sequence[Experiment[Any]], context: ExperimentContext
) -> None:
    """Warn of figures that do not use the data of the paper."""
    found = {one.name: context.substitution(one.data) for one in experiments}
    names = [name for name, substitution in found.items() if substitution]
    if names:
        warnings.warn(
            f"{', '.join(names)}: on {found[names[0]]}, which leaves the paper's claims undecided; "
            "'feduplink data --fetch mnist --data DIR' fetches it",
            stacklevel=3,
        )


class _TimedResult(BaseModel):
    """A cached result with its computation time, s."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    seconds: float
    result: dict[str, Any]


def _reproduce_figure(experiment: Experiment[Any], context: ExperimentContext) -> ReproducedFigure:
    """Run an experiment, or read its result from the cache, and judge the claims.

    The result is rounded to six significant digits, so that its files give the same verdicts.
    """
    from feduplink.experiments.claims import leave_undecided
    from feduplink.experiments.compared import POLICIES_VERSION, SETTINGS_VERSION
    from feduplink.experiments.federated_tasks import FEDERATIONS_VERSION

    def run() -> _TimedResult:
        started = time.perf_counter()
        result = experiment.run(context).rounded()
        seconds = time.perf_counter() - started
        return _TimedResult(seconds=seconds, result=result.model_dump())

    versions = (POLICIES_VERSION, SETTINGS_VERSION, FEDERATIONS_VERSION, experiment.version)
    identity = (experiment.name, context.seed, context.data_set(experiment.data))
    cached = context.cached(_TimedResult, run, "results", versions, *identity)
    result = experiment.result_type.model_validate(cached.result)
    substitution = context.substitution(experiment.data)
    claims = experiment.claims(result)
    if substitution:
        claims = [leave_undecided(claim, substitution) for claim in claims]
    if context.scale.first_look:
        claims = [claim.model_copy(update={"first_look": True}) for claim in claims]
    return ReproducedFigure(experiment, context, result, tuple(claims), cached.seconds)


def _summary(context: ExperimentContext, titles: Mapping[str, str | None]) -> dict[str, Any]:
    """Content of ``metrics.json`` for figures with these titles, by name."""
    return {
        "title": "The paper's figures",
        "caption": _FIRST_LOOK if context.scale.first_look else None,
        "settings": {"scale": context.scale.name},
        "seed": context.seed,
        "figures": {name: {"title": title} for name, title in titles.items()},
    }


def _save_page(directory: Path, context: ExperimentContext) -> Path:
    """Write ``metrics.json`` and the page of all figures of the context's scale and seed."""
    from feduplink.reporting.page import read_sections, write_page

    saved = [name for name in EXPERIMENTS if (directory / name / METRICS_FILE).exists()]
    runs = {name: FinishedRun.read(directory / name) for name in saved}
    alike = (context.seed, context.scale.name)
    titles = {
        name: run.metrics.title
        for name, run in runs.items()
        if (run.metrics.seed, run.metrics.settings.get("scale")) == alike
    }
    run_directory.write_metrics(directory, _summary(context, titles))
    shown = [FinishedRun.read(directory), *(runs[name] for name in titles)]
    return write_page(directory, read_sections(shown))
