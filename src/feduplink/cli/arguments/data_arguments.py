"""Options of ``feduplink data``."""

from __future__ import annotations

import argparse

from feduplink.cli.options import add_common_options, add_data_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_data_option(parser)
    parser.add_argument(
        "--fetch",
        metavar="NAME",
        help="fetch a set from its official home; without it they are listed",
    )
    parser.add_argument(
        "--verify", action="store_true", help="compare every file that is there with its checksum"
    )
    add_common_options(parser, "data")
