"""Options of ``feduplink optimum``."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.cli.argument_types import probability, seconds
from feduplink.cli.options import (
    add_channels_option,
    add_common_options,
    add_device_option,
    add_scenario_options,
    add_split_option,
)

_BUDGET_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--budget",
        type=seconds,
        default=_BUDGET_S,
        metavar="SECONDS",
        help="most seconds that go into proving that nobody does better; more of them make the "
        f"proof tighter (default: {_BUDGET_S:g})",
    )
    parser.add_argument(
        "--confidence",
        type=probability,
        metavar="C",
        help="also bound every policy on all channels of the distribution, with this probability, "
        "for instance 0.95; takes another --budget (default: no such statement)",
    )
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="also write the proof to this file (HDF5), with its channels, for 'feduplink check' "
        "(default: none)",
    )
    add_channels_option(parser, "the optimum is that of the third")
    parser.add_argument(
        "--whole-file",
        action="store_true",
        help="find the optimum of all channels of --channels, not of those for the test alone",
    )
    add_device_option(parser)
    add_common_options(parser, "optimum")
    add_split_option(parser)
    add_scenario_options(parser)
