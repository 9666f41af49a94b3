"""Tables of results as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file; None is an empty cell.

    >>> print(csv_text(["policy", "objective"], [["pdg", 0.94], ["pdm", None]]), end="")
    policy,objective
    pdg,0.94
    pdm,
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
