"""What keeps a training run's figures: a CSV file, TensorBoard."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

from feduplink.learning.history import Epoch
from feduplink.observing import Advance, Observer, Work


class CsvLog(Observer):
    """One row per epoch: objective, participation, violation and all constraints by worker."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, work: Work) -> None:
        """Start the file anew with the epochs so far."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file)
        self._header_written = False
        for step in work.earlier:
            self.advance(work, step)

    def advance(self, work: Work, step: Advance) -> None:
        """Append a row."""
        if isinstance(step.detail, Epoch):
            self._write(step.detail)

    def end(self, work: Work) -> None:
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


class TensorBoardLog(Observer):
    """Scalars for TensorBoard (install the ``track`` extra)."""

    def __init__(self, directory: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # A resumed run writes its earlier epochs again: those of the interrupted one go.
        self._writer = SummaryWriter(str(directory), purge_step=0)

    def begin(self, work: Work) -> None:
        """Write the epochs so far."""
        for step in work.earlier:
            self.advance(work, step)

    def advance(self, work: Work, step: Advance) -> None:
        """Write the epoch's figures."""
        if not isinstance(step.detail, Epoch):
            return
        epoch = step.detail
        figures = {
            "objective": epoch.objective,
            "participation": epoch.participation,
            "violation": epoch.violation,
            **epoch.worst,
        }
        for name, value in figures.items():
            self._writer.add_scalar(f"validation/{name}", value, epoch.number + 1)

    def end(self, work: Work) -> None:
        """Close the writer."""
        self._writer.close()
