"""One command run for several values of its options."""

from __future__ import annotations

import contextlib
import io
import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from feduplink.cli.options import scenario_from
from feduplink.cli.parsing import parse
from feduplink.errors import InputError
from feduplink.process_pool import process_pool
from feduplink.progress import show_progress, track_each
from feduplink.storage.run_directory import METRICS_FILE, read_metrics


@dataclass(frozen=True)
class SweptRun:
    """The command for one combination of values.

    Attributes:
        values: the varied options, without their dashes, and their values.
        words: the whole command, ``--out`` included.
        directory: that of ``--out``.
    """

    values: dict[str, str]
    words: tuple[str, ...]
    directory: Path

    def is_finished(self) -> bool:
        """Whether this very command has been run before."""
        if not (self.directory / METRICS_FILE).exists():
            return False
        origin = read_metrics(self.directory).provenance
        return origin is not None and origin.command == shlex.join(["feduplink", *self.words])


def swept_runs(swept: Sequence[str], vary: Sequence[Sequence[str]], out: Path) -> list[SweptRun]:
    """All combinations of the values, each with a directory of its own below ``out``.

    ``vary`` has a name and its values per option. What a run would refuse for its options is
    refused here, before any of them begins.
    """
    if not 1 <= len(vary) <= 2 or len({name for name, *_ in vary}) < len(vary):
        raise InputError("vary: accepted: one option, or two different ones.")
    if any(len(values) == 0 or len(set(values)) < len(values) for _, *values in vary):
        raise InputError("vary: accepted: one or more different values per option.")
    names = [name.removeprefix("--") for name, *_ in vary]
    runs = []
    for values in itertools.product(*(values for _, *values in vary)):
        chosen = dict(zip(names, values, strict=True))
        name = ",".join(f"{option}={value}" for option, value in chosen.items())
        directory = out / name.replace("/", "_")
        words = [*swept]
        for option, value in chosen.items():
            words.append(f"--{option}={value}")
        _check(words)
        runs.append(SweptRun(chosen, (*words, f"--out={directory}"), directory))
    return runs


def run_all(runs: Sequence[SweptRun], processes: int) -> None:
    """Run what has not been run before, several at once; the first refusal is raised at the end."""
    waiting = [run for run in runs if not run.is_finished()]
    what, count = "runs of the sweep", min(processes, len(waiting))
    if count <= 1:
        refusals = [_run_command(run.words) for run in track_each(what, waiting)]
    else:
        with process_pool(count, _start_process) as pool:
            ended = [pool.submit(_run_command, run.words) for run in waiting]
            refusals = [future.result() for future in track_each(what, ended)]
    for run, refusal in zip(waiting, refusals, strict=True):
        if refusal:
            values = ", ".join(f"{name} {value}" for name, value in run.values.items())
            raise InputError(f"sweep: {values}: {refusal}")


def _check(words: Sequence[str]) -> None:
    """Refuse a command that writes no figures of a scenario, and options that it does not take."""
    args = parse(words)
    if not {"out", "scenario"} <= vars(args).keys():
        raise InputError(
            f"sweep: {args.command} has no scenario to vary; accepted: commands with --scenario "
            "and --out."
        )
    if any(word == "--out" or word.startswith("--out=") for word in words):
        raise InputError("sweep: --out stands before the --; each run has a directory below it.")
    if not getattr(args, "channels", None):
        scenario_from(args)


def _run_command(words: Sequence[str]) -> str:
    """Run one command; returns why it was refused, or nothing."""
    from feduplink.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = main(words)
    lines = [line for line in said.getvalue().splitlines() if ": warning: " not in line]
    return lines[-1].removeprefix("feduplink: ") if status and lines else ""


def _start_process() -> None:
    """In each of the processes: one thread, and no progress, which the first one shows."""
    torch.set_num_threads(1)
    show_progress(False)
