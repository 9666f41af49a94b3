"""Options of ``feduplink check``."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.cli.argument_types import whole_number

_PROCESSES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "proof", type=Path, metavar="PROOF", help="file of 'feduplink optimum --certificate'"
    )
    parser.add_argument(
        "--channels",
        metavar="FILE",
        help="also make sure that the proof is about these recorded channels (HDF5), bit for bit "
        "(default: it holds for the channels in it, whose checksum is shown)",
    )
    parser.add_argument(
        "--processes",
        type=whole_number(1, 1024),
        default=_PROCESSES,
        metavar="N",
        help=f"channels that are checked at once (default: {_PROCESSES})",
    )
