"""The ``feduplink`` command line: parse, call, print.

A command is a module of this package that is listed in :data:`COMMANDS` and has

- ``NAME``: the word after ``feduplink``;
- ``HELP``: one line for the overview;
- ``EXAMPLE``: a command line that works, shown at the end of ``--help``;
- ``add_arguments(parser)``: its own options. Most begin with
  ``options.add_common_options(parser, NAME)`` (``--seed``, ``--out``) and
  ``options.add_scenario_options(parser)``;
- ``run(args)``: do the work. ``options.scenario_from(args)`` and ``options.output_directory(args)``
  give the scenario and the directory, ``console.console()`` where to print. What came out
  goes to ``metrics.json`` by :func:`feduplink.metrics.write_metrics`.

``run`` checks all its input before it writes anything, and raises
:class:`~feduplink.errors.InputError` with one sentence for what it cannot accept. :func:`main`
prints that sentence and returns 2. A proof that does not hold is another matter: a
:class:`~feduplink.errors.ProofError`, and 1. While a command runs no other one writes to its
``--out``. SIGINT and SIGTERM end it with 130 and 143.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

import torch

from feduplink import provenance
from feduplink.cli import (
    channels,
    check,
    data,
    demo,
    evaluate,
    export,
    federate,
    optimum,
    report,
    reproduce,
    schedule,
    serve,
    train,
)
from feduplink.cli.terminating import Terminated, terminated_in_order
from feduplink.errors import InputError, ProofError
from feduplink.files import only_writer
from feduplink.version import __version__

ACCEPTED, DOES_NOT_HOLD, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


class Command(Protocol):
    """What a command module has."""

    NAME: str
    HELP: str
    EXAMPLE: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, args: argparse.Namespace) -> None:
        """Do the work."""


#: In the order of ``feduplink --help``.
COMMANDS: tuple[Command, ...] = (
    demo,
    channels,
    train,
    evaluate,
    optimum,
    check,
    export,
    serve,
    schedule,
    federate,
    reproduce,
    report,
    data,
)


class _Parser(argparse.ArgumentParser):
    """Refuses input as everything else does: with an :class:`InputError`."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help.")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        prog="feduplink",
        description="Transmit-power control for wireless federated learning.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"feduplink {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.NAME,
            usage=f"feduplink {command.NAME} [options]",
            help=command.HELP,
            description=command.HELP,
            epilog=f"example: {command.EXAMPLE}",
            allow_abbrev=False,
        )
        command.add_arguments(subparser)
        subparser.add_argument(
            "--import",
            dest="imported",
            action="append",
            default=[],
            metavar="MODULE",
            help="a module of your own to import first: for what it registers, and for saved "
            "policies of its classes; may be repeated",
        )
        subparser.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    # The matrices are small: a second thread gains nothing on an idle machine, and on a busy
    # one its waiting makes everything ten times slower.
    torch.set_num_threads(1)
    words = sys.argv[1:] if argv is None else argv
    with warnings.catch_warnings(), provenance.command(words), terminated_in_order():
        warnings.showwarning = _show_warning
        try:
            args = build_parser().parse_args(words)
            with _modules_of_the_user():
                for name in args.imported:
                    _import(name)
                with only_writer(args.out) if "out" in args else contextlib.nullcontext():
                    args.run(args)
        except InputError as error:
            print(f"feduplink: {error}", file=sys.stderr)
            return REFUSED
        except ProofError as error:
            print(f"feduplink: {error}.", file=sys.stderr)
            return DOES_NOT_HOLD
        except OSError as error:
            print(f"feduplink: {_reason(error)}.", file=sys.stderr)
            return REFUSED
        except KeyboardInterrupt as interrupt:
            print(f"feduplink: interrupted. {interrupt}".rstrip(), file=sys.stderr)
            return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    return ACCEPTED


@contextlib.contextmanager
def _modules_of_the_user() -> Iterator[None]:
    """Find modules in the current directory, as ``python -m`` does."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(
            f"import: {name} cannot be imported: {reason}; accepted: a module of the current "
            "directory or an installed one."
        ) from error


def _reason(error: OSError) -> str:
    """Which file, and what is wrong with it, as far as the system says so."""
    if error.filename is None or error.strerror is None:
        return str(error).removesuffix(".")
    return f"{error.filename}: {error.strerror}"


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    print(f"feduplink: warning: {message}.", file=sys.stderr)
