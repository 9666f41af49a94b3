"""Options of commands that schedule rounds: who has to deliver how often."""

from __future__ import annotations

import argparse
import math

from feduplink.cli.argument_types import non_negative_number
from feduplink.errors import InputError
from feduplink.scenario import Scenario


def add_delivery_option(parser: argparse.ArgumentParser) -> None:
    """``--delivery``."""
    parser.add_argument(
        "--delivery",
        type=_shares,
        default=(1.0,),
        metavar="D[,D...]",
        help="share of the rounds in which every worker's model has to arrive with 'schedule', "
        "which lets those wait that are in a fade; one value or one per worker (default: 1, "
        "everyone in every round)",
    )


def delivery_from(args: argparse.Namespace, scenario: Scenario) -> float | tuple[float, ...]:
    """d of ``--delivery``, one for all or one per worker."""
    rates: tuple[float, ...] = args.delivery
    if len(rates) not in (1, scenario.workers):
        raise InputError(
            f"delivery: {len(rates)} values; accepted: one, or one for each of the "
            f"{scenario.workers} workers."
        )
    return rates[0] if len(rates) == 1 else rates


def kappas_listed(text: str) -> list[float]:
    """An argparse type: seconds per joule with commas between them, ascending.

    >>> kappas_listed("10,0")
    [0.0, 10.0]
    """
    return sorted({non_negative_number(part) for part in text.split(",")})


def _shares(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = (math.nan,)
    if not all(0 < rate <= 1 for rate in rates):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not accepted; accepted: above 0 and at most 1, one value or one per "
            "worker"
        )
    return rates
