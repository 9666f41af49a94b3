"""Options of ``feduplink export``."""

from __future__ import annotations

import argparse

from feduplink.cli.options import (
    add_channels_option,
    add_common_options,
    add_scenario_options,
    add_split_option,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policy",
        default="pdx",
        metavar="NAME",
        help="pdx, or the directory of a training run (default: pdx)",
    )
    add_channels_option(parser, "a policy that is tuned is tuned on the first")
    add_common_options(parser, "export")
    add_split_option(parser)
    add_scenario_options(parser)
