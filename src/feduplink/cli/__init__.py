"""The ``feduplink`` command line: parse, call a workflow, print.

:mod:`feduplink.cli.commands` lists the commands. A command validates its input before it writes
anything, and raises :class:`~feduplink.errors.InputError` with one sentence for what it cannot
accept. :func:`main` prints that sentence and returns 2. A proof that does not hold is a
:class:`~feduplink.errors.ProofError`, and 1. SIGINT and SIGTERM end a command with 130 and 143.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from feduplink.cli.commands import COMMANDS, Call, Command
from feduplink.cli.options import (
    add_common_options,
    add_workflow_options,
    completion_script,
    config_text,
    given_options,
)
from feduplink.errors import InputError, ProofError, did_you_mean, unknown_name
from feduplink.units import set_units
from feduplink.version import __version__
from feduplink.workflows.options import takes

ACCEPTED, DOES_NOT_HOLD, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
#: Shells that have a completion script.
SHELLS = ("bash", "zsh")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = sys.argv[1:] if argv is None else argv
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            with _signals_as_interrupts():
                _run(words)
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


def parse(words: Sequence[str]) -> Call:
    """The command with its options. ``--help`` and the like end the program by ``SystemExit``."""
    known = {command.name: command for command in COMMANDS}
    first, *further = words or ["--help"]
    if first in known:
        return _parse_options(known[first], further)
    if not first.startswith("-"):
        raise unknown_name("command", first, known)
    shell = build_parser().parse_known_args([first, *further])[0].completion
    if shell is None:
        raise InputError(f"{first}: no such option; see feduplink --help.")
    if shell not in SHELLS:
        raise unknown_name("completion", shell, SHELLS)
    print(completion_script(build_parser(COMMANDS), shell))
    sys.exit(0)


def build_parser(declared: Iterable[Command] = ()) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of those that are ``declared``."""
    parser = _Parser(
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
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    options = set(declared)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.summary, allow_abbrev=False)
        if command in options:
            _declare(subparser, command)
    return parser


class Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


class _Parser(argparse.ArgumentParser):
    """Raises an :class:`InputError` for wrong options, as everything else does."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help.")


def _parse_options(command: Command, words: Sequence[str]) -> Call:
    parser = _Parser(
        prog=f"feduplink {command.name}",
        description=command.summary,
        epilog=f"example: {command.example}",
        allow_abbrev=False,
    )
    parser.usage = f"{parser.prog} {command.usage}".rstrip()
    _declare(parser, command)
    args, unknown = parser.parse_known_args(_with_attached_values(words))
    if unknown:
        raise _unknown_option(parser, unknown[0])
    return Call(command, given_options(args, command.workflow, parser.prog))


def _with_attached_values(words: Sequence[str]) -> list[str]:
    """Join ``--option -20,-23`` and ``--option -20dBW`` to ``--option=VALUE``.

    argparse takes a value that begins with a minus for an option unless it is a plain number.
    """
    attached: list[str] = []
    for word in words:
        follows_option = bool(attached) and re.fullmatch(r"--[a-z][a-z-]*", attached[-1])
        if follows_option and re.match(r"-[\d.]", word):
            attached[-1] += f"={word}"
        else:
            attached.append(word)
    return attached


def _declare(parser: argparse.ArgumentParser, command: Command) -> None:
    add_workflow_options(parser, command.workflow)
    add_common_options(parser, command.default_out if command.writes else None)


def _unknown_option(parser: argparse.ArgumentParser, word: str) -> InputError:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return InputError(f"{name}: only options are accepted here; see {parser.prog} --help.")
    known = [option for action in parser._actions for option in action.option_strings]
    return InputError(
        f"{name}: no such option{did_you_mean(name, known)} see {parser.prog} --help."
    )


def _run(words: Sequence[str]) -> None:
    with _modules_of_the_user():
        call = parse(words)
        set_units(call.given.common.units)
        if call.given.prints_config:
            _import_modules(call)
            scenario = call.scenario() if takes(call.workflow, "scenario") else None
            print(config_text(call.workflow, call.given, scenario), end="")
            return
        # Imported here: PyTorch takes seconds, which --help and wrong options need not wait for.
        with _without_garbage_collection("torch"):
            import torch

            from feduplink.storage.run_directory import command, reserved

        # The matrices are small: a second thread gains nothing on an idle machine, and spins on a
        # busy one.
        torch.set_num_threads(1)
        with command(words), contextlib.ExitStack() as stack:
            _import_modules(call)
            if call.command.writes:
                stack.enter_context(reserved(call.out, call.command.name))
            call.command.run(call)


@contextlib.contextmanager
def _without_garbage_collection(module: str) -> Iterator[None]:
    """Keep what the block imports out of garbage collection, if ``module`` is imported first.

    A quarter of a million objects of PyTorch live as long as the process. Collections while they
    are made and at the end take a second in all.
    """
    if module in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM and ``KeyboardInterrupt`` on SIGINT within the block.

    Libraries in C++ may replace what is raised while they convert arguments: after a signal the
    block ends with that signal, whatever was raised. Only the main thread may handle signals; an
    ignored SIGINT stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[type[KeyboardInterrupt]] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        raise received[-1]

    handled = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        handled.append(signal.SIGINT)
    before: dict[int, Callable[..., Any] | int | None] = {
        number: signal.signal(number, interrupt) for number in handled
    }
    try:
        yield
    except Exception:
        if received:
            raise received[-1] from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _modules_of_the_user() -> Iterator[None]:
    """Find modules in the current directory, as ``python -m`` does."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _import_modules(call: Call) -> None:
    for name in call.given.common.imports:
        try:
            importlib.import_module(name)
        except (ImportError, ValueError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
            raise InputError(
                f"import: {name} cannot be imported: {reason}; accepted: a module of the current "
                "directory or an installed one."
            ) from error


def _reason(error: OSError) -> str:
    """The file and the system's reason, as far as they are known."""
    if error.filename is None or error.strerror is None:
        return str(error).removesuffix(".")
    return f"{error.filename}: {error.strerror}"


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    print(f"feduplink: warning: {message}.", file=sys.stderr)
