"""The ``feduplink`` command line.

:mod:`feduplink.cli.commands` has the commands, :mod:`feduplink.cli.command_line` runs them. The
overview is here, because it needs none of the modules that a command imports.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from feduplink.errors import InputError
from feduplink.version import __version__

#: Shells that have a completion script.
SHELLS = ("bash", "zsh")
#: What each command does: the first line of the docstring of its workflow.
SUMMARIES = {
    "demo": "Run a small end-to-end comparison and write an HTML report",
    "channels": "Draw channels of a scenario and write them to an HDF5 file",
    "train": "Train a policy on drawn or recorded channels",
    "evaluate": "Compare policies on test channels of a scenario, or on recorded channels",
    "optimum": "Find the optimum on test or recorded channels, with a proved upper bound",
    "check": "Check a proof of optimality with code that is separate from the search",
    "export": "Write a policy as an ONNX file, checked against PyTorch",
    "serve": "Serve transmit powers by HTTP",
    "schedule": "Time–energy Pareto front of transmission schedules on test or recorded channels",
    "federate": "Train a federated model over the uplink; compare policies by error, time and "
    "energy",
    "sweep": "Run a command for several values of one or two options: table, CSV and plot",
    "reproduce": "Reproduce figures of the paper and judge its claims",
    "report": "Write one self-contained HTML page on all runs in and below the directories",
    "data": "List the data sets with licences and sources; fetch and verify them",
}


class Parser(argparse.ArgumentParser):
    """Raises an :class:`InputError` for wrong options."""

    def error(self, message: str) -> NoReturn:
        """Refuse a command line in one sentence."""
        raise InputError(f"{message}; see {self.prog} --help.")


def overview_parser() -> Parser:
    """The parser of the words before a command, which lists all commands in its help."""
    parser = Parser(
        prog="feduplink",
        description="Transmit-power control for wireless federated learning.",
        epilog="feduplink COMMAND --help has the options of a command.",
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
        help=f"Print a script for completion in {' or '.join(SHELLS)}: "
        'eval "$(feduplink --completion bash)"',
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, summary in SUMMARIES.items():
        commands.add_parser(name, help=summary, allow_abbrev=False)
    return parser
