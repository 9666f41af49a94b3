"""Collect what ``feduplink reproduce --out DIR`` found into this directory.

    python docs/results/collect.py DIR...

Copies the figures and their CSV files and writes ``README.md``: every figure with its claims, what
was measured, and the verdict, as they follow from the CSV files. A figure that is in none of the
runs keeps its picture and its numbers and is said to be of an earlier version, without verdicts.
``docs/check_numbers.py`` checks the page.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from feduplink.errors import InputError
from feduplink.experiments import EXPERIMENTS, claims_from_csv
from feduplink.report.runs import FinishedRun

HERE = Path(__file__).parent
HEADER = """# Results at full scale

Made by `feduplink reproduce` and `python docs/results/collect.py`. What follows from them, and on
which machines they were run: [reproduction](../reproduction.md). The numbers of every figure are in
the CSV file beside it; `python docs/check_numbers.py` computes the claims from these again.
"""
EARLIER = """*Of an earlier version, not yet made anew: no intervals over the seeds, the baselines
in one reading only, constraints judged without their error. Hence no verdicts here.*
"""


def collect(directories: Sequence[Path], results: Path) -> None:
    """Collect the figures of the runs in ``directories`` into ``results``."""
    found = {
        name: directory / name
        for directory in directories
        for name in FinishedRun.read(directory).metrics.figures
    }
    page = [HEADER]
    for name in EXPERIMENTS:
        if name in found:
            page += _collected(name, found[name], results)
        elif (results / f"{name}.csv").is_file():
            page += _earlier(name)
    (results / "README.md").write_text("\n".join(page), encoding="utf-8")


def _collected(name: str, directory: Path, results: Path) -> list[str]:
    run = FinishedRun.read(directory)
    if run.metrics.substitution or run.metrics.settings.get("scale") != "full":
        raise InputError(
            f"{directory}: is not at full scale or on other data; accepted: what reproduce finds "
            "without --quick, on the paper's data."
        )
    shutil.copy(directory / f"{name}.png", results)
    # Written anew, for runs of versions that wrote more digits.
    result = EXPERIMENTS[name].RESULT
    table = result.from_csv((directory / f"{name}.csv").read_text("utf-8")).to_csv()
    (results / f"{name}.csv").write_text(table, encoding="utf-8")
    page = [
        f"## {run.title}\n\n![{run.title}]({name}.png)\n\n{run.metrics.caption}\n",
        f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)",
        f"<!-- checked: {name}.csv -->\n",
    ]
    claims = claims_from_csv(EXPERIMENTS[name], table)
    if claims:
        page.append("| verdict | claim | measured |\n| --- | --- | --- |")
        page += [f"| {c.verdict} | {c.claim} | {c.measured} |" for c in claims]
        page[-1] += "\n"
    return page


def _earlier(name: str) -> list[str]:
    title = EXPERIMENTS[name].TITLE
    return [
        f"## {title}\n\n![{title}]({name}.png)\n\n{EARLIER}",
        f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)",
        f"<!-- earlier: {name}.csv -->\n",
    ]


if __name__ == "__main__":
    collect([Path(given) for given in sys.argv[1:]], HERE)
