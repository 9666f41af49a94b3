"""The reference page of the command line, from the signatures of the workflows."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from feduplink.cli.commands import COMMANDS, Command
from feduplink.cli.options import add_common_options, add_scenario_options, add_workflow_options

_INTRODUCTION = """# Command line

Generated from the signatures of the workflows; `feduplink COMMAND --help` prints the same. Commands
also take the [common options](#common-options) and, where they need a cell, the
[scenario options](#scenario-options). A function of the Python interface takes the options of its
command as keyword arguments, with `_` for `-`. A list is separated by commas. A value that begins
with a dash needs `=`: `--pmax-dbw=-20`.
"""


def command_line_page() -> str:
    """Return the page as Markdown."""
    scenario, common = argparse.ArgumentParser(), argparse.ArgumentParser(add_help=False)
    add_scenario_options(scenario)
    add_common_options(common, None)
    shared = {_flags(action) for action in (*scenario._actions, *common._actions)}
    parts = [_INTRODUCTION, "| command | purpose |\n| --- | --- |"]
    parts += [
        f"| [`{command.name}`](#{command.name}) | {command.summary} |" for command in COMMANDS
    ]
    for command in COMMANDS:
        parts.append(f"\n## {command.name}\n\n{command.summary}.\n")
        parts.append(f"```text\n{command.example}\n```\n")
        options = [action for action in _declared(command) if _flags(action) not in shared]
        parts.append(_table(options))
        if any(_flags(action) == "--scenario" for action in _declared(command)):
            parts.append("\nTakes the [scenario options](#scenario-options) as well.")
    parts += ["\n## Common options\n", _table(common._actions)]
    parts.append("| `--out DIR` | Directory for the files of the result (default: runs/COMMAND) |")
    parts += ["\n## Scenario options\n", _table(scenario._actions[1:]), ""]
    return "\n".join(parts)


def _declared(command: Command) -> list[argparse.Action]:
    """The options of a command but ``--help``, ``--out`` and the common ones."""
    parser = argparse.ArgumentParser(add_help=False)
    add_workflow_options(parser, command.workflow)
    return parser._actions


def _flags(action: argparse.Action) -> str:
    return ", ".join(action.option_strings) or action.dest


def _table(options: Iterable[argparse.Action]) -> str:
    rows = ["| option | meaning |", "| --- | --- |"]
    for action in options:
        value = action.metavar or ""
        if isinstance(value, tuple):
            value = " ".join(value)
        shown = f"{_flags(action)} {value}".strip() if action.option_strings else str(value)
        text = str(action.help).replace("%%", "%").replace("|", "\\|").replace("\n", " ")
        rows.append(f"| `{shown.replace('|', chr(92) + '|')}` | {text} |")
    return "\n".join(rows)
