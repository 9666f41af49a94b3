"""Collect what ``feduplink reproduce --out DIR`` found into this directory.

    python docs/results/collect.py DIR...

Copies the figures and their CSV files and writes ``README.md``: every figure with its claims, what
was measured, and the verdict, as they follow from the CSV files. A figure that is in none of the
runs but was collected before keeps its picture, its caption and its numbers, and is judged on these
again.
``docs/check_numbers.py`` checks the page.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from feduplink.errors import InputError
from feduplink.experiments import EXPERIMENTS, claims_from_csv
from feduplink.storage.run_directory import FinishedRun

HERE = Path(__file__).parent
HEADER = """# Results at full scale

Made by `feduplink reproduce` and `python docs/results/collect.py`. What follows from them, and on
which machines they were run: [reproduction](../reproduction.md). The numbers of every figure are in
the CSV file beside it; `python docs/check_numbers.py` computes the claims from these again.
"""

_COLLECTED = re.compile(
    r"\((?P<figure>\S+)\.png\)\n\n(?P<caption>.+)\n\n.+\n<!-- checked: (?P=figure)\.csv -->"
)


def collect(directories: Sequence[Path], results: Path) -> None:
    """Collect the figures of the runs in ``directories`` into ``results``."""
    found = {
        name: directory / name
        for directory in directories
        for name in FinishedRun.read(directory).metrics.figures
    }
    page = results / "README.md"
    captions = _captions(page.read_text("utf-8")) if page.is_file() else {}
    captions |= {name: _copied(name, directory, results) for name, directory in found.items()}
    text = [HEADER]
    for name in EXPERIMENTS:
        if name in captions:
            text += _judged(name, captions[name], results)
    page.write_text("\n".join(text), encoding="utf-8")


def _captions(page: str) -> dict[str, str]:
    """By figure, of those collected before: a caption belongs to the picture as it was drawn."""
    return {match["figure"]: match["caption"] for match in _COLLECTED.finditer(page)}


def _copied(name: str, directory: Path, results: Path) -> str:
    """Copy the picture and the numbers of a figure; returns its caption."""
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
    return run.metrics.caption or EXPERIMENTS[name].CAPTION


def _judged(name: str, caption: str, results: Path) -> list[str]:
    title = EXPERIMENTS[name].TITLE
    page = [
        f"## {title}\n\n![{title}]({name}.png)\n\n{caption}\n",
        f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)",
        f"<!-- checked: {name}.csv -->\n",
    ]
    claims = claims_from_csv(EXPERIMENTS[name], (results / f"{name}.csv").read_text("utf-8"))
    if claims:
        page.append("| verdict | claim | measured |\n| --- | --- | --- |")
        page += [f"| {c.verdict} | {c.claim} | {c.measured} |" for c in claims]
        page[-1] += "\n"
    return page


if __name__ == "__main__":
    collect([Path(given) for given in sys.argv[1:]], HERE)
