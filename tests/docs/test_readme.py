"""README.md: its commands run in order in one directory, and what it says is what they say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from feduplink.storage.run_directory import METRICS_FILE

from .markdown import ROOT, Block, differences, run_all, wrongly_shown

PAGE = ROOT / "README.md"
#: Rows of tables of policies, the name without what explains it.
_ROW = re.compile(r"^\| `?(?P<name>[\w:]+)`?[^|]*\|(?P<cells>.*)\|$", re.MULTILINE)


def rows(table: str) -> dict[str, str]:
    """The cells of every policy, as text."""
    return {row["name"]: row["cells"] for row in _ROW.finditer(table)}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def printed(directory: Path) -> list[tuple[Block, str]]:
    return run_all(PAGE, directory)


@pytest.mark.slow
def test_what_is_shown_is_what_is_printed(printed: list[tuple[Block, str]]):
    assert wrongly_shown(printed) == []


@pytest.fixture
def runs(printed: list[tuple[Block, str]], directory: Path) -> Path:
    """Where the commands have written."""
    return directory / "runs/readme"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "run"), [(0, "default"), (1, "x8")])
def test_a_table_is_that_of_its_command(runs: Path, number: int, run: str):
    shown = rows(_tables()[number])
    made = rows((runs / run / "comparison.md").read_text("utf-8"))
    assert made.keys() == shown.keys()
    wrong = {name: differences(shown[name], cells) for name, cells in made.items()}
    assert {name: found for name, found in wrong.items() if found} == {}
    for name, cells in made.items():
        assert cells.split("|")[-1].strip() == shown[name].split("|")[-1].strip(), name


@pytest.mark.slow
def test_the_bound_under_strong_interference_is_as_said(runs: Path):
    optimum = json.loads((runs / "x8" / METRICS_FILE).read_text("utf-8"))["optimum"]
    [said] = re.findall(r"no feasible policy of its class exceeds (0\.\d+)", _prose())
    assert float(said) == pytest.approx(optimum["upper_bound"], abs=6e-4)


def _prose() -> str:
    return " ".join(PAGE.read_text("utf-8").split())


def _tables() -> list[str]:
    """The tables of policies, in order."""
    tables = re.findall(r"(?:^\|.*\n)+", PAGE.read_text("utf-8"), re.MULTILINE)
    return [table for table in tables if table.startswith("| policy |")]


def test_the_readme_is_short_and_names_the_paper_near_the_top():
    text = PAGE.read_text("utf-8")
    assert len(text.splitlines()) <= 160
    title = "Learning to Transmit with Provable Guarantees in Wireless Federated Learning"
    assert title in " ".join(text[:1100].split())
