r"""What a source comment in the documentation asks of a CSV file.

``interference.csv: 100 * mean(weighted_per){policy=pdg, interference=1}`` reads: of the rows of
``docs/results/interference.csv`` with this policy and this interference, a hundred times the mean
of the column. The grammar::

    source     = file {"," file} ":" sum                 rows of several files count as one file's
    sum        = product {("+" | "-") product}
    product    = value {("*" | "/") value}
    value      = number | call | "(" sum ")"
    call       = function "(" argument ")" [filters]
    filters    = "{" column "=" text {"|" text} {"," column "=" ...} "}"

``mean``, ``median``, ``min``, ``max``, ``std``, ``sem`` (sample standard deviation, and that over
the root of the count) and ``count`` take a column, empty cells left out, or a sum of columns and
calls of many values, each with filters of its own. Two calls have one value per run of a federated
task: ``final(error)``, the mean of the last ten rounds, and ``cost(airtime_s, 0.12)``, what was
spent by the first round whose error is at most 0.12 (``cost(rounds, 0.12)``: that round). So
``sem(final(error){policy=pdg} - final(error){policy=pdm})`` is the standard error of a difference
run by run. Outside such a function, ``final`` is the mean over the runs and ``cost`` the median.

Texts are compared as numbers if both are; one with a comma stands in double quotes; in a table the
bar is written ``\|``.
"""

from __future__ import annotations

import csv
import functools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Row = dict[str, str]
Values = NDArray[np.float64]
#: What a part of an expression is, given the rows that the filters around it leave.
Node = Callable[[Sequence[Row]], Values]

FINAL_ROUNDS = 10

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e[-+]?\d+)?)|(?P<name>[A-Za-z_][\w.]*)"
    r"|(?P<filters>\{[^{}]*\})|(?P<sign>[-+*/(),]))\s*"
)
_FILTER = re.compile(r'\s*(?P<column>[^=,]+?)\s*=\s*(?P<texts>"[^"]*"|[^,"]*?)\s*(?:,|$)')
#: What sets runs apart, where a file has the column.
_RUN = ("comparison", "task", "policy", "run")


class SourceError(Exception):
    """A source that cannot be computed; the message says why."""


def _deviation(values: Values) -> float:
    if len(values) < 2:
        raise SourceError("a deviation needs two values or more")
    return float(np.std(values, ddof=1))


