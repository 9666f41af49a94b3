"""The directory of a run: ``metrics.json``, provenance, and the rules for writing and resuming.

Nothing here tells whose machine it was: no host, no user, no path but what was typed.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from feduplink.errors import InputError
from feduplink.storage.files import read_limited, write_json
from feduplink.version import __version__


@dataclass(frozen=True)
class _Work:
    """What is being done, and since when."""

    command: str | None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=lambda: time.monotonic())


_current: ContextVar[_Work | None] = ContextVar("feduplink-work", default=None)


@contextlib.contextmanager
def command(words: Sequence[str]) -> Iterator[None]:
    """``feduplink WORDS...`` runs in this block: its results say so, and count seconds from here.

    >>> with command(["demo", "--out", "my runs"]):
    ...     provenance()["command"]
    "feduplink demo --out 'my runs'"
    """
    with _working(_Work(shlex.join(["feduplink", *words]))):
        yield


@contextlib.contextmanager
def part() -> Iterator[None]:
    """One of several jobs of a command runs in this block: results count seconds from here."""
    work = _current.get()
    with _working(_Work(work.command if work else None)):
        yield


def provenance() -> dict[str, Any]:
    """The ``provenance`` entry of ``metrics.json``.

    ``command``, ``started`` (UTC) and ``seconds`` are None outside a command, where nobody knows
    what was asked and when it began.
    """
    work = _current.get()
    return {
        "command": work.command if work else None,
        "started": work.started.isoformat(timespec="seconds") if work else None,
        "seconds": round(time.monotonic() - work.clock, 3) if work else None,
        "feduplink": __version__,
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "numpy": metadata.version("numpy"),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
    }


@contextlib.contextmanager
def _working(work: _Work) -> Iterator[None]:
    token = _current.set(work)
    try:
        yield
    finally:
        _current.reset(token)


METRICS_FILE = "metrics.json"

#: Of a file: ten runs of a thousand rounds are a hundredth of it.
_MOST_BYTES = 1 << 26

Verdict = Literal["holds", "holds in part", "does not hold", "undecided"]


def write_metrics(directory: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` and where it comes from.

    Two runs with the same seed agree in everything but ``provenance``.
    """
    write_json(directory / METRICS_FILE, {**content, "provenance": provenance()})


def finite_or_none(value: float | None) -> float | None:
    """The number, or None for what JSON does not know: NaN and infinity.

    >>> finite_or_none(0.5), finite_or_none(float("inf"))
    (0.5, None)
    """
    return value if value is not None and math.isfinite(value) else None


class _Entry(BaseModel):
    """Commands write more than is read back here."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Claim(_Entry):
    """Something that was to be shown, and what a run has to say to it.

    Attributes:
        claim: in words.
        measured: what the verdict rests on.
        verdict: whether it holds.
        first_look: the run was too small for a verdict that counts.
    """

    claim: str
    measured: str
    verdict: Verdict
    first_look: bool = False


class Provenance(_Entry):
    """See :mod:`feduplink.storage.run_directory`."""

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
    """What the metrics of all commands have in common; everything is optional.

    Attributes:
        title: of the run, a few words.
        caption: what it shows, a sentence or two.
        claims: what it was to show.
        data: the data set that it ran on.
        substitution: what stood in for what was asked for, where something did.
        policies: the figures of each, by name.
        figures: by name, which is that of a subdirectory; in the order to be shown.
        scenario, settings, seed: what it was made with.
        runs_s: seconds that its own runs took, now or in another command; not those it found kept,
            which other figures or an interrupted command had made.
        report: says that this is no run but a page made of some.
        provenance: where it comes from; runs of old versions have none.

    """

    title: str | None = None
    caption: str | None = None
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
    """The metrics of the run in ``directory``; an :class:`InputError` if they are none of ours."""
    path = directory / METRICS_FILE
    try:
        metrics = RunMetrics.model_validate_json(read_limited(path, "metrics", _MOST_BYTES))
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
    """A directory and what it says of itself."""

    directory: Path
    metrics: RunMetrics

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The run in ``directory``."""
        return cls(directory, read_metrics(directory))

    @property
    def title(self) -> str:
        """That of the metrics, else the name of the directory."""
        return self.metrics.title or self.directory.name or "run"


def find_runs(directories: Sequence[Path]) -> list[FinishedRun]:
    """All runs in and below ``directories``, each once; a run comes before those below it.

    Directories beside each other come as the ``figures`` of the run above them list them, the
    others after those by name. Pages made of runs are no runs, and links are not followed.
    """
    runs: dict[Path, FinishedRun] = {}
    for directory in directories:
        if not directory.is_dir():
            raise InputError(f"report: {directory} is no directory; accepted: those of runs.")
        found = list(_walk(directory))
        if not found:
            raise InputError(
                f"report: no {METRICS_FILE} of a run is in {directory} or below it; accepted: "
                "directories that commands wrote to."
            )
        for run in found:
            runs.setdefault(run.directory.resolve(), run)
    return list(runs.values())


def _walk(directory: Path) -> Iterator[FinishedRun]:
    listed: list[str] = []
    file = directory / METRICS_FILE
    if file.is_file() and not file.is_symlink():
        run = FinishedRun.read(directory)
        if run.metrics.report is not None:
            return
        yield run
        listed = list(run.metrics.figures)

    def place(path: Path) -> tuple[int, str]:
        return listed.index(path.name) if path.name in listed else len(listed), path.name

    below = [path for path in directory.iterdir() if path.is_dir() and not path.is_symlink()]
    for path in sorted(below, key=place):
        yield from _walk(path)


def check_free(directory: Path, command: str) -> None:
    """Refuse a directory with the result of another command than ``command``."""
    if (directory / METRICS_FILE).exists():
        origin = read_metrics(directory).provenance
        made_by = origin.command or "" if origin else ""
        if made_by.split()[1:2] != [command]:
            raise InputError(
                f"out: {directory} holds a run of another command ({made_by or 'unknown'}); "
                "accepted: another directory."
            )


def check_beginning(checkpoint: Path, what: str, *, resume: bool) -> None:
    """Refuse to begin where ``checkpoint`` says that ``what`` has begun already."""
    if checkpoint.exists() and not resume:
        raise InputError(
            f"out: {checkpoint.parent} already holds {what}; accepted: --resume to continue it, or "
            "another --out."
        )


@contextlib.contextmanager
def resume_hint(checkpoint: Path | None) -> Iterator[None]:
    """Let an interrupt of the block say how to continue."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if checkpoint is None:
            raise
        how = "There is no checkpoint yet; run the same command again."
        if checkpoint.exists():
            how = "The same command with --resume continues from the last checkpoint."
        raise type(interrupt)(how) from None
