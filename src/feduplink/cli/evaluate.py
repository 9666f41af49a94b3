"""``feduplink evaluate``: compare policies on test or recorded channels."""

from __future__ import annotations

import argparse

from feduplink.cli.channel_source import channels_from
from feduplink.cli.console import console
from feduplink.cli.optimum import search_optimum
from feduplink.cli.tables import terminal_table
from feduplink.policies import default_policies, make_policies
from feduplink.storage.run_directory import output_directory
from feduplink.validation import usable_device
from feduplink.workflows.comparison_files import write_comparison
from feduplink.workflows.evaluation import compare


def run(args: argparse.Namespace) -> None:
    """Compare, write the figures and print the table."""
    directory = output_directory(args)
    usable_device(args.device)  # before anything takes long
    scenario, channels = channels_from(args)
    names = default_policies() if args.policies is None else args.policies
    policies = make_policies(names, scenario, channels=channels, seed=args.seed)
    outcomes = compare(
        policies,
        channels.test,
        scenario,
        seed=args.seed,
        recorded=channels.recorded,
        device=args.device,
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