_REDUCTIONS: dict[str, Callable[[Values], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
    "min": lambda values: float(np.min(values)),
    "max": lambda values: float(np.max(values)),
    "std": _deviation,
    "sem": lambda values: _deviation(values) / math.sqrt(len(values)),
    "count": lambda values: float(len(values)),
}
#: What a call with one value per run is where one number is wanted.
_PER_RUN = {"final": "mean", "cost": "median"}


def value_of(source: str, directory: Path) -> float:
    """The number that ``source`` names, from the files in ``directory``."""
    files, colon, expression = source.partition(":")
    if not colon:
        raise SourceError("no colon after the file")
    rows = [row for name in files.split(",") for row in _read(directory / name.strip())]
    return float(_Parser(expression.replace("\\|", "|")).parsed()(rows))


def _read(path: Path) -> list[Row]:
    if not path.is_file():
        raise SourceError(f"there is no file {path.name}")
    return _rows(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _rows(path: Path, _changed_ns: int) -> list[Row]:
    """Read once: hundreds of numbers come from one file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class _Parser:
    """Recursive descent over the tokens of an expression."""

    def __init__(self, text: str):
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                raise SourceError(f"cannot read {text[place:].strip()!r}")
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            place = match.end()
        self._tokens.append(("end", ""))

    def parsed(self) -> Node:
        """The whole expression."""
        node = self._sum(many=False)
        if self._kind != "end":
            raise SourceError(f"cannot read {self._text!r}")
        return node

    @property
    def _kind(self) -> str:
        return self._tokens[0][0]

    @property
    def _text(self) -> str:
        return self._tokens[0][1]

    def _take(self, kind: str, *texts: str) -> str:
        if self._kind != kind or (texts and self._text not in texts):
            wanted = " or ".join(texts) or f"a {kind}"
            raise SourceError(f"{wanted} is missing before {self._text or 'the end'!r}")
        return self._tokens.pop(0)[1]

    def _sum(self, *, many: bool) -> Node:
        node = self._product(many=many)
        while self._text in ("+", "-"):
            node = _combined(self._take("sign"), node, self._product(many=many))
        return node

    def _product(self, *, many: bool) -> Node:
        node = self._value(many=many)
        while self._text in ("*", "/"):
            node = _combined(self._take("sign"), node, self._value(many=many))
        return node

    def _value(self, *, many: bool) -> Node:
        if self._kind == "number":
            number = np.float64(self._take("number"))
            return lambda _rows: np.asarray(number)
        if self._text == "(":
            self._take("sign", "(")
            node = self._sum(many=many)
            self._take("sign", ")")
            return node
        name = self._take("name")
        if many and self._text != "(":
            return self._with_filters(lambda rows: _column(rows, name))
        return self._with_filters(self._call(name, many=many))

    def _with_filters(self, node: Node) -> Node:
        return _filtered(self._take("filters"), node) if self._kind == "filters" else node

    def _call(self, name: str, *, many: bool) -> Node:
        if name not in (*_REDUCTIONS, *_PER_RUN):
            raise SourceError(f"there is no function {name!r}")
        self._take("sign", "(")
        if name in _REDUCTIONS:
            node = _reduced(name, self._sum(many=True))
        else:
            node = self._of_runs(name)
            if not many:
                node = _reduced(_PER_RUN[name], node)
        self._take("sign", ")")
        return node

    def _of_runs(self, name: str) -> Node:
        column = self._take("name")
        if name == "final":
            return lambda rows: np.array([_final(run, column) for run in _runs(rows)])
        self._take("sign", ",")
        error = float(self._take("number"))
        return lambda rows: np.array([_cost(run, column, error) for run in _runs(rows)])


def _combined(sign: str, left: Node, right: Node) -> Node:
    def combine(rows: Sequence[Row]) -> Values:
        one, other = left(rows), right(rows)
        if one.ndim and other.ndim and len(one) != len(other):
            raise SourceError(f"{len(one)} values on one side of {sign}, {len(other)} on the other")
        with np.errstate(divide="ignore", invalid="ignore"):
            operations = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
            return np.asarray(operations[sign](one, other), np.float64)

    return combine


def _reduced(function: str, inner: Node) -> Node:
    return lambda rows: np.asarray(_REDUCTIONS[function](np.atleast_1d(inner(rows))))


def _filtered(filters: str, node: Node) -> Node:
    text = filters[1:-1]
    wanted: dict[str, list[str]] = {}
    place = 0
    while place < len(text):
        match = _FILTER.match(text, place)
        if match is None:
            raise SourceError(f"cannot read the filter {text[place:].strip()!r}")
        wanted[match["column"]] = match["texts"].strip('"').split("|")
        place = match.end()

    def select(rows: Sequence[Row]) -> Values:
        for column, texts in wanted.items():
            if rows and column not in rows[0]:
                raise SourceError(f"there is no column {column!r}")
            cells = {row[column] for row in rows}
            accepted = {cell for cell in cells if any(_same(cell, text) for text in texts)}
            rows = [row for row in rows if row[column] in accepted]
        return node(rows)

    return select


def _same(cell: str, text: str) -> bool:
    try:
        return float(cell) == float(text)
    except ValueError:
        return cell == text.strip()


def _column(rows: Sequence[Row], column: str) -> Values:
    if not rows:
        raise SourceError("no row is left by the filters")
    if column not in rows[0]:
        raise SourceError(f"there is no column {column!r}")
    cells = [row[column] for row in rows if row[column]]
    if not cells:
        raise SourceError(f"column {column!r} is empty there")
    if set(cells) <= {"True", "False"}:
        return np.array([cell == "True" for cell in cells], np.float64)
    try:
        return np.array(cells, np.float64)
    except ValueError:
        raise SourceError(f"column {column!r} holds no numbers") from None


def _runs(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of every run, a round each."""
    if rows and not {"run", "round"} <= rows[0].keys():
        raise SourceError("the file has no columns run and round")
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name, "") for name in _RUN), []).append(row)
    if not found:
        raise SourceError("no row is left by the filters")
    return list(found.values())


def _final(run: Sequence[Row], column: str) -> float:
    return float(np.mean(_column(run[-FINAL_ROUNDS:], column)))


def _cost(run: Sequence[Row], column: str, error: float) -> float:
    """Infinite if the error is not reached."""
    reached = next((n for n, row in enumerate(run, 1) if float(row["error"]) <= error), None)
    if reached is None:
        return math.inf
    return float(reached) if column == "rounds" else float(_column(run[:reached], column).sum())
