"""Compare the numbers in the documentation with the CSV files that they come from.

    python docs/check_numbers.py

A number is followed by a comment that names its source, see :mod:`csv_expression`::

    5.3<!-- interference.csv: 100 * mean(weighted_per){policy=pdg, interference=1} --> %

and must be what the file in ``docs/results`` gives, rounded to as many digits as are written. In
a table with a column ``measured``, every number there with a decimal point or a percent sign
needs a source, unless it is in backticks, or its row names the command in backticks that prints
it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from csv_expression import SourceError, value_of

ROOT = Path(__file__).parents[1]

_CODE = re.compile(
    r"^```.*?^```$|(?P<ticks>`+)(?!`)(?:(?!\n\n).)+?(?<!`)(?P=ticks)(?!`)", re.DOTALL | re.M
)
_COMMENT = re.compile(r"<!--\s*(?P<text>.*?)\s*-->", re.DOTALL)
_NUMBER = r"(?:(?<![\w.,])[-−+])?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-−+]?\d+)?"
_NUMBER_BEFORE = re.compile(rf"(?P<number>{_NUMBER})[*_]*$")
_SOURCED = re.compile(rf"{_NUMBER}[*_]*<!--.*?-->", re.DOTALL)
_NEEDS_SOURCE = re.compile(r"\d+\.\d+(?:e[-−+]?\d+)?|\d+(?=\s?%)")
_COMMAND = re.compile(r"`(?:feduplink|make|pytest|python) [^`]+`")
_CELL_END = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Checked:
    """How many numbers were compared, and what is wrong, a sentence each."""

    numbers: int
    problems: list[str]


@dataclass(frozen=True)
class _Sourced:
    """A number as it is written, None if it is missing, and its source."""

    line: int
    written: str | None
    source: str

    def problems(self, results: Path) -> Iterator[tuple[int, str]]:
        """(line, problem) if the number is not what its source gives."""
        if self.written is None:
            yield self.line, f"no number right before the source {self.source}"
            return
        try:
            found = value_of(self.source, results)
        except SourceError as error:
            yield (
                self.line,
                f"written {self.written}, found nothing: {error}; source {self.source}",
            )
            return
        if not _agree(self.written, found):
            yield self.line, f"written {self.written}, found {found:.6g}; source {self.source}"


def check(root: Path) -> Checked:
    """All pages of the project in ``root``."""
    results = root / "docs" / "results"
    generated = results / "README.md"
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    texts = {
        page: page.read_text(encoding="utf-8")
        for page in pages
        if page.is_file() and page != generated
    }
    problems: list[str] = []
    numbers = 0
    for page, content in texts.items():
        sources = list(_sources(content))
        numbers += len(sources)
        found = [problem for source in sources for problem in source.problems(results)]
        found += _check_tables(content)
        problems += [f"{page.relative_to(root)}:{line}: {what}" for line, what in sorted(found)]
    return Checked(numbers, problems)


def _without_code(text: str) -> str:
    """The text with blanks for code, every other character in its place."""
    return _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _sources(text: str) -> Iterator[_Sourced]:
    """The comments that name a CSV file or come right after a number."""
    prose = _without_code(text)
    for comment in _COMMENT.finditer(prose):
        before = _NUMBER_BEFORE.search(prose[: comment.start()].rpartition("\n")[2])
        if before or ".csv" in comment["text"]:
            yield _Sourced(
                _line(prose, comment.start()),
                before["number"] if before else None,
                " ".join(comment["text"].split()),
            )


def _agree(written: str, found: float) -> bool:
    """Whether ``found``, rounded to the last written digit, is what is written; halves either way.

    >>> _agree("5.3", 5.26), _agree("5.3", 5.24), _agree("1.2e-5", 1.24e-5), _agree("20,000", 2e4)
    (True, False, True, True)
    """
    number = Decimal(written.replace(",", "").replace("−", "-"))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return abs(found - float(number)) <= 0.5 * 10.0**exponent * (1 + 1e-9)


def _check_tables(text: str) -> Iterator[tuple[int, str]]:
    """(line, problem) for every number without a source in the columns called ``measured``."""
    prose = _without_code(text)
    place: int | None = None
    in_table = False
    for number, (line, blanked) in enumerate(
        zip(text.splitlines(), prose.splitlines(), strict=True), 1
    ):
        if not blanked.lstrip().startswith("|"):
            in_table = False
            continue
        cells = [cell.strip() for cell in _CELL_END.split(blanked.strip().strip("|"))]
        if not in_table:
            in_table = True
            place = cells.index("measured") if "measured" in cells else None
        elif place is not None and place < len(cells) and not _COMMAND.search(line):
            bare = _NEEDS_SOURCE.findall(_SOURCED.sub("", cells[place]))
            yield from ((number, f"measured {value} names no source") for value in bare)


def main(root: Path = ROOT) -> int:
    """Print what is wrong and a summary; returns the exit code."""
    checked = check(root)
    for problem in checked.problems:
        print(problem)
    print(
        f"{checked.numbers} numbers compared with their CSV files, {len(checked.problems)} problems"
    )
    return 1 if checked.problems else 0


if __name__ == "__main__":
    sys.exit(main())
