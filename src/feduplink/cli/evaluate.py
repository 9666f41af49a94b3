"""``feduplink evaluate``: compare policies on test or recorded channels."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

from torch import Tensor

from feduplink.channels import draw_splits, read_channels
from feduplink.cli.console import console
from feduplink.cli.options import (
    add_common_options,
    add_scenario_options,
    add_split_option,
    explicit_fields,
    output_directory,
    scenario_from,
)
from feduplink.comparison import UNTRAINED, compare, find_policies
from feduplink.errors import InputError
from feduplink.report.policies import write_comparison
from feduplink.report.tables import comparison_table
from feduplink.scenario import Scenario

NAME = "evaluate"
HELP = "compare policies on test channels of a scenario, or on recorded channels"
EXAMPLE = "feduplink evaluate --policies rand,orth,openloop,runs/train --workers 8"

#: What describes how channels are drawn; without effect on channels that are recorded.
_DRAWING_FIELDS = {
    "antennas",
    "base_stations",
    "channel_model",
    "cell_side_m",
    "geometry",
    "speed_mps",
    "round_interval_s",
    "coherence_time_s",
    "carrier_hz",
    "interference",
    "noise_dbm_per_hz",
    "noise_figure_db",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policies",
        default=",".join(UNTRAINED),
        metavar="NAME[,NAME...]",
        help=f"any of {', '.join(UNTRAINED)}, and directories of training runs "
        f"(default: {','.join(UNTRAINED)})",
    )
    parser.add_argument(
        "--channels",
        metavar="FILE",
        help="recorded channels (HDF5) instead of drawn ones; the workers are those of the file, "
        "and openloop is tuned on these very channels",
    )
    add_common_options(parser, NAME)
    add_split_option(parser)
    add_scenario_options(parser)


def run(args: argparse.Namespace) -> None:
    """Compare, write the figures and print the table."""
    directory = output_directory(args)
    names = [name.strip() for name in args.policies.split(",") if name.strip()]
    scenario, channels = _recorded(args) if args.channels else _drawn(args)
    policies = find_policies(names, scenario, channels.tuning, seed=args.seed)
    outcomes = compare(policies, channels.test, scenario, seed=args.seed)
    source = {"source": channels.source, "count": len(channels.test)}
    write_comparison(directory, outcomes, scenario, seed=args.seed, channels=source)

    out = console()
    out.print(f"{len(channels.test)} channels, {channels.source}")
    if args.channels and "openloop" in policies:
        out.print("openloop was tuned on these very channels: read it as the best it could do")
    judgements = {name: outcome.judgement for name, outcome in outcomes.items()}
    out.print(comparison_table(judgements, scenario))
    out.print(f"comparison.md, comparison.png, power-histogram.png, metrics.json in {directory}")


@dataclass(frozen=True)
class _Channels:
    """Channels to judge on and to tune on, (N, L, L) each, and where they come from."""

    test: Tensor
    tuning: Tensor
    source: str


def _drawn(args: argparse.Namespace) -> tuple[Scenario, _Channels]:
    scenario = scenario_from(args)
    splits = draw_splits(scenario, args.channels_per_split, seed=args.seed)
    return scenario, _Channels(splits.test, splits.training, "drawn from the scenario")


def _recorded(args: argparse.Namespace) -> tuple[Scenario, _Channels]:
    csi = read_channels(args.channels).csi
    workers = csi.shape[-1]
    explicit = explicit_fields(args, Scenario)
    if explicit.get("workers", str(workers)) != str(workers):
        raise InputError(
            f"workers: {args.channels} holds channels of {workers} workers; accepted: {workers}, "
            "or no --workers."
        )
    for name in explicit.keys() & _DRAWING_FIELDS:
        warnings.warn(
            f"recorded channels are taken as they are; --{name.replace('_', '-')} has no effect",
            stacklevel=2,
        )
    return scenario_from(args, workers=workers), _Channels(csi, csi, f"from {args.channels}")
