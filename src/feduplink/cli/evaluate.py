"""``feduplink evaluate``: compare policies on test or recorded channels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from feduplink.cli.channel_source import add_channels_option, channels_from
from feduplink.cli.console import console
from feduplink.cli.optimum import search_optimum, seconds
from feduplink.cli.options import (
    add_common_options,
    add_scenario_options,
    add_split_option,
    output_directory,
)
from feduplink.cli.tables import terminal_table
from feduplink.comparison import (
    DEFAULT_POLICIES,
    SOLVED,
    UNTRAINED,
    compare,
    find_policies,
)
from feduplink.report.policies import write_comparison

NAME = "evaluate"
HELP = "compare policies on test channels of a scenario, or on recorded channels"
EXAMPLE = "feduplink evaluate --policies rand,orth,openloop,dual,runs/train --workers 8 --optimum"

#: Seconds that the certificate may take when nothing else is asked for.
_BUDGET_S = 20.0

#: Policies with settings that are found on the tuning channels.
_TUNED = ("openloop", *SOLVED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policies",
        default=",".join(DEFAULT_POLICIES),
        metavar="NAME[,NAME...]",
        help=f"any of {', '.join((*UNTRAINED, *SOLVED))}, and directories of training runs "
        f"(default: {','.join(DEFAULT_POLICIES)})",
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
    add_channels_option(parser, f", and {_listed(_TUNED)} are tuned on these very channels")
    add_common_options(parser, NAME)
    add_split_option(parser)
    add_scenario_options(parser)


def run(args: argparse.Namespace) -> None:
    """Compare, write the figures and print the table."""
    directory = output_directory(args)
    names = [name.strip() for name in args.policies.split(",") if name.strip()]
    scenario, channels = channels_from(args)
    policies = find_policies(
        names, scenario, channels.tuning, seed=args.seed, recorded=channels.recorded
    )
    outcomes = compare(
        policies, channels.test, scenario, seed=args.seed, recorded=channels.recorded
    )
    optimum = None
    if args.optimum is not None:
        found = search_optimum(scenario, channels.test, args.optimum)
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
    out.print(f"{len(channels.test)} channels, {channels.origin}")
    tuned = [name for name in _TUNED if name in names]
    if channels.recorded and tuned:
        out.print(
            f"{_listed(tuned)} {'was' if len(tuned) == 1 else 'were'} tuned on these very "
            "channels: read it as the best that could be done"
        )
    out.print(terminal_table(outcomes.table(optimum, channels.notes)))
    out.print(f"comparison.md, comparison.png, power-histogram.png, metrics.json in {directory}")


def _listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
