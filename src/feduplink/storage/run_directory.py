"""Directory of a run: ``metrics.json``, provenance, and the rules for writing and resuming.

Provenance does not identify a machine: its only paths are those of the command line.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from feduplink.errors import InputError
from feduplink.storage.files import only_writer, read_limited, write_json
from feduplink.version import __version__


class _Job(NamedTuple):
    """Current command, with its start in UTC and on the monotonic clock."""

    command: str | None
    started: datetime
    clock_s: float


_current: ContextVar[_Job | None] = ContextVar("feduplink-job", default=None)


def command(words: Sequence[str]) -> AbstractContextManager[None]:
    """Record ``feduplink WORDS...`` and its duration in the results of a block.

    >>> with command(["demo", "--out", "my runs"]):
    ...     provenance()["command"]
    "feduplink demo --out 'my runs'"
    """
    return _timed(shlex.join(["feduplink", *words]))


def part() -> AbstractContextManager[None]:
    """Record the duration of a block, one of several jobs of a command, in its results."""
    job = _current.get()
    return _timed(job.command if job else None)


@contextlib.contextmanager
def _timed(command: str | None) -> Iterator[None]:
    """Make a command the current job during a block."""
    token = _current.set(_Job(command, datetime.now(UTC), time.monotonic()))
    try:
        yield
    finally:
        _current.reset(token)


def provenance() -> dict[str, Any]:
    """Return the ``provenance`` entry of ``metrics.json``.

    ``command``, ``started`` (UTC) and ``seconds`` are None outside a command.
    """
    job = _current.get()
    return {
        "command": job.command if job else None,
        "started": job.started.isoformat(timespec="seconds") if job else None,
        "seconds": round(time.monotonic() - job.clock_s, 3) if job else None,
        "feduplink": __version__,
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "numpy": metadata.version("numpy"),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
    }


METRICS_FILE = "metrics.json"

#: Maximum size of a metrics file, bytes: a hundred times that of ten runs of 1000 rounds.
_MAX_BYTES = 1 << 26

Verdict = Literal["holds", "holds in part", "does not hold", "undecided"]


def write_metrics(directory: Path, content: Mapping[str, Any]) -> None:
    """Write ``metrics.json``: the content and its provenance.

    Two runs with the same seed differ in their provenance only.

    Args:
        directory: directory of the run.
        content: values that JSON can represent.
    """
    write_json(directory / METRICS_FILE, {**content, "provenance": provenance()})


class _Entry(BaseModel):
    """Base class of entries read from ``metrics.json``; further entries are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Claim(_Entry):
    """A claim about results and its verdict.

    Attributes:
        claim: in words.
        measured: values on which the verdict is based.
        verdict: whether the claim holds.
        first_look: whether the run was too small for a reliable verdict.
    """

    claim: str
    measured: str
    verdict: Verdict
    first_look: bool = False


class Provenance(_Entry):
    """See :func:`provenance`."""

    command: str | None
    started: str | None
    seconds: float | None
    feduplink: str
    python: str
    torch: str
    numpy: str
    system: str
    processors: int | None


class RunMetrics(_Entry):
    """Entries common to the metrics of all commands; all are optional.

    Attributes:
        title: title of the run.
        caption: description of the run in one or two sentences.
        findings: main findings, in sentences.
        claims: claims checked by the run.
        data: name of the data set.
        substitution: data set used instead of a missing one.
        policies: results by policy.
        figures: figures by name of their subdirectory, in the order of display.
        scenario: fields of the scenario.
        settings: settings of the run.
        seed: seed of the run.
        runs_s: computation time of the run, s, without results reused from other figures.
        report: content of a report of several runs; None for other runs.
        provenance: provenance; None for runs of old versions.

    """

    title: str | None = None
    caption: str | None = None
    findings: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    data: str | None = None
    substitution: str | None = None
    policies: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    scenario: dict[str, Any] | None = None
    settings: dict[str, Any] = {}
    seed: int | None = None
    runs_s: float | None = None
    report: dict[str, Any] | None = None
    provenance: Provenance | None = None


