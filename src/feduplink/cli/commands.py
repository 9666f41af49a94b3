"""The commands: what each is called and does, and where its options and its work are found.

A command ``NAME`` is an entry of :data:`COMMANDS` and two modules:

- ``cli/arguments/NAME_arguments.py`` with ``add_arguments(parser)``, its own options. Most begin
  with ``options.add_common_options(parser, NAME)`` (``--seed``, ``--out``) and
  ``options.add_scenario_options(parser)``. It imports nothing that computes, PyTorch least of all:
  every ``--help`` is there in half a second.
- ``cli/NAME.py`` with ``run(args)``, which does the work. ``options.scenario_from(args)`` and
  ``output_directory.output_directory(args)`` give the scenario and the directory,
  ``console.console()`` where to print. What came out goes to ``metrics.json`` by
  :func:`feduplink.storage.run_directory.write_metrics`.
"""

from __future__ import annotations

import argparse
import importlib
from typing import NamedTuple

from feduplink.cli.slow_imports import loading


class Command(NamedTuple):
    """What ``feduplink --help`` has to know of a command.

    Attributes:
        name: the word after ``feduplink``.
        summary: one line for the overview.
        example: a command line that works, shown at the end of its ``--help``.
    """

    name: str
    summary: str
    example: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        module = f"feduplink.cli.arguments.{self.name}_arguments"
        importlib.import_module(module).add_arguments(parser)

    def run(self, args: argparse.Namespace) -> None:
        """Do the work."""
        module = f"feduplink.cli.{self.name}"
        with loading("feduplink", module):
            command = importlib.import_module(module)
        command.run(args)


#: In the order of ``feduplink --help``.
COMMANDS = (
    Command(
        "demo",
        "the main job at small scale: train, compare with the optimum, federate; ends as a page",
        "feduplink demo --out runs/demo",
    ),
    Command(
        "channels",
        "draw channels of a scenario and write them to an HDF5 file",
        "feduplink channels --count 1000 --workers 12 --out runs/channels",
    ),
    Command(
        "train",
        "train a policy on channels of a scenario, or on recorded channels",
        "feduplink train --policy pdg --scenario interference-x2 --out runs/pdg-x2",
    ),
    Command(
        "evaluate",
        "compare policies on test channels of a scenario, or on recorded channels",
        "feduplink evaluate --policies rand,orth,openloop,dual,runs/train --workers 8 --optimum",
    ),
    Command(
        "optimum",
        "the best any policy can do on test or recorded channels, with proof",
        "feduplink optimum --scenario interference-x2 --budget 120 --out runs/optimum-x2",
    ),
    Command(
        "check",
        "check a proof of 'feduplink optimum --certificate', apart from the search",
        "feduplink check proof.h5 --channels recorded.h5",
    ),
    Command(
        "export",
        "write a policy as an ONNX file, checked against PyTorch",
        "feduplink export --policy pdx --interference 2 --out runs/export",
    ),
    Command(
        "serve",
        "answer CSI with powers, by HTTP",
        "feduplink serve --policy pdx --interference 2 --port 8000",
    ),
    Command(
        "schedule",
        "the fastest and the cheapest rounds of test or recorded channels, and all between",
        "feduplink schedule --kappa 0,10,50 --channels-per-split 100 --budget 60",
    ),
    Command(
        "federate",
        "train a federated model over the uplink and compare policies by error, time and energy",
        "feduplink federate --task digits --policies ideal,max,openloop --runs 2",
    ),
    Command(
        "sweep",
        "run a command for several values of one or two options: table, CSV and plot",
        "feduplink sweep --vary interference 1 2 4 8 -- evaluate --policies max,openloop,pdx",
    ),
    Command(
        "reproduce",
        "draw the paper's figures from runs of our own and say which of its claims hold",
        "feduplink reproduce interference mnist --quick",
    ),
    Command(
        "report",
        "make one HTML page, which needs nothing else, of finished runs",
        "feduplink report runs/demo runs/federate",
    ),
    Command(
        "data",
        "list the data sets, their licences and sources; fetch and verify them",
        "feduplink data --fetch mnist --data ~/feduplink-data",
    ),
)
