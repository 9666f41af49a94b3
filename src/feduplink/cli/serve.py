"""``feduplink serve``: powers by HTTP."""

from __future__ import annotations

import argparse

from feduplink.cli.console import console
from feduplink.cli.options import explicit_fields, scenario_from
from feduplink.scenario import Scenario
from feduplink.serving import Limits, serve


def run(args: argparse.Namespace) -> None:
    """Serve until a signal comes."""
    limits = Limits(**explicit_fields(args, Limits))
    others = (args.scenario, args.time_max_s, args.energy_max_j, args.model_bits)
    has_scenario = explicit_fields(args, Scenario) or any(given is not None for given in others)
    serve(
        scenario_from(args) if has_scenario else None,
        args.policy,
        host=args.host,
        port=args.port,
        token_file=args.token_file,
        **limits.model_dump(),
        seed=args.seed,
        on_start=console().print,
    )
