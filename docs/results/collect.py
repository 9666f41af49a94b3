"""Collect what ``feduplink reproduce --out DIR`` found into this directory.

    python docs/results/collect.py DIR

Copies the figures and their CSV files and writes ``README.md``: every figure with its claims, what
was measured, and the verdict, as they follow from the CSV files. ``docs/check_numbers.py`` checks
the page.
"""

from __future__ import annotations

import shutil
import sys
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


def collect(directory: Path, results: Path) -> None:
    """Collect the figures of the run in ``directory`` into ``results``."""
    page = [HEADER]
    for name in FinishedRun.read(directory).metrics.figures:
        run = FinishedRun.read(directory / name)
        if run.metrics.substitution or run.metrics.settings.get("scale") != "full":
            raise InputError(
                f"{directory / name}: is not at full scale or on other data; accepted: what "
                "reproduce finds without --quick, on the paper's data."
            )
        shutil.copy(directory / name / f"{name}.png", results)
        # Written anew, for runs of versions that wrote more digits.
        result = EXPERIMENTS[name].RESULT
        table = result.from_csv((directory / name / f"{name}.csv").read_text("utf-8")).to_csv()
        (results / f"{name}.csv").write_text(table, encoding="utf-8")
        page.append(f"## {run.title}\n\n![{run.title}]({name}.png)\n\n{run.metrics.caption}\n")
        page.append(f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)")
        page.append(f"<!-- checked: {name}.csv -->\n")
        claims = claims_from_csv(EXPERIMENTS[name], table)
        if claims:
            page.append("| verdict | claim | measured |\n| --- | --- | --- |")
            page += [f"| {c.verdict} | {c.claim} | {c.measured} |" for c in claims]
            page[-1] += "\n"
    (results / "README.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    collect(Path(sys.argv[1]), HERE)
