"""Options of ``feduplink serve``."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.cli.argument_types import whole_number
from feduplink.cli.options import add_model_options, add_scenario_options, add_seed_option
from feduplink.serving import Limits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policy",
        default="pdx",
        metavar="NAME",
        help="pdx, the directory of a training run, or an ONNX file of 'feduplink export', which "
        "starts soonest (default: pdx)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; one that other machines reach needs a token "
        "(default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=whole_number(0, 65_535),
        default=8000,
        metavar="N",
        help="port to listen on; 0: any free one (default: 8000)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the bearer token that requests need (default: that of FEDUPLINK_TOKEN)",
    )
    add_seed_option(parser)
    add_model_options(parser.add_argument_group("limits"), Limits)
    add_scenario_options(parser)
