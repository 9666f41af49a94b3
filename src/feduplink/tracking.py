"""What keeps a training run's figures: a CSV file, TensorBoard."""

from __future__ import annotations

import csv
import io
import itertools
import time
from pathlib import Path

from feduplink.progress import Callback, Step, Work
from feduplink.storage.files import write_text
from feduplink.training.trainer import Epoch

#: Epochs may be short, and every one would be written with all before it.
_WRITE_EVERY_S = 2.0


class CsvLog(Callback):
    """One row per epoch: objective, participation, violation and all constraints by worker.

    The file is whole at all times, and behind by no more than some seconds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_begin(self, work: Work) -> None:
        """Start the file anew with the epochs so far."""
        self._text = io.StringIO(newline="")
        self._writer = csv.writer(self._text)
        for step in work.earlier:
            self._add(step)
        self._write()

    def on_step(self, work: Work, step: Step) -> None:
        """Add a row."""
        self._add(step)
        if time.monotonic() - self._written > _WRITE_EVERY_S:
            self._write()

    def on_end(self, work: Work) -> None:
        """Write what is left."""
        self._write()

    def _write(self) -> None:
        write_text(self._path, self._text.getvalue())
        self._written = time.monotonic()

    def _add(self, step: Step) -> None:
        epoch = step.detail
        if not isinstance(epoch, Epoch):
            return
        if not self._text.tell():
            self._writer.writerow(
                ["epoch", "objective", "participation", "violation", "feasible"]
                + [
                    f"{name}_{worker}"
                    for name, values in epoch.constraints.items()
                    for worker in range(1, len(values) + 1)
                ]
            )
        figures = (epoch.objective, epoch.participation, epoch.violation)
        reached = itertools.chain(*epoch.constraints.values())
        self._writer.writerow(
            [epoch.number + 1, *map(_digits, figures), epoch.feasible, *map(_digits, reached)]
        )


def _digits(value: float) -> str:
    """Six digits: more are noise of the channels that were drawn."""
    return f"{value:.6g}"


class TensorBoardLog(Callback):
    """Scalars for TensorBoard (install the ``track`` extra)."""

    def __init__(self, directory: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # A resumed run writes its earlier epochs again: those of the interrupted one go.
        self._writer = SummaryWriter(str(directory), purge_step=0)

    def on_begin(self, work: Work) -> None:
        """Write the epochs so far."""
        for step in work.earlier:
            self.on_step(work, step)

    def on_step(self, work: Work, step: Step) -> None:
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

    def on_end(self, work: Work) -> None:
        """Close the writer."""
        self._writer.close()
