"""What watches a training run; the training itself depends on none of them."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from feduplink.learning.history import Epoch

if TYPE_CHECKING:
    from rich.console import Console


class Callback(Protocol):
    """Told of every epoch. A resumed run first hands over the epochs it already had."""

    def on_start(self, earlier: list[Epoch], epochs: int) -> None:
        """Before the first new epoch; ``epochs`` is the most there will be."""

    def on_epoch(self, epoch: Epoch, best: Epoch) -> None:
        """After each epoch, with the best one so far."""

    def on_end(self) -> None:
        """After the last epoch, also when the run fails."""


class ProgressBar:
    """A bar on the terminal with the current and the best objective."""

    def __init__(self, console: Console, title: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._progress.add_task(title, total=None, figures="")

    def on_start(self, earlier: list[Epoch], epochs: int) -> None:
        """Show the bar."""
        self._progress.update(self._task, total=epochs, completed=len(earlier))
        self._progress.start()

    def on_epoch(self, epoch: Epoch, best: Epoch) -> None:
        """Advance by one epoch."""
        mark = "feasible" if best.met else f"misses {best.violation:.1%}"
        figures = f"objective {epoch.objective:.4f}, best {best.objective:.4f} ({mark})"
        self._progress.update(self._task, completed=epoch.number + 1, figures=figures)

    def on_end(self) -> None:
        """Leave the finished bar on the screen."""
        self._progress.stop()


class CsvLog:
    """One row per epoch: objective, participation, violation and all constraints by worker."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_start(self, earlier: list[Epoch], epochs: int) -> None:  # noqa: ARG002
        """Start the file anew with the epochs so far."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file)
        self._header_written = False
        for epoch in earlier:
            self._write(epoch)

    def on_epoch(self, epoch: Epoch, best: Epoch) -> None:  # noqa: ARG002
        """Append a row."""
        self._write(epoch)

    def on_end(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, epoch: Epoch) -> None:
        if not self._header_written:
            self._writer.writerow(
                ["epoch", "objective", "participation", "violation", "feasible"]
                + [
                    f"{name}_{worker}"
                    for name, values in epoch.constraints.items()
                    for worker in range(1, len(values) + 1)
                ]
            )
            self._header_written = True
        figures = (epoch.objective, epoch.participation, epoch.violation, epoch.feasible)
        self._writer.writerow(
            [epoch.number + 1, *figures, *itertools.chain(*epoch.constraints.values())]
        )


class TensorBoardLog:
    """Scalars for TensorBoard (install the ``track`` extra)."""

    def __init__(self, directory: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # A resumed run writes its earlier epochs again: those of the interrupted one go.
        self._writer = SummaryWriter(str(directory), purge_step=0)

    def on_start(self, earlier: list[Epoch], epochs: int) -> None:  # noqa: ARG002
        """Write the epochs so far."""
        for epoch in earlier:
            self.on_epoch(epoch, epoch)

    def on_epoch(self, epoch: Epoch, best: Epoch) -> None:  # noqa: ARG002
        """Write the epoch's figures."""
        figures = {
            "objective": epoch.objective,
            "participation": epoch.participation,
            "violation": epoch.violation,
            **epoch.worst,
        }
        for name, value in figures.items():
            self._writer.add_scalar(f"validation/{name}", value, epoch.number + 1)

    def on_end(self) -> None:
        """Close the writer."""
        self._writer.close()
