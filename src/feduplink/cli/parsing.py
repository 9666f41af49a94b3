"""What the words after ``feduplink`` mean."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import NoReturn

from feduplink.cli.argument_types import one_of
from feduplink.cli.commands import COMMANDS, Command
from feduplink.errors import InputError, did_you_mean, unknown_name

#: Shells that there is a completion script for.
SHELLS = ("bash", "zsh")


class _Parser(argparse.ArgumentParser):
    """Refuses input as everything else does: with an :class:`InputError`."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help.")


class _Version(argparse.Action):
    """``--version``; finding it takes a look at all installed packages."""

    def __call__(self, parser: argparse.ArgumentParser, *_args: object) -> None:
        from feduplink.version import __version__

        print(f"feduplink {__version__}")
        parser.exit()


class _Completion(argparse.Action):
    """``--completion SHELL``: the script that completes commands, options and names."""

    def __call__(
        self, parser: argparse.ArgumentParser, _namespace: object, values: object, *_args: object
    ) -> None:
        from feduplink.cli.completion import completion_script

        print(completion_script(build_parser(COMMANDS), str(values)))
        parser.exit()


def parse(words: Sequence[str], commands: Iterable[Command] = COMMANDS) -> argparse.Namespace:
    """The command and its options.

    ``args.run(args)`` does the work. ``--help`` and the like end the program by ``SystemExit``.
    """
    known = {command.name: command for command in commands}
    first = words[0] if words else ""
    if first in known:
        return _parse_options(known[first], words[1:])
    if first and not first.startswith("-"):
        raise unknown_name("command", first, known)
    _, unknown = build_parser().parse_known_args(words)
    wrong = f"{unknown[0]}: no such option" if unknown else "COMMAND: missing"
    raise InputError(f"{wrong}; accepted: {', '.join(known)}; see feduplink --help.")


def build_parser(declared: Iterable[Command] = ()) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of those that are ``declared``."""
    parser = _Parser(
        prog="feduplink",
        description="Transmit-power control for wireless federated learning.",
        epilog="feduplink COMMAND --help has the options of a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    parser.add_argument(
        "--completion",
        action=_Completion,
        type=one_of(SHELLS),
        choices=SHELLS,
        help="print a script that lets the shell complete commands, options and names: "
        'eval "$(feduplink --completion bash)"',
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    options = set(declared)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.summary, allow_abbrev=False)
        if command in options:
            _declare(subparser, command)
    return parser


def _parse_options(command: Command, words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog=f"feduplink {command.name}",
        usage=f"feduplink {command.name} [options]",
        description=command.summary,
        epilog=f"example: {command.example}",
        allow_abbrev=False,
    )
    _declare(parser, command)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise _unknown_option(parser, unknown[0])
    return args


def _declare(parser: argparse.ArgumentParser, command: Command) -> None:
    command.add_arguments(parser)
    parser.add_argument(
        "--import",
        dest="imported",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of your own to import first: for what it registers, and for saved "
        "policies of its classes; may be repeated",
    )
    parser.set_defaults(command=command.name, run=command.run)


def _unknown_option(parser: argparse.ArgumentParser, word: str) -> InputError:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return InputError(f"{name}: only options are accepted here; see {parser.prog} --help.")
    known = [option for action in parser._actions for option in action.option_strings]
    return InputError(
        f"{name}: no such option{did_you_mean(name, known)} see {parser.prog} --help."
    )
