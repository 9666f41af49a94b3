"""Options of ``feduplink demo``."""

from __future__ import annotations

import argparse

from feduplink.cli.options import add_common_options, add_scenario_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_common_options(parser, "demo")
    add_scenario_options(parser)
