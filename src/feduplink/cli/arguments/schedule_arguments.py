"""Options of ``feduplink schedule``."""

from __future__ import annotations

import argparse

from feduplink.cli.argument_types import names_listed, seconds, whole_number
from feduplink.cli.options import (
    MODEL_WEIGHTS,
    add_channels_option,
    add_common_options,
    add_scenario_options,
    add_split_option,
)
from feduplink.cli.schedule_options import add_delivery_option, kappas_listed
from feduplink.registry import COMPARED, POLICIES

_KAPPAS = "0,1,3,10,30,100"
#: A bound within this share of the cost ends the proof.
GAP = 0.02


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--kappa",
        type=kappas_listed,
        default=_KAPPAS,
        metavar="S/J[,S/J...]",
        help="seconds that one joule is worth: schedules of least time + kappa * energy for each "
        f"of them; 0 is the fastest round (default: {_KAPPAS})",
    )
    add_delivery_option(parser)
    parser.add_argument(
        "--model-weights",
        type=whole_number(1, 10**12),
        default=MODEL_WEIGHTS,
        metavar="N",
        help="weights of the model that every worker uploads (default: %(default)s)",
    )
    parser.add_argument(
        "--policies",
        type=names_listed,
        metavar="NAME[,NAME...]",
        help=f"policies to put beside them: any of {', '.join(POLICIES.names())}, "
        "package.module:Class of your own, and directories of training runs (default: "
        f"{', '.join(COMPARED)} and yours that say so); access schemes that choose their powers by "
        "kappa, as tdma does, are always there",
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="also prove what no schedule costs less than, so many seconds for each kappa at most, "
        f"until it is within {GAP:.0%} of every channel's cost (default: 0, no proof)".replace(
            "%", "%%"
        ),
    )
    add_channels_option(parser, "policies are tuned on the first; the third is scheduled")
    add_common_options(parser, "schedule")
    add_split_option(parser)
    add_scenario_options(parser)
