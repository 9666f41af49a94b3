"""``feduplink sweep``: a command for several values of its options."""

from __future__ import annotations

import argparse

from feduplink.cli.console import console
from feduplink.cli.swept_runs import run_all, swept_runs
from feduplink.cli.tables import terminal_table
from feduplink.reporting.style import save_figure
from feduplink.reporting.sweep import SweptFigures, plot_swept
from feduplink.storage.files import write_text
from feduplink.storage.run_directory import output_directory, write_metrics


def run(args: argparse.Namespace) -> None:
    """Run what has not been run, then write the CSV file, the table and the plot of all runs."""
    directory = output_directory(args)
    runs = swept_runs(args.swept, args.vary, directory)
    run_all(runs, args.processes)
    options = list(runs[0].values)
    swept = SweptFigures.read({tuple(r.values.values()): r.directory for r in runs}, options)
    figure = swept.chosen(args.figure)
    table = swept.table(figure)
    write_text(directory / "sweep.csv", swept.to_csv())
    write_text(directory / "sweep.md", table.markdown())
    save_figure(directory / "sweep.png", plot_swept(swept, figure))
    write_metrics(
        directory,
        {
            "title": f"{' '.join(args.swept[:1])} against {' and '.join(options)}",
            "caption": table.title,
            "varied": {option: swept.values(place) for place, option in enumerate(options)},
            "command": args.swept,
            "figure": figure,
        },
    )
    out = console()
    out.print(terminal_table(table))
    out.print(
        f"sweep.csv (all figures), sweep.md, sweep.png and a directory per run in {directory}"
    )
