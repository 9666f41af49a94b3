"""Options of ``feduplink federate``."""

from __future__ import annotations

import argparse
from typing import get_args

from feduplink.cli.argument_types import (
    names_listed,
    non_negative_number,
    one_of,
    positive_number,
    whole_number,
)
from feduplink.cli.options import (
    add_channels_option,
    add_common_options,
    add_data_option,
    add_device_option,
    add_scenario_options,
)
from feduplink.cli.schedule_options import add_delivery_option
from feduplink.registry import ACCESS_SCHEMES, AGGREGATIONS, COMPARED, POLICIES, TASKS
from feduplink.settings import PacketSuccess, Partition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--task",
        default="digits",
        metavar="NAME",
        help=f"any of {', '.join(TASKS.names())}, or package.module:function "
        "(default: %(default)s)",
    )
    default = (*ACCESS_SCHEMES.shipped, *COMPARED)
    names = (*ACCESS_SCHEMES.names(), *POLICIES.names())
    parser.add_argument(
        "--policies",
        type=names_listed,
        metavar="NAME[,NAME...]",
        help=f"any of {', '.join(names)}, package.module:Class of your own, and directories of "
        f"training runs (default: {', '.join(default)} and yours that say so)",
    )
    parser.add_argument(
        "--kappa",
        type=non_negative_number,
        default=0.0,
        metavar="S/J",
        help="seconds that one joule is worth to tdma, ofdma, fixed-power and schedule, which "
        "choose their powers by it; 0 is as fast as they can (default: 0)",
    )
    add_delivery_option(parser)
    add_common_options(parser, "federate")
    parser.add_argument(
        "--engine",
        type=one_of(("local", "flower")),
        choices=("local", "flower"),
        default="local",
        help="where workers train: in this process, or as nodes of Flower's Simulation runtime on "
        "this machine (default: local)",
    )
    parser.add_argument(
        "--runs",
        type=whole_number(1, 10_000),
        default=1,
        metavar="N",
        help="independent repetitions (default: 1)",
    )
    parser.add_argument(
        "--rounds", type=whole_number(1, 10**6), metavar="N", help="(default: the task's)"
    )
    parser.add_argument(
        "--partition",
        metavar="NAME",
        help=f"how a task spreads its data; images: any of {', '.join(get_args(Partition))}, that "
        "is alike, with pixel noise, or with skewed labels (default: iid)",
    )
    parser.add_argument(
        "--aggregation",
        default="exact",
        metavar="NAME",
        help=f"the server's average: any of {', '.join(AGGREGATIONS.names())}, or "
        "package.module:Class; 'unbiased' weighs by 1/PSR, 'published' has the slips of the "
        "paper's code and only serves to show them (default: %(default)s)",
    )
    parser.add_argument(
        "--deadline",
        type=positive_number,
        metavar="S",
        help="longest round in seconds; what is not sent by then is lost (default: none)",
    )
    parser.add_argument(
        "--packet-success",
        type=one_of(get_args(PacketSuccess)),
        choices=get_args(PacketSuccess),
        default="worst-phase",
        help="the SINR that decides whether an upload arrives: with all senders on the air, as in "
        "the paper, or of every phase, by the bits sent in it (default: worst-phase)",
    )
    parser.add_argument(
        "--present",
        metavar="ROUND:WORKERS[;...]",
        help="workers that leave and join: from a round on, those listed, both counted from 0, as "
        "in '20:0,1,2;60:0,1,2,3' (default: all workers, always)",
    )
    parser.add_argument(
        "--target",
        type=positive_number,
        metavar="ERROR",
        help="error that time and energy are counted to (default: the best final error plus 20 %%)",
    )
    add_channels_option(
        parser,
        "policies are tuned on the first; the third are the channels of the rounds, in their "
        "order, run after run",
    )
    parser.add_argument(
        "--resample-channels",
        action="store_true",
        help="draw the rounds' channels from the test channels of --channels at random, with "
        "replacement: for more rounds than there are channels",
    )
    add_data_option(parser)
    add_device_option(parser)
    parser.add_argument(
        "--checkpoint-every",
        type=whole_number(1, 10**6),
        default=10,
        metavar="N",
        help="rounds between checkpoints (default: 10)",
    )
    parser.add_argument("--resume", action="store_true", help="continue the comparison in --out")
    add_scenario_options(parser)
