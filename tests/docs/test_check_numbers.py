"""The check of numbers, on pages with known faults; and on the pages of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_numbers

from .markdown import ROOT

PER = "sweep.csv: 100 * mean(per){policy=pdg}"
#: 5.25 % and −0.0000124.
SWEEP = "policy,per,gap\npdg,0.05,-0.0000124\npdg,0.055,-0.0000124\nmax,200,20000\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    (results / "sweep.csv").write_text(SWEEP)
    return tmp_path


def problems(root: Path, page: str) -> list[str]:
    (root / "docs" / "page.md").write_text(page, encoding="utf-8")
    return check_numbers.check(root).problems


@pytest.mark.parametrize(
    "number",
    ["5.25", "5.3", "5.2", "5", "**5.25**"],
)
def test_right_numbers(root: Path, number: str):
    """5.25 lies between 5.2 and 5.3."""
    assert problems(root, f"It loses {number}<!-- {PER} --> %.") == []


@pytest.mark.parametrize(
    ("number", "source"),
    [
        ("-1.2e-5", "mean(gap){policy=pdg}"),
        ("−1.24e−5", "mean(gap){policy=pdg}"),
        ("−0.000012", "mean(gap){policy=pdg}"),
        ("20,000", "mean(gap){policy=max}"),
        ("2.00e+02", "mean(per){policy=max}"),
    ],
)
def test_ways_to_write_a_number(root: Path, number: str, source: str):
    assert problems(root, f"It is {number}<!-- sweep.csv: {source} -->.") == []


@pytest.mark.parametrize("number", ["5.1", "5.26", "5.250001", "-5.25", "52.5", "6"])
def test_a_wrong_number_is_named_with_its_line_and_source(root: Path, number: str):
    assert problems(root, f"First.\n\nIt loses {number}<!-- {PER} --> %.") == [
        f"docs/page.md:3: written {number}, found 5.25; source {PER}"
    ]


def test_a_range_is_not_a_minus(root: Path):
    assert problems(root, f"It loses 3-5.25<!-- {PER} --> %.") == []


def test_what_cannot_be_computed(root: Path):
    (found,) = problems(root, "It is 5<!-- sweep.csv: mean(price) -->.")
    assert found == (
        "docs/page.md:1: written 5, found nothing: there is no column 'price'; source "
        "sweep.csv: mean(price)"
    )
    (found,) = problems(root, "It is 5<!-- sweep.cvs: mean(per) -->.")
    assert "there is no file sweep.cvs" in found


def test_a_source_needs_a_number(root: Path):
    assert problems(root, f"It is five<!-- {PER} -->.") == [
        f"docs/page.md:1: no number right before the source {PER}"
    ]


def test_code_is_no_prose(root: Path):
    assert problems(root, f"```\n1<!-- {PER} -->\n```\n\n`2<!-- {PER} -->` and `` ` ``.") == []
    assert len(problems(root, f"A stray ` here.\n\n1<!-- {PER} --> and ` there.")) == 1


def table(cell: str, row: str = "it is good") -> str:
    return f"| claim | measured | 1.5 |\n| --- | --- | --- |\n| {row} | {cell} | 2.5 |\n"


def test_every_measured_number_needs_a_source(root: Path):
    assert problems(root, table("0.5 and 7 % and 1.2e-5 of 8")) == [
        "docs/page.md:3: measured 0.5 names no source",
        "docs/page.md:3: measured 1.2e-5 names no source",
        "docs/page.md:3: measured 7 names no source",
    ]


def test_measured_numbers_that_are_complete(root: Path):
    source = r"sweep.csv: 100 * mean(per){policy=pdg\|nobody}"
    assert problems(root, table(f"5.25<!-- {source} --> % of 8 workers, `0.5`")) == []
    assert problems(root, table("0.5", "it is good (`feduplink demo --seed 1`)")) == []
    assert problems(root, table("0.5", "`policy` is good")) != []
    assert problems(root, "| claim | found |\n| --- | --- |\n| it is good | 0.5 |\n") == []


def test_summary_and_exit_code(root: Path, capsys: pytest.CaptureFixture[str]):
    (root / "README.md").write_text(f"5.3<!-- {PER} -->, 5.4<!-- {PER} -->")
    assert check_numbers.main(root) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"README.md:1: written 5.4, found 5.25; source {PER}",
        "2 numbers compared with their CSV files, 1 problems",
    ]
    (root / "README.md").write_text("")
    assert check_numbers.main(root) == 0


def test_the_documentation():
    assert check_numbers.check(ROOT).problems == []
