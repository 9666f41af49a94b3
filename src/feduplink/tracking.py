"""Trackers: callbacks that record the progress of a task in a CSV file or for TensorBoard."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from feduplink.errors import InputError
from feduplink.progress import Callback, Step, Work
from feduplink.storage.files import write_text
from feduplink.validation import import_extra

#: Minimum time between two writes, s: each write rewrites the whole file, and steps may be short.
_MIN_WRITE_INTERVAL_S = 2.0


@runtime_checkable
class Record(Protocol):
    """Protocol of a ``Step.detail`` that defines the values to record."""

    def row(self) -> dict[str, Any]:
        """Values of a CSV row by column."""

    def scalars(self) -> dict[str, float]:
        """TensorBoard scalars by tag."""


class CsvLog(Callback):
    """CSV file with one row per step.

    The columns are those of the step's :class:`Record`, such as an
    :class:`~feduplink.training.Epoch`; otherwise the amount of work done and the figures. The file
    is replaced atomically, at most every two seconds and at the end.

    Args:
        path: file to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[dict[str, Any]] = []
        self._written_s = 0.0

    def on_begin(self, work: Work) -> None:
        """Write the earlier steps of a resumed run."""
        self._rows += [_row(work, step) for step in work.earlier]
        self._write()

    def on_step(self, work: Work, step: Step) -> None:
        """Add a row."""
        self._rows.append(_row(work, step))
        if time.monotonic() - self._written_s > _MIN_WRITE_INTERVAL_S:
            self._write()

    def on_end(self, work: Work) -> None:
        """Write the remaining rows."""
        self._write()

    def _write(self) -> None:
        text = io.StringIO(newline="")
        # Tasks of one command may have different columns.
        columns = dict.fromkeys(name for row in self._rows for name in row)
        writer = csv.DictWriter(text, [*columns])
        if columns:
            writer.writeheader()
        writer.writerows(self._rows)
        write_text(self._path, text.getvalue())
        self._written_s = time.monotonic()


class TensorBoardLog(Callback):
    """TensorBoard event files with the scalars of every step.

    The tags are those of the step's :class:`Record`; otherwise ``TITLE/FIGURE``.

    Args:
        directory: directory of the event files.

    Raises:
        InputError: if TensorBoard is not installed.
    """

    def __init__(self, directory: Path) -> None:
        import_extra("tensorboard", "track")
        from torch.utils.tensorboard import SummaryWriter

        # A resumed run rewrites its earlier steps and discards those of the interrupted run.
        self._writer = SummaryWriter(str(directory), purge_step=0)

    def on_begin(self, work: Work) -> None:
        """Write the earlier steps of a resumed run."""
        for step in work.earlier:
            self.on_step(work, step)

    def on_step(self, work: Work, step: Step) -> None:
        """Write the scalars of a step."""
        for tag, value in _scalars(work, step).items():
            self._writer.add_scalar(tag, value, int(step.done))

    def on_end(self, work: Work) -> None:
        """Flush the writer."""
        self._writer.flush()


def _row(work: Work, step: Step) -> dict[str, Any]:
    """Values by column; floats have six digits, more would be sampling noise of the channels."""
    own = {work.unit or "steps": step.done, **step.figures}
    row = step.detail.row() if isinstance(step.detail, Record) else own
    return {name: f"{v:.6g}" if isinstance(v, float) else v for name, v in row.items()}


def _scalars(work: Work, step: Step) -> dict[str, float]:
    """Values by tag."""
    if isinstance(step.detail, Record):
        return step.detail.scalars()
    return {f"{work.title}/{name}": value for name, value in step.figures.items()}


def make_trackers(directory: Path | None, *, tensorboard: bool = False) -> list[Callback]:
    """Trackers of a run: ``history.csv`` in its directory and, optionally, a TensorBoard log.

    Args:
        directory: directory of the run; None: no trackers.
        tensorboard: also write TensorBoard event files, in ``directory/tensorboard``.

    Returns:
        The callbacks.

    Raises:
        InputError: if ``tensorboard`` is given without a directory, or is not installed.
    """
    if directory is None:
        if tensorboard:
            raise InputError("tensorboard: accepted only with out, the directory of the log.")
        return []
    logs: list[Callback] = [CsvLog(directory / "history.csv")]
    return [*logs, TensorBoardLog(directory / "tensorboard")] if tensorboard else logs
