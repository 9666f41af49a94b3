"""Options of ``feduplink sweep``."""

from __future__ import annotations

import argparse
import os

from feduplink.cli.argument_types import whole_number
from feduplink.cli.options import add_out_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "feduplink sweep --vary OPTION VALUE [VALUE ...] [options] -- COMMAND [options]"
    parser.add_argument(
        "swept",
        nargs="+",
        metavar="COMMAND",
        help="the command to run for every value, with its other options; after --",
    )
    parser.add_argument(
        "--vary",
        nargs="+",
        action="append",
        required=True,
        metavar=("OPTION", "VALUE"),
        help="an option of the command, without its dashes, and the values it takes; twice for "
        "all pairs of values",
    )
    parser.add_argument(
        "--figure",
        metavar="NAME",
        help="what the table and the plot show; the CSV file has all figures (default: objective, "
        "or final_error of a federation)",
    )
    parser.add_argument(
        "--processes",
        type=whole_number(1, 1024),
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at once (default: one per processor)",
    )
    add_out_option(parser, "sweep")
