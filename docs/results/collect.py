"""Copy the figures of ``feduplink reproduce --out DIR`` into this directory.

    python docs/results/collect.py DIR...

Then run ``make numbers``, which judges their claims and writes their numbers into the pages.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from feduplink.errors import InputError
from feduplink.storage.run_directory import FinishedRun

HERE = Path(__file__).parent


def collect(directories: Sequence[Path], results: Path) -> None:
    """Copy the figures of the runs in ``directories`` into ``results``.

    Raises:
        InputError: a figure is not at full scale, or not on the paper's data.
    """
    for directory in directories:
        for name in FinishedRun.read(directory).metrics.figures:
            metrics = FinishedRun.read(directory / name).metrics
            if metrics.substitution or metrics.settings.get("scale") != "full":
                raise InputError(
                    f"{directory / name}: the figure is not at full scale or on other data; "
                    "accepted: a run of reproduce without --quick, on the paper's data."
                )
            for suffix in ("json", "csv", "png"):
                shutil.copy(directory / name / f"{name}.{suffix}", results)


if __name__ == "__main__":
    collect([Path(argument) for argument in sys.argv[1:]], HERE)
