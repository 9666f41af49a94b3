"""Options of ``feduplink reproduce``."""

from __future__ import annotations

import argparse
import os

from feduplink.cli.argument_types import whole_number
from feduplink.cli.options import add_common_options, add_data_option, add_device_option
from feduplink.experiments.figures import EXPERIMENTS

#: Stands for all figures.
ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "feduplink reproduce [FIGURE ...] [options]"
    parser.add_argument(
        "figures",
        nargs="*",
        default=[ALL],
        metavar="FIGURE",
        help=f"{ALL} (default), or any of {', '.join(EXPERIMENTS)}",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small runs, minutes in all: what the figures look like, not what they say",
    )
    add_common_options(parser, "reproduce")
    add_data_option(parser)
    add_device_option(parser)
    parser.add_argument(
        "--processes",
        type=whole_number(1, 1024),
        default=os.cpu_count() or 1,
        metavar="N",
        help="settings that are trained and judged at once (default: one per processor)",
    )
