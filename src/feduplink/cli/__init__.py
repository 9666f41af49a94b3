"""Command line ``feduplink``: overview of the commands.

:mod:`feduplink.cli.commands` lists the commands and :mod:`feduplink.cli.command_line` runs them.
This module contains the overview, which does not import the modules of the commands.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from feduplink.errors import InputError
from feduplink.version import __version__

#: Shells with a completion script.
SHELLS = ("bash", "zsh")
#: Summary of each command: the first line of the docstring of its workflow.
SUMMARIES = {
    "demo": "Run a small end-to-end comparison and write an HTML report",
    "channels": "Draw channels of a scenario and write them to an HDF5 file",
    "train": "Train a policy on drawn or recorded channels",
    "evaluate": "Compare policies on test channels of a scenario, or on recorded channels",
    "optimum": "Find the optimum on test or recorded channels, with a certified upper bound",
    "check": "Check a proof of optimality with code that is separate from the search",
    "export": "Write a policy as an ONNX file, checked against PyTorch",
    "serve": "Serve transmit powers by HTTP",
    "schedule": "Time–energy Pareto front of transmission schedules on test or recorded channels",
    "federate": "Train a federated model over the uplink; compare policies by error, time and "
    "energy",
    "sweep": "Run a command for several values of one or two options: table, CSV and plot",
    "reproduce": "Reproduce figures of the paper and judge its claims",
    "report": "Write a self-contained HTML report on all runs in and below the directories",
    "data": "List the data sets with licences and sources; fetch and verify them",
}


class Parser(argparse.ArgumentParser):
    """Argument parser that raises :class:`InputError` instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise :class:`InputError` with the message."""
        raise InputError(f"{message}; see {self.prog} --help.")


def overview_parser() -> Parser:
    """Parser of the options before a command; its help lists all commands."""
    parser = Parser(
        prog="feduplink",
        description="Transmit-power control for wireless federated learning.",
        epilog="feduplink COMMAND --help lists the options of a command.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"feduplink {__version__}",
        help="Print the version",
    )
    parser.add_argument(
        "--completion",
        metavar="SHELL",
        help=f"Print a completion script for {' or '.join(SHELLS)}: "
        'eval "$(feduplink --completion bash)"',
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, summary in SUMMARIES.items():
        commands.add_parser(name, help=summary, allow_abbrev=False)
    return parser
