"""Collect what ``feduplink reproduce --out DIR`` found into this directory.

    python docs/results/collect.py DIR

Copies the figures and their CSV files and writes ``README.md``: every figure with its claims, what
was measured, and the verdict.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from feduplink.report.runs import FinishedRun

HERE = Path(__file__).parent
HEADER = """# Results at full scale

Made by `feduplink reproduce` and `python docs/results/collect.py`. What follows from them, and on
which machines they were run: [reproduction](../reproduction.md). The numbers of every figure are in
the CSV file beside it.
"""


def main(directory: Path) -> None:
    """Collect the figures of the run in ``directory``."""
    page = [HEADER]
    for name in FinishedRun.read(directory).metrics.figures:
        run = FinishedRun.read(directory / name)
        for suffix in (".png", ".csv"):
            shutil.copy(directory / name / f"{name}{suffix}", HERE)
        page.append(f"## {run.title}\n\n![{run.title}]({name}.png)\n\n{run.metrics.caption}\n")
        page.append(f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)\n")
        if run.metrics.claims:
            page.append("| verdict | claim | measured |\n| --- | --- | --- |")
            page += [f"| {c.verdict} | {c.claim} | {c.measured} |" for c in run.metrics.claims]
            page[-1] += "\n"
    (HERE / "README.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