def read_metrics(directory: Path) -> RunMetrics:
    """Read the metrics of a run; an :class:`InputError` if feduplink did not write them."""
    path = directory / METRICS_FILE
    try:
        metrics = RunMetrics.model_validate_json(read_limited(path, "metrics", _MAX_BYTES))
    except ValidationError as error:
        problem = error.errors()[0]
        where = "".join(f"{part}: " for part in problem["loc"])
        raise InputError(
            f"{path}: {where}{problem['msg']}; accepted: a whole file as feduplink writes it."
        ) from None
    if metrics.provenance is None and metrics.scenario is None:
        raise InputError(
            f"{path}: has neither provenance nor scenario; accepted: a file that feduplink wrote."
        )
    return metrics


@dataclass(frozen=True)
class FinishedRun:
    """A directory of a run and its metrics."""

    directory: Path
    metrics: RunMetrics

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the run in ``directory``."""
        return cls(directory, read_metrics(directory))

    @property
    def title(self) -> str:
        """Title of the metrics, or else the name of the directory."""
        return self.metrics.title or self.directory.name or "run"


def find_runs(directories: Sequence[Path]) -> list[FinishedRun]:
    """Find all runs in and below directories; a run precedes those below it.

    Sibling directories are in the order of the ``figures`` of the run above them; others follow by
    name. Reports are omitted, and symbolic links are not followed.

    Args:
        directories: directories to search.

    Returns:
        The runs, each once.

    Raises:
        InputError: if a directory does not exist or contains no run.
    """
    runs: dict[Path, FinishedRun] = {}
    for directory in directories:
        if not directory.is_dir():
            raise InputError(
                f"report: {directory} is not a directory; accepted: directories of runs."
            )
        found = list(_walk(directory))
        if not found:
            raise InputError(
                f"report: no {METRICS_FILE} of a run is in {directory} or below it; accepted: "
                "directories of runs."
            )
        for run in found:
            runs.setdefault(run.directory.resolve(), run)
    return list(runs.values())


def _walk(directory: Path) -> Iterator[FinishedRun]:
    """Runs in and below one directory."""
    place: dict[str, int] = {}
    file = directory / METRICS_FILE
    if file.is_file() and not file.is_symlink():
        run = FinishedRun.read(directory)
        if run.metrics.report is not None:
            return
        yield run
        place = {name: number for number, name in enumerate(run.metrics.figures)}
    below = [path for path in directory.iterdir() if path.is_dir() and not path.is_symlink()]
    for path in sorted(below, key=lambda path: (place.get(path.name, len(place)), path.name)):
        yield from _walk(path)


@contextlib.contextmanager
def reserved(directory: Path, command: str) -> Iterator[None]:
    """Lock the output directory of a command during a block.

    Args:
        directory: directory, new or existing.
        command: name of the command.

    Raises:
        InputError: if another process writes to it, or it contains results of another command.
    """
    with only_writer(directory):
        if (directory / METRICS_FILE).exists():
            origin = read_metrics(directory).provenance
            made_by = (origin and origin.command) or ""
            if made_by.split()[1:2] != [command]:
                raise InputError(
                    f"out: {directory} contains a run of another command ({made_by or 'unknown'}); "
                    "accepted: another directory."
                )
        yield


def check_beginning(checkpoint: Path | None, what: str, *, resume: bool) -> None:
    """Check that a run may begin or resume.

    Args:
        checkpoint: file of the checkpoint; None: the run is not saved.
        what: kind of run, for the error message, such as ``a training run``.
        resume: whether the run resumes.

    Raises:
        InputError: if a checkpoint exists and ``resume`` is False, or if ``resume`` is True without
            an output directory.
    """
    if checkpoint is None:
        if resume:
            raise InputError("resume: accepted only with out, the directory of the checkpoint.")
    elif checkpoint.exists() and not resume:
        raise InputError(
            f"out: {checkpoint.parent} already contains {what}; accepted: --resume to continue it, "
            "or another --out."
        )


@contextlib.contextmanager
def resume_hint(checkpoint: Path | None) -> Iterator[None]:
    """Add instructions for resuming to a ``KeyboardInterrupt`` in the block."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if checkpoint is None:
            raise
        how = "No checkpoint has been written yet; run the same command again."
        if checkpoint.exists():
            how = "The same command with --resume continues from the last checkpoint."
        raise type(interrupt)(how) from None
