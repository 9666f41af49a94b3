"""Options of ``feduplink channels``."""

from __future__ import annotations

import argparse

from feduplink.cli.argument_types import whole_number
from feduplink.cli.options import add_common_options, add_scenario_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_common_options(parser, "channels")
    parser.add_argument(
        "--count",
        type=whole_number(1, 10**7),
        default=1000,
        metavar="N",
        help="channels to draw (default: 1000)",
    )
    parser.add_argument(
        "--antenna-coefficients",
        action="store_true",
        help="also write the complex channel of every antenna",
    )
    add_scenario_options(parser)
