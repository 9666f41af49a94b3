"""Options of ``feduplink evaluate``."""

from __future__ import annotations

import argparse

from feduplink.cli.argument_types import names_listed, seconds
from feduplink.cli.options import (
    add_channels_option,
    add_common_options,
    add_device_option,
    add_scenario_options,
    add_split_option,
)
from feduplink.registry import COMPARED, POLICIES

#: Seconds that the certificate may take when nothing else is asked for.
_BUDGET_S = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policies",
        type=names_listed,
        metavar="NAME[,NAME...]",
        help=f"any of {', '.join(POLICIES.names())}, package.module:Class of your own, and "
        f"directories of training runs (default: {', '.join(COMPARED)} and yours that say so)",
    )
    parser.add_argument(
        "--optimum",
        type=seconds,
        nargs="?",
        const=_BUDGET_S,
        metavar="SECONDS",
        help="also find the optimum on these channels and show how far each policy is below it; "
        f"SECONDS (default: {_BUDGET_S:g}) go into proving that nobody does better",
    )
    add_channels_option(
        parser, "policies are tuned on the first and judged on the third; the second is not used"
    )
    add_device_option(parser)
    add_common_options(parser, "evaluate")
    add_split_option(parser)
    add_scenario_options(parser)
