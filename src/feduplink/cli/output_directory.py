"""Where a command writes; apart from the options, whose ``--help`` need not wait for this."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.errors import InputError
from feduplink.metrics import METRICS_FILE, read_metrics


def output_directory(args: argparse.Namespace) -> Path:
    """The directory of ``--out``.

    The same command may run there again; what another one left is not overwritten.
    """
    directory: Path = args.out
    if (directory / METRICS_FILE).exists():
        origin = read_metrics(directory).provenance
        made_by = origin.command or "" if origin else ""
        if made_by.split()[1:2] != [args.command]:
            raise InputError(
                f"out: {directory} holds a run of another command ({made_by or 'unknown'}); "
                "accepted: another directory."
            )
    return directory
