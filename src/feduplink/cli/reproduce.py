"""``feduplink reproduce``: the paper's figures, and whether its claims hold."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from feduplink.errors import InputError, unknown_name
from feduplink.experiments import EXPERIMENTS
from feduplink.experiments.compared_policies import POLICIES_VERSION
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.experiment_files import write_experiment
from feduplink.experiments.federations import FEDERATIONS_VERSION, image_set, substitution
from feduplink.experiments.judged_settings import SETTINGS_VERSION
from feduplink.experiments.scale import FULL, QUICK
from feduplink.progress import track
from feduplink.reporting.page import read_sections, write_page
from feduplink.storage import run_directory as provenance
from feduplink.storage.files import write_text
from feduplink.storage.run_directory import (
    METRICS_FILE,
    Claim,
    FinishedRun,
    check_free,
    read_metrics,
    write_metrics,
)
from feduplink.tables import console, wrapped
from feduplink.validation import usable_device

#: Stands for all figures.
ALL = "all"

#: What is kept between runs lies here, beside the figures' directories.
_KEPT = "kept"
_AT_FIRST_SIGHT = (
    "A first look with fewer runs, rounds and channels than the paper's: the verdicts that count "
    "are those without --quick."
)


def run(args: argparse.Namespace) -> None:
    """Run what was not run before, draw, judge the claims, and make a page."""
    names = _names(args.figures)
    directory = args.out
    check_free(directory, "reproduce")
    usable_device(args.device)
    out = console()
    claims: dict[str, list[Claim]] = {}
    scale = QUICK if args.quick else FULL
    context = ExperimentContext(
        directory / _KEPT, scale, args.seed, args.device, args.data, args.processes
    )
    _warn_of_substitution(names, context)
    for name in names:
        try:
            claims[name] = _reproduced(name, directory / name, context, out)
        except InputError as refusal:
            # Without its data a figure cannot be drawn; the others can, if there are any.
            if name == names[-1] and not claims:
                raise
            out.print(f"{name}: not drawn. {refusal}")
    _finish(directory, context, claims, out)


def _names(given: Sequence[str]) -> list[str]:
    unknown = [name for name in given if name not in (ALL, *EXPERIMENTS)]
    if unknown:
        raise unknown_name("figures", unknown[0], [ALL, *EXPERIMENTS])
    return list(EXPERIMENTS) if ALL in given else list(dict.fromkeys(given))


def _warn_of_substitution(names: Sequence[str], context: ExperimentContext) -> None:
    """Say which figures will be of other data than the paper's."""
    found = {name: substitution(context, EXPERIMENTS[name].DATA) for name in names}
    for other in {other for other in found.values() if other}:
        figures = ", ".join(name for name in names if found[name] == other)
        warnings.warn(
            f"{figures}: on {other}, which leaves the paper's claims undecided; 'feduplink "
            "data --fetch mnist --data DIR' fetches it",
            stacklevel=2,
        )


def _reproduced(
    name: str, directory: Path, context: ExperimentContext, out: Console
) -> list[Claim]:
    experiment = EXPERIMENTS[name]
    started = time.perf_counter()
    with provenance.part(), track(name):
        result, seconds = _result(name, context)
        claims = write_experiment(directory, name, experiment, result, context, seconds)
    out.print(f"{name}: {experiment.TITLE}, {time.perf_counter() - started:.0f} s")
    return claims


def _result(name: str, context: ExperimentContext) -> tuple[Any, float]:
    """The result of an experiment and how long it took: kept from before, else run now."""
    experiment = EXPERIMENTS[name]
    # Figures of images are run anew once MNIST is there.
    data = image_set(context) if experiment.DATA == "mnist" else experiment.DATA
    versions = (POLICIES_VERSION, SETTINGS_VERSION, FEDERATIONS_VERSION, experiment.VERSION)
    file = context.cache_path("results", versions, name, context.seed, data).with_suffix(".json")
    took = file.with_suffix(".seconds")
    if not file.exists():
        started = time.perf_counter()
        result = experiment.run(context)
        write_text(took, f"{time.perf_counter() - started:.3f}")
        write_text(file, result.model_dump_json())
    return experiment.RESULT.model_validate_json(file.read_bytes()), float(took.read_text())


def _is_alike(directory: Path, context: ExperimentContext) -> bool:
    """Whether a figure was drawn at this scale and with this seed, now or before."""
    if not (directory / METRICS_FILE).exists():
        return False
    metrics = read_metrics(directory)
    return metrics.seed == context.seed and metrics.settings.get("scale") == context.scale.name


def _finish(
    directory: Path, context: ExperimentContext, claims: Mapping[str, Sequence[Claim]], out: Console
) -> None:
    drawn = [name for name in EXPERIMENTS if _is_alike(directory / name, context)]
    write_metrics(
        directory,
        {
            "title": "The paper's figures",
            "caption": _AT_FIRST_SIGHT if context.scale.first_look else None,
            "settings": {"scale": context.scale.name},
            "seed": context.seed,
            "figures": {name: {"title": read_metrics(directory / name).title} for name in drawn},
        },
    )
    own = [directory, *(directory / name for name in drawn)]
    page = write_page(directory, read_sections([FinishedRun.read(path) for path in own]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("figure", "claim", "first look" if context.scale.first_look else "verdict"):
        table.add_column(column, overflow="fold")
    for name, judged in claims.items():
        for claim in judged:
            table.add_row(name, claim.claim, claim.verdict)
    out.print(table)
    if context.scale.first_look:
        out.print(wrapped(_AT_FIRST_SIGHT, out))
    out.print(f"figures, tables and what was measured: open {page} in a browser")
