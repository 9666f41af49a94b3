"""Options of ``feduplink report``."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.cli.options import add_common_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "feduplink report DIR [DIR ...] [options]"
    parser.add_argument(
        "directories",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="directory of a run, or with runs anywhere below it",
    )
    add_common_options(parser, "report")
