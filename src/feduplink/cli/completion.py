"""What the shell completes: commands, options, names that are known, and files."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping

import shtab

from feduplink.registry import (
    ACCESS_SCHEMES,
    AGGREGATIONS,
    CHANNEL_MODELS,
    MEASURES,
    POLICIES,
    TASKS,
)
from feduplink.scenario import shipped_scenarios

#: What is known by name, for options that take names or paths.
_NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "policy": POLICIES.names,
    "policies": POLICIES.names,
    "senders": lambda: (*POLICIES.names(), *ACCESS_SCHEMES.names()),
    "scenario": shipped_scenarios,
    "channel_model": CHANNEL_MODELS.names,
    "objective": MEASURES.names,
    "task": TASKS.names,
    "aggregation": AGGREGATIONS.names,
}
#: Command and option with access schemes among the policies.
_SENDERS = ("federate", "policies")
#: What metavars say of the other options that take a path.
_PATHS = {"FILE": shtab.FILE, "PROOF": shtab.FILE, "DIR": shtab.DIRECTORY}

#: After a comma another name is completed. Bash takes what a function whose name has ``_file``
#: gives as paths, and writes a slash after directories.
_BASH = """{function}() {{
  local last="${{1##*,}}"
  compgen -P "${{1%"$last"}}" -W {names} -- "$last"
  compgen -f -- "$1"
}}"""
_ZSH = """{function}() {{
  _alternative {names} 'files:file:_files'
}}"""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a parser that has all commands with their options."""
    functions = {}
    for command, action in _options(parser):
        field = action.dest.rpartition(".")[2]
        kind = "senders" if (command, field) == _SENDERS else field
        if kind in _NAMES:
            function = f"_feduplink_{kind}_or_file"
            functions[function] = _function(function, _NAMES[kind](), shell)
            _complete(action, {shell: function})
        elif isinstance(action.metavar, str) and action.metavar in _PATHS:
            _complete(action, _PATHS[action.metavar])
        elif isinstance(action.metavar, str) and action.metavar.startswith("{"):
            action.choices = action.metavar.strip("{}").split(",")
    preamble = "\n".join(functions.values())
    return str(shtab.complete(parser, shell=shell, preamble=preamble))


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """Every option of every command, with the command's name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from ((name, option) for option in command._actions)


def _function(function: str, names: Iterable[str], shell: str) -> str:
    if shell == "zsh":
        return _ZSH.format(function=function, names=shlex.quote(f"names:name:({' '.join(names)})"))
    return _BASH.format(function=function, names=shlex.quote(" ".join(names)))


def _complete(action: argparse.Action, how: Mapping[str, object]) -> None:
    """Say how an option is completed, where shtab looks for it."""
    action.complete = how  # type: ignore[attr-defined]
