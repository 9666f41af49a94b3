"""``feduplink report``: finished runs as one page."""

from __future__ import annotations

import argparse

from feduplink.cli.console import console
from feduplink.reporting.page import PAGE_FILE, read_sections, write_page
from feduplink.storage.run_directory import find_runs, output_directory, write_metrics


def run(args: argparse.Namespace) -> None:
    """Read the runs, write the page and ``metrics.json``."""
    directory = output_directory(args)
    sections = read_sections(find_runs(args.directories))
    path = write_page(directory, sections)
    write_metrics(
        directory,
        {
            "title": "Report",
            "seed": args.seed,
            "report": {"page": PAGE_FILE, "sections": [s.as_metrics() for s in sections]},
        },
    )
    out = console()
    for section in sections:
        out.print(f"{section.run.directory}: {section.run.title}")
    runs = f"{len(sections)} run{'s' if len(sections) > 1 else ''}"
    out.print(f"{runs} in {path}; open it in a browser")
