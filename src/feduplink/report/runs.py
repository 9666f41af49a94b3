"""Finished runs, found by the ``metrics.json`` they left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from feduplink.errors import InputError
from feduplink.metrics import METRICS_FILE, RunMetrics, read_metrics


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
