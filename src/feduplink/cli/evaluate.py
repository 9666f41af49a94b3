"""``feduplink evaluate``: compare policies on test or recorded channels."""

from __future__ import annotations

import argparse

from feduplink.cli.channel_source import add_channels_option, channels_from
from feduplink.cli.console import console
from feduplink.cli.optimum import search_optimum
from feduplink.cli.options import (
    add_common_options,
    add_device_option,
    add_scenario_options,
    add_split_option,
    names_listed,
    output_directory,
    seconds,
)
from feduplink.cli.tables import terminal_table
from feduplink.comparison import compare, default_policies, find_policies
from feduplink.device import usable_device
from feduplink.policies import Deployment
from feduplink.registry import POLICIES
from feduplink.report.comparison_files import write_comparison

NAME = "evaluate"
HELP = "compare policies on test channels of a scenario, or on recorded channels"
EXAMPLE = "feduplink evaluate --policies rand,orth,openloop,dual,runs/train --workers 8 --optimum"

#: Seconds that the certificate may take when nothing else is asked for.
_BUDGET_S = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policies",
        type=names_listed,
        default=",".join(default_policies()),
        metavar="NAME[,NAME...]",
        help=f"any of {', '.join(POLICIES.names())}, package.module:Class of your own, and "
        f"directories of training runs (default: {','.join(default_policies())})",
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
    add_common_options(parser, NAME)
    add_split_option(parser)
    add_scenario_options(parser)


def run(args: argparse.Namespace) -> None:
    """Compare, write the figures and print the table."""
    directory = output_directory(args)
    usable_device(args.device)  # before anything takes long
    scenario, channels = channels_from(args)
    deployment = Deployment.from_channels(scenario, channels, seed=args.seed)
    policies = find_policies(args.policies, deployment)
    outcomes = compare(
        policies, channels.test, scenario, seed=args.seed, recorded=channels.recorded
    )
    optimum = None
    if args.optimum is not None:
        found = search_optimum(scenario, channels.test, args.optimum, args.device)
        optimum = found.improved_by(outcomes.powers)
    notes = [*channels.notes, *outcomes.notes]
    write_comparison(
        directory,
        outcomes,
        scenario,
        optimum,
        notes=notes,
        seed=args.seed,
        channels=channels.as_metrics(),
    )

    out = console()
    out.print(channels.headline(channels.test))
    out.print(terminal_table(outcomes.table(optimum, channels.notes)))
    out.print(f"comparison.md, comparison.png, power-histogram.png, metrics.json in {directory}")
