"""Tables of results as text, and back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from feduplink.errors import InputError


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file; None is an empty cell, and a float has six significant digits.

    >>> print(csv_text(["policy", "objective"], [["pdg", 2 / 3], ["pdm", None]]), end="")
    policy,objective
    pdg,0.666667
    pdm,
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows)
    return out.getvalue()


def csv_rows(text: str, columns: Iterable[str]) -> list[dict[str, str]]:
    r"""The rows of a CSV file that has ``columns``, maybe more; an empty cell is an empty text.

    >>> csv_rows("policy,run,objective\npdm,0,\n", ["policy", "objective"])
    [{'policy': 'pdm', 'run': '0', 'objective': ''}]
    """
    reader = csv.DictReader(io.StringIO(text))
    rows = list(reader)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            f"CSV: column {missing[0]!r} is missing; accepted: what this version's to_csv writes."
        )
    if not rows:
        raise InputError("CSV: has no rows; accepted: one row or more.")
    return rows
